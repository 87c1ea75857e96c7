// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/passes_for_target.h"

#include <utility>

#include "schedules/program/dot_products.h"
#include "tuner/evaluation.h"

namespace tw::tuner {

Result<graph::Passed> apply_passes_for(const Target& target, graph::Graph graph,
                                       const RewriteOptions& options,
                                       const Environment& environment) {
  graph::PassOptions passes;
  passes.disabled = options.left_out;
  passes.accuracy = options.accuracy;
  passes.stop = stop_on_interrupt(environment.interrupts);
  // The tensor tiles of GPUs read 16-bit floats, so factors are not widened to f32.
  if (target.is_gpu()) passes.disabled.insert("widen_factors");
  passes.precision = options.precision;
  for (const DType type : {Float16, BFloat16, UInt8, Int8})
    if (schedules::multiplies(target, type)) passes.multiplied.insert(type);
  Evaluator evaluator(host_target());
  passes.evaluate = [&](const dsl::Workload& workload, const dsl::Arrays& inputs) {
    return evaluator.outputs(workload, inputs);
  };
  passes.clock_s = [&] { return static_cast<double>(environment.clock()) / 1e9; };
  return graph::apply_passes(std::move(graph), passes);
}

}  // namespace tw::tuner

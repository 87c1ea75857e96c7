// SPDX-License-Identifier: Apache-2.0
#pragma once
// Explains a network on a GPU: for each step, and for a call of the network, the launches, the
// bytes that move, the occupancy, and the resource that limits the step according to the analytic
// model. The file of the network has all that is needed, so nothing is compiled, and no GPU is
// needed. The analytic model uses the numbers of the architecture in the table of machines.
//
//     if (const std::optional<GpuNetwork> network = gpu_network_of(model)) {
//       const GpuCall call = explain_call(model, 0, *network);   // of the first variant
//       print(as_text(facts_of(call)) + as_text(table_of_launches(call), here));
//     }
//
// Requires: models that pass runtime::check_model(). Thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "runtime/model_file.h"
#include "tools/reports/gpu_explanation.h"
#include "tools/reports/kernel_limits.h"
#include "tools/reports/report.h"

namespace tw::tools {

struct GpuKernel {
  KernelLimits limits;
  GpuExplanation gpu;
  /// Bytes of one call: each element of an array that the kernel reads or writes counts once. An
  /// input that only the preparation reads does not count; the results of the preparation do.
  double read_bytes = 0, written_bytes = 0;
};

/// The kernels of a network, which its variants share.
struct GpuNetwork {
  Target target;
  /// Explanations of ModelFile::kernels, in the same order. A kernel cannot be explained if this
  /// version of the program cannot read its schedule, or would make launches of it that differ from
  /// those in the file.
  std::vector<Result<GpuKernel>> kernels;
};
/// Explains the kernels of a network on a GPU with the numbers of `target`. Requires: `target` is
/// the GPU target for which the network was compiled.
GpuNetwork gpu_network_of(const runtime::ModelFile& model, const Target& target);

/// Sums over the runs of one step or of all steps in one call of a network. All sums but `launches`
/// leave out steps that cannot be explained.
struct GpuSums {
  int64_t launches = 0;
  double read_bytes = 0, written_bytes = 0;
  double dram_bytes = 0;   ///< bytes between L2 and DRAM that the model expects
  double analytic_ns = 0;  ///< time that the model expects
  double launch_ns = 0;    ///< the part of `analytic_ns` that launches take
};

struct GpuStep {
  std::string name;                   ///< name_with_runs()
  GpuSums sums;                       ///< of all runs of the step
  double time_ns = 0;                 ///< runtime::ModelStep::predicted_ns
  const Result<GpuKernel>* kernel{};  ///< an element of GpuNetwork::kernels
};

/// One call of a variant of a network.
struct GpuCall {
  Target target;
  int64_t array_bytes = 0;  ///< bytes of the constants and the arena
  std::vector<GpuStep> steps;
  GpuSums sums;
};
/// Explains one variant. Requires: `network` is that of the model, and outlives the result.
GpuCall explain_call(const runtime::ModelFile& model, size_t variant, const GpuNetwork& network);

/// Returns facts about the whole call: launches and whether they are one graph, expected time, and
/// bytes.
Facts facts_of(const GpuCall& call);
/// Returns a table with a row for each step. Occupancy, its limit and the waves have a value for
/// each launch of one run of the step. The column "time" is left out if the times in the file equal
/// those that the model predicts.
Table table_of_launches(const GpuCall& call);
/// Returns a table with a row for each resource that limits a step: the number of these steps and
/// the sum of their expected times, largest first.
Table table_of_limits(const GpuCall& call);

/// Returns the sums of the call as JSON. The second function returns a step as JSON.
nlohmann::json as_json(const GpuCall& call);
nlohmann::json as_json(const GpuStep& step);

}  // namespace tw::tools

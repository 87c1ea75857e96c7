// SPDX-License-Identifier: Apache-2.0
#include "graph/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "dsl/rounding.h"
#include "graph/passes/list.h"
#include "graph/passes/parts.h"

namespace tw::graph {
namespace {

// ---- verification -------------------------------------------------------------------------------

/// Arrays from N(0, 1) for all inputs. Every call returns the same arrays.
dsl::Arrays verification_inputs(const Graph& graph) {
  Random random(0x5eed);
  dsl::Arrays arrays;
  for (const Port& port : graph.inputs) {
    auto array = dsl::Array::make(port.type.dtype, port.type.shape);
    TW_CHECK(array.has_value(), "a valid graph has an input that is too large");
    dsl::fill_normal(*array, random);
    arrays.emplace(port.name, std::move(*array));
  }
  return arrays;
}

Result<dsl::Arrays> outputs_of(const Graph& graph, const dsl::Arrays& inputs) {
  TW_TRY(dsl::Arrays values, interpret(graph, inputs));
  dsl::Arrays outputs;
  for (const std::string& name : graph.outputs) {
    const auto constant = graph.constants.find(name);
    outputs.emplace(name, constant == graph.constants.end() ? std::move(values.at(name))
                                                            : *constant->second.array);
  }
  return outputs;
}

/// Returns the largest absolute error that is allowed for an element; 0 for integers. For floats it
/// is the largest finite magnitude of `expected` times a relative error: 2e-5, the bound of fast
/// kernels, or 8 unit roundoffs of the element type or of the type `factors`, whichever is largest.
double tolerance(const dsl::Array& expected, DType factors) {
  if (!is_float(expected.type)) return 0;
  double largest = 0;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected.get_float(i)))
      largest = std::max(largest, std::abs(expected.get_float(i)));
  const double roundoff = std::max(dsl::unit_roundoff(expected.type), dsl::unit_roundoff(factors));
  return largest * std::max(2e-5, 8 * roundoff);
}

bool is_close(double expected, double actual, double tolerance) {
  if (!std::isfinite(expected))
    return std::isnan(expected) ? std::isnan(actual) : expected == actual;
  return std::abs(expected - actual) <= tolerance;
}

/// Describes the first output that has another type or shape, or the first element that differs by
/// more than tolerance(). nullopt if the outputs agree.
std::optional<std::string> difference(const dsl::Arrays& before, const dsl::Arrays& after,
                                      DType factors) {
  for (const auto& [name, expected] : before) {
    const dsl::Array& actual = after.at(name);
    if (actual.type != expected.type || actual.shape != expected.shape)
      return fmt::format("the output '{}' has another type", name);
    const double allowed = tolerance(expected, factors);
    for (int64_t i = 0; i < expected.size(); ++i)
      if (!is_close(expected.get_float(i), actual.get_float(i), allowed))
        return fmt::format("element {} of the output '{}' was {} and is {}", i, name,
                           expected.get_float(i), actual.get_float(i));
  }
  return std::nullopt;
}

// ---- running ------------------------------------------------------------------------------------

Status check_names(const std::set<std::string>& disabled) {
  std::vector<std::string> known;
  for (const Pass& pass : passes()) known.emplace_back(pass.name);
  for (const std::string& name : disabled) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto near = nearest(name, known);
    return fail(
        ErrorCode::Usage,
        fmt::format("[passes] there is no pass '{}'{}; known: {}", name,
                    near ? fmt::format(", did you mean '{}'?", *near) : "", join(known, ", ")));
  }
  return {};
}

tl::unexpected<Error> broken(const Pass& pass, const std::string& why) {
  return fail(ErrorCode::Internal, fmt::format("[passes] {}: {}", pass.name, why));
}

/// Runs the pass on each part of the graph, then removes dead operators. A part may use constants
/// and results of other parts, so that only the whole graph shows which operators are dead.
Result<Graph> applied(const Pass& pass, Graph graph, const PassOptions& options) {
  if (graph.loops.empty()) return pass.apply(graph, options);
  for (const PartNumber number : parts_of(graph)) {
    TW_TRY(Graph part, pass.apply(part_of(graph, number), options));
    TW_TRY(graph, with_part(graph, number, std::move(part)));
  }
  return drop_dead(graph);
}

class PassRunner {
 public:
  PassRunner(Graph graph, const PassOptions& options) : options_(options) {
    passed_.graph = std::move(graph);
  }

  Result<Passed> run() {
    TW_RETURN_IF_ERROR(check_names(options_.disabled));
    TW_RETURN_IF_ERROR(validate(passed_.graph));
    if (options_.verify) {
      inputs_ = verification_inputs(passed_.graph);
      TW_TRY(outputs_, outputs_of(passed_.graph, inputs_));
    }
    take_accuracy();
    text_ = to_text(passed_.graph);
    for (const Pass& pass : passes()) {
      if (options_.disabled.contains(std::string(pass.name))) continue;
      TW_RETURN_IF_ERROR(check_not_stopped(options_.stop, "passes"));
      TW_RETURN_IF_ERROR(run(pass));
    }
    take_accuracy();
    return std::move(passed_);
  }

 private:
  Status run(const Pass& pass) {
    PassRun record{std::string(pass.name), 0, passed_.graph.operators.size(), 0};
    const double start = options_.clock_s();
    TW_TRY(passed_.graph, applied(pass, passed_.graph, options_));
    record.seconds = options_.clock_s() - start;
    record.operators_after = passed_.graph.operators.size();
    const std::string before = std::exchange(text_, to_text(passed_.graph));
    record.changed = text_ != before;
    passed_.runs.push_back(std::move(record));
    if (const Status valid = validate(passed_.graph); !valid)
      return broken(pass, valid.error().message);
    return options_.verify ? verify(pass) : Status{};
  }

  /// Applies PassOptions::accuracy to all operators, including Fast ones that passes have made.
  void take_accuracy() {
    if (options_.accuracy == dsl::Accuracy::Fast) return;
    for (Operator& op : passed_.graph.operators) op.workload.accuracy = options_.accuracy;
  }

  Status verify(const Pass& pass) {
    TW_TRY(dsl::Arrays outputs, outputs_of(passed_.graph, inputs_));
    const DType factors =
        pass.apply == round_factors ? options_.precision.value_or(Float32) : Float32;
    if (const auto found = difference(outputs_, outputs, factors)) return broken(pass, *found);
    outputs_ = std::move(outputs);
    return {};
  }

  const PassOptions& options_;
  Passed passed_;
  std::string text_;  ///< of the graph
  dsl::Arrays inputs_, outputs_;
};

/// Adapts a pass without options to Pass::apply.
template <Result<Graph> (*pass)(const Graph&)>
Result<Graph> without_options(const Graph& graph, const PassOptions& /*options*/) {
  return pass(graph);
}

}  // namespace

const std::vector<Pass>& passes() {
  static const std::vector<Pass> table = {
      {"drop_dead", "each operator is needed by an output, each constant is read",
       without_options<drop_dead>},
      {"narrow_products", "products of dequantized numbers of 8 bits are sums of integers",
       without_options<narrow_products>, true},
      {"fold_constants", "no operator reads constants alone, but for very large ones",
       fold_constants},
      {"narrow_factors",
       "dot products read data of 8 bits where the zero point can be subtracted from the sum",
       narrow_factors},
      {"widen_factors",
       "products read floats of 16 bits once each, by dot products, or find them as f32",
       widen_factors},
      {"remove_copies", "no copies, no reshape of a reshape, no transpose of a transpose",
       without_options<remove_copies>},
      {"sink_reshapes",
       "elementwise operators run before the reshape of what they could be fused with",
       without_options<sink_reshapes>},
      {"share_common", "equal operators on the same tensors, and equal constants, are one",
       without_options<share_common>},
      {"fuse_padding", "convolutions and max pooling by name pad their input themselves",
       without_options<fuse_padding>},
      {"fold_scale", "scales and shifts by channel are part of constant weights and the bias",
       without_options<fold_scale>},
      {"name_attention", "softmax(q k^T c) v is one operator 'attention'",
       without_options<name_attention>, true},
      {"fuse_elementwise",
       "chains and diamonds of elementwise operators of one shape are one, unless they narrow a "
       "sum",
       without_options<fuse_elementwise>},
      {"fuse_epilogues", "an operator with reductions has its only reader, if that is elementwise",
       without_options<fuse_epilogues>},
      {"fuse_prologues",
       "an operator with reductions, products aside, has elementwise operators that it alone reads",
       without_options<fuse_prologues>, true},
      {"merge_siblings", "1x1 convolutions side by side in a concatenation are one",
       without_options<merge_siblings>, true},
      {"nest_concatenations", "concatenations read the earlier ones that they contain",
       without_options<nest_concatenations>},
      {"compress_blocks",
       "products with constant weights read the blocks that are not zero, if at most half are left",
       without_options<compress_blocks>, true},
      {"round_factors",
       "products read floats of PassOptions::precision where the target gains by that",
       round_factors},
  };
  return table;
}

Result<Passed> apply_passes(Graph graph, const PassOptions& options) {
  return PassRunner(std::move(graph), options).run();
}

}  // namespace tw::graph

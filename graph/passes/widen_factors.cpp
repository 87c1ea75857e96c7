// SPDX-License-Identifier: Apache-2.0
// Most processors multiply floats of 16 bits as f32: they convert an element each time a product
// reads it, and a product reads each element many times. So this pass converts a tensor once, where
// an operator writes it or in the constant:
//
//   x = f16(v)                             x = f32(f16(v))
//   y = f16(sum(f32(x) * f32(w)))   ->     y = f16(sum(x * w'))          w' = f32(w), a constant
//
// The values of the tensor are the same, so no result changes. Reshapes, transposes and paddings
// may stand between the operator and the product.

#include <algorithm>
#include <set>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using dsl::Cast;
using dsl::Compute;
using dsl::Const;
using dsl::Expr;
using dsl::Read;
using dsl::Select;
using dsl::Stage;

bool is_half(DType type) { return is_float(type) && size_bytes(type) == 2; }

/// True if the expression reads the tensor only where it converts what it reads to f32.
bool converts(const Expr& expr, const std::string& tensor) {
  int converted = 0;
  dsl::for_each(expr, [&](const Expr& e) {
    const Cast* cast = e.as<Cast>();
    if (cast && cast->type == Float32 && is_half(cast->a.type()))
      converted += count_moved(cast->a, tensor).value_or(0);
  });
  return converted == count_reads(expr, tensor);
}

/// True if the operator only moves elements of this input of its compute, as a reshape, a padding
/// or a concatenation does.
bool moves(const Operator& op, const std::string& input) {
  const Stage* stage = only_stage(op);
  return stage && is_half(stage->type) && count_moved(stage->body, input).value_or(0) > 0;
}

/// Rewrites the expressions of a compute of which some inputs have become f32. All elements of
/// these inputs are numbers that their former 16-bit type represents.
class WideReads {
 public:
  /// `inputs` has the names of the inputs that have become f32, with their former types.
  explicit WideReads(std::map<std::string, DType> inputs) : inputs_(std::move(inputs)) {}

  /// Returns the expression with the widened inputs read as f32. Conversions to f32 of these reads,
  /// and of selects between these reads, are removed.
  Expr in(const Expr& body) const {
    if (inputs_.empty()) return body;
    return dsl::transform(body, [&](const Expr& e) -> std::optional<Expr> {
      if (const Read* read = e.as<Read>(); read && inputs_.contains(read->tensor))
        return dsl::cast(e.type(), dsl::read(read->tensor, read->indices, Float32));
      if (const Select* s = e.as<Select>(); s && is_half(e.type()))
        if (is_converted(s->a) || is_converted(s->b))
          return dsl::cast(e.type(), dsl::select(s->condition, widened(s->a), widened(s->b)));
      if (const Cast* cast = e.as<Cast>(); cast && cast->type == Float32 && is_converted(cast->a))
        return widened(cast->a);
      return std::nullopt;
    });
  }

  /// Converts a 16-bit expression to f32. If it is itself an exact conversion of an f32, returns
  /// that f32.
  Expr widened(const Expr& half) const {
    if (const Const* literal = half.as<Const>())
      return dsl::constant(Float32, literal->float_value);
    return is_converted(half) ? half.as<Cast>()->a : dsl::cast(Float32, half);
  }

 private:
  /// True if the 16-bit expression is a conversion of an f32 that changes no value.
  bool is_converted(const Expr& half) const {
    const Cast* cast = half.as<Cast>();
    return cast && is_half(half.type()) && cast->a.type() == Float32 &&
           is_exact(cast->a, half.type());
  }

  /// True if the 16-bit type `half` represents all values of the f32 expression.
  bool is_exact(const Expr& expr, DType half) const {
    if (const Read* read = expr.as<Read>()) {
      const auto wide = inputs_.find(read->tensor);
      return wide != inputs_.end() && wide->second == half;
    }
    if (const Cast* cast = expr.as<Cast>()) return cast->a.type() == half;
    if (const Const* literal = expr.as<Const>())
      return dsl::constant(half, literal->float_value).as<Const>()->float_value ==
             literal->float_value;
    const Select* select = expr.as<Select>();
    return select && is_exact(select->a, half) && is_exact(select->b, half);
  }

  std::map<std::string, DType> inputs_;
};

class FactorWidener {
 public:
  FactorWidener(const Graph& graph, const std::set<DType>& multiplied)
      : graph_(graph), multiplied_(multiplied), uses_(graph), names_(graph) {}

  Result<Graph> run() {
    choose();
    if (wide_.empty()) return graph_;
    Graph result{graph_.inputs, graph_.constants, {}, graph_.outputs};
    for (const auto& [name, constant] : graph_.constants) {
      if (!wide_.contains(name)) continue;
      renamed_[name] = names_.make(name + ".wide");
      TW_TRY(result.constants[renamed_[name]], converted(constant));
    }
    for (const Operator& op : graph_.operators) {
      TW_TRY(Operator widened, rewritten(op, result.constants));
      result.operators.push_back(std::move(widened));
    }
    return drop_dead(result);
  }

 private:
  /// Visits operators from the last to the first, because the input of a move is widened if its
  /// result is.
  void choose() {
    for (size_t i = graph_.operators.size(); i > 0; --i)
      for (const std::string& tensor : graph_.operators[i - 1].outputs)
        if (is_worth_it(tensor)) wide_.insert(tensor);
    for (const auto& [name, constant] : graph_.constants)
      if (is_half(constant.array->type) && is_worth_it(name)) wide_.insert(name);
  }

  bool is_worth_it(const std::string& tensor) const {
    if (uses_.is_output(tensor)) return false;
    if (const auto writer = uses_.writer(tensor); writer && !can_widen(*writer, tensor))
      return false;
    bool repeats = false;
    for (const size_t reader : uses_.readers(tensor)) {
      const Operator& op = graph_.operators[reader];
      const Compute& compute = op.workload.compute;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i] != tensor) continue;
        const dsl::Input& input = compute.inputs[i];
        const bool stays_wide = moves(op, input.name) && wide_.contains(op.outputs.front());
        const bool only_converts = std::ranges::all_of(
            compute.stages, [&](const Stage& s) { return converts(s.body, input.name); });
        if (!only_converts && !stays_wide) return false;
        if (is_multiplied(op, input)) return false;
        repeats = repeats || stays_wide || reads_repeatedly(compute, input);
      }
    }
    return repeats;
  }

  /// True if dot products of the target read the input.
  bool is_multiplied(const Operator& op, const dsl::Input& input) const {
    return multiplied_.contains(input.type) &&
           std::ranges::any_of(op.workload.compute.stages, [&](const Stage& stage) {
             const auto sum = weighted_sum(op.workload.compute, op.inputs, stage, graph_.constants);
             if (!sum) return false;
             const dsl::Read &data = *sum->data.read, &weights = *sum->weights.read;
             return data.type == weights.type &&
                    (data.tensor == input.name || weights.tensor == input.name) &&
                    has_dot_products(stage, *sum);
           });
  }

  /// True if the tensor is a stage of 16 bits that no other stage reads.
  bool can_widen(size_t writer, const std::string& tensor) const {
    const Operator& op = graph_.operators[writer];
    const Compute& compute = op.workload.compute;
    const auto at = std::ranges::find(op.outputs, tensor) - op.outputs.begin();
    const Stage& stage = *compute.find_stage(compute.outputs[static_cast<size_t>(at)]);
    return is_half(stage.type) && stage.combine == dsl::Combine::None &&
           compute.consumers(stage.name).empty();
  }

  static Result<Constant> converted(const Constant& constant) {
    TW_TRY(dsl::Array wide, dsl::Array::make(Float32, constant.array->shape));
    for (int64_t i = 0; i < wide.size(); ++i) wide.set_float(i, constant.array->get_float(i));
    return make_constant(std::move(wide));
  }

  Result<Operator> rewritten(const Operator& op,
                             const std::map<std::string, Constant>& constants) const {
    Compute compute = op.workload.compute;
    std::vector<std::string> tensors = op.inputs;
    std::map<std::string, DType> inputs;  // widened inputs of the compute, with their former types
    std::set<std::string> outputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!wide_.contains(tensors[i])) continue;
      inputs.emplace(compute.inputs[i].name, compute.inputs[i].type);
      compute.inputs[i].type = Float32;
      if (const auto name = renamed_.find(tensors[i]); name != renamed_.end())
        tensors[i] = name->second;
    }
    for (size_t i = 0; i < op.outputs.size(); ++i)
      if (wide_.contains(op.outputs[i])) outputs.insert(compute.outputs[i]);
    if (inputs.empty() && outputs.empty()) return op;
    const WideReads reads(std::move(inputs));
    for (Stage& stage : compute.stages) {
      stage.body = reads.in(stage.body);
      if (!outputs.contains(stage.name)) continue;
      stage.body = reads.widened(stage.body);
      stage.type = Float32;
    }
    return make_operator(compute, tensors, op.outputs, constants, &op.workload);
  }

  const Graph& graph_;
  const std::set<DType>& multiplied_;  ///< types that the target multiplies as they are
  Uses uses_;
  FreshNames names_;
  std::set<std::string> wide_;                  ///< tensors of the graph that become f32
  std::map<std::string, std::string> renamed_;  ///< new names of the constants in wide_
};

}  // namespace

Result<Graph> widen_factors(const Graph& graph, const PassOptions& options) {
  return FactorWidener(graph, options.multiplied).run();
}

}  // namespace tw::graph

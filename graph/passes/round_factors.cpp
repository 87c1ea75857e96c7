// SPDX-License-Identifier: Apache-2.0
// Products of f32 read floats of 16 bits, of the type that PassOptions::precision names:
//
//   x = v                              x = bf16(v)
//   y = sum(x * w)                     y = sum(f32(x) * f32(w'))          w' = bf16(w), a constant
//   z = x + 1                ->        z = f32(x) + 1
//
// Sums stay f32. A target that multiplies the type as it is gains by both factors, in products that
// its instructions compute. Any target gains where a product waits for a constant from memory,
// which then has half the bytes: only the constant is rounded there. Operators that only move
// elements of a rounded tensor move numbers of 16 bits. Inputs and outputs of the graph keep their
// types; products read a rounded copy of them.

#include <algorithm>
#include <cmath>
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

// Smaller constants stay in the caches between two calls. 64 KiB.
constexpr double least_elements = 16384;

/// The factors of a sum of products of an input and a constant, as numbers of inputs.
struct Factors {
  size_t data = 0, weights = 0;
  const Read *of_data, *of_weights;
};

/// The read of a factor, in a padding of zeros or not.
const Read* factor_read(const Expr& factor) {
  const Select* guard = factor.as<Select>();
  if (guard && !dsl::is_zero_bytes(guard->b)) return nullptr;
  return (guard ? guard->a : factor).as<Read>();
}

bool is_along(const Read& read, const std::string& axis) {
  return std::ranges::any_of(read.indices,
                             [&](const Expr& index) { return dsl::uses_var(index, axis); });
}

/// True if lanes can lie along an axis of the weights alone, and each lane can sum two products.
bool has_dot_products(const Stage& stage, const Factors& factors) {
  const bool has_lanes = std::ranges::any_of(stage.axes, [&](const dsl::Axis& axis) {
    return axis.extent > 1 && is_along(*factors.of_weights, axis.name) &&
           !is_along(*factors.of_data, axis.name);
  });
  return has_lanes && std::ranges::any_of(stage.reduction, [&](const dsl::Axis& axis) {
           return axis.extent % 2 == 0 && is_along(*factors.of_weights, axis.name) &&
                  is_along(*factors.of_data, axis.name);
         });
}

/// True if the operator only moves elements of its inputs.
bool moves(const Operator& op) {
  const Stage* stage = only_stage(op);
  return stage && stage->type == Float32 && count_moved(stage->body, "").has_value();
}

/// The array in the type; nullopt where a number overflows.
std::optional<dsl::Array> rounded_array(const dsl::Array& array, DType type) {
  auto rounded = dsl::Array::make(type, array.shape);
  if (!rounded) return std::nullopt;
  for (int64_t i = 0; i < array.size(); ++i) {
    rounded->set_float(i, array.get_float(i));
    if (std::isinf(rounded->get_float(i)) && std::isfinite(array.get_float(i))) return std::nullopt;
  }
  return std::move(*rounded);
}

class FactorRounder {
 public:
  FactorRounder(const Graph& graph, DType type, bool multiplies)
      : graph_(graph), type_(type), multiplies_(multiplies), uses_(graph), names_(graph) {}

  Result<Graph> run() {
    result_ = {graph_.inputs, graph_.constants, {}, graph_.outputs};
    for (size_t i = 0; i < graph_.operators.size(); ++i) choose(i);
    if (rounded_.empty() && bound_.empty()) return graph_;
    follow_moves();
    for (const Port& port : graph_.inputs) TW_RETURN_IF_ERROR(add_copy(port.name));
    for (size_t i = 0; i < graph_.operators.size(); ++i) {
      TW_TRY(Operator op, rewritten(i));
      result_.operators.push_back(std::move(op));
      for (const std::string& tensor : graph_.operators[i].outputs)
        TW_RETURN_IF_ERROR(add_copy(tensor));
    }
    return drop_dead(result_);
  }

 private:
  /// An input of an operator: their numbers.
  using Place = std::pair<size_t, size_t>;

  void choose(size_t i) {
    const Operator& op = graph_.operators[i];
    if (!is_fast(op)) return;
    const Compute& compute = op.workload.compute;
    for (const Stage& stage : compute.stages) {
      const auto factors = factors_of(op, stage);
      if (!factors) continue;
      const bool is_dot = multiplies_ && has_dot_products(stage, *factors);
      const dsl::Input& weights = compute.inputs[factors->weights];
      const bool waits =
          elements_in(weights.shape) >= least_elements && !reads_repeatedly(compute, weights);
      if (!is_dot && !waits) continue;
      if (!bind_weights({i, factors->weights}) || !is_dot) continue;
      const std::string& data = op.inputs[factors->data];
      if (is_own(data)) {
        rounded_.insert(data);
      } else {
        copies_.emplace(data, names_.make(data + ".rounded"));
        bound_[{i, factors->data}] = copies_.at(data);
      }
    }
  }

  std::optional<Factors> factors_of(const Operator& op, const Stage& stage) const {
    const dsl::Binary* product = stage.body.as<dsl::Binary>();
    if (stage.combine != dsl::Combine::Sum || stage.scan || stage.type != Float32 || !product ||
        product->op != dsl::BinaryOp::Mul)
      return std::nullopt;
    const Read *a = factor_read(product->a), *b = factor_read(product->b);
    if (!a || !b) return std::nullopt;
    const auto i = input_number(op, *a), j = input_number(op, *b);
    if (!i || !j || *i == *j || is_constant(op.inputs[*i]) == is_constant(op.inputs[*j]))
      return std::nullopt;
    return is_constant(op.inputs[*j]) ? Factors{*i, *j, a, b} : Factors{*j, *i, b, a};
  }

  /// The number of the input of f32 that is read; nullopt for stages and other types.
  static std::optional<size_t> input_number(const Operator& op, const Read& read) {
    const std::vector<dsl::Input>& inputs = op.workload.compute.inputs;
    const auto found =
        std::ranges::find_if(inputs, [&](const auto& input) { return input.name == read.tensor; });
    if (found == inputs.end() || found->type != Float32) return std::nullopt;
    return static_cast<size_t>(found - inputs.begin());
  }

  bool is_constant(const std::string& tensor) const { return graph_.constants.contains(tensor); }
  /// True if an operator writes the tensor, and it is no output of the graph.
  bool is_own(const std::string& tensor) const {
    return uses_.writer(tensor) && !uses_.is_output(tensor);
  }

  /// False where the weights overflow.
  bool bind_weights(Place place) {
    const std::string& weights = graph_.operators[place.first].inputs[place.second];
    const auto [known, is_new] = weights_.try_emplace(weights);
    if (is_new) {
      if (auto array = rounded_array(*graph_.constants.at(weights).array, type_)) {
        known->second = names_.make(weights + ".rounded");
        result_.constants[known->second] = make_constant(std::move(*array));
      }
    }
    if (known->second.empty()) return false;
    bound_[place] = known->second;
    return true;
  }

  /// Rounds what is moved to rounded tensors, and what rounded tensors are moved to.
  void follow_moves() {
    std::vector<std::string> left(rounded_.begin(), rounded_.end());
    const auto add = [&](const std::string& tensor) {
      if (is_own(tensor) && rounded_.insert(tensor).second) left.push_back(tensor);
    };
    while (!left.empty()) {
      const std::string tensor = std::move(left.back());
      left.pop_back();
      const Operator& writer = graph_.operators[*uses_.writer(tensor)];
      if (moves(writer)) std::ranges::for_each(writer.inputs, add);
      for (const size_t reader : uses_.readers(tensor))
        if (moves(graph_.operators[reader])) add(graph_.operators[reader].outputs.front());
    }
  }

  /// Adds the rounded copy of an input or output of the graph, if a product reads it.
  Status add_copy(const std::string& tensor) {
    const auto copy = copies_.find(tensor);
    if (copy == copies_.end()) return {};
    const auto& [reader, input] = std::ranges::find_if(bound_, [&](const auto& bound) {
                                    return bound.second == copy->second;
                                  })->first;
    const Compute& compute = graph_.operators[reader].workload.compute;
    Stage stage{"out", type_, {}, {}, dsl::Combine::None, {}, ""};
    std::vector<Expr> indices;
    for (const int64_t extent : compute.inputs[input].shape) {
      stage.axes.push_back({"i" + std::to_string(stage.axes.size()), extent});
      indices.push_back(dsl::var(stage.axes.back().name));
    }
    stage.body = dsl::cast(type_, dsl::read("in", indices, Float32));
    Compute rounding{
        {{"in", Float32, compute.inputs[input].shape, false, ""}}, {std::move(stage)}, {"out"}};
    TW_TRY(Operator op, make_operator(rounding, {tensor}, {copy->second}, result_.constants));
    result_.operators.push_back(std::move(op));
    return {};
  }

  Result<Operator> rewritten(size_t i) const {
    const Operator& op = graph_.operators[i];
    Compute compute = op.workload.compute;
    std::vector<std::string> tensors = op.inputs;
    std::set<std::string> inputs;  // of the compute, that are rounded
    for (size_t k = 0; k < tensors.size(); ++k) {
      const auto bound = bound_.find({i, k});
      if (bound == bound_.end() && !rounded_.contains(tensors[k])) continue;
      inputs.insert(compute.inputs[k].name);
      compute.inputs[k].type = type_;
      if (bound != bound_.end()) tensors[k] = bound->second;
    }
    for (Stage& stage : compute.stages) stage.body = with_rounded(stage.body, inputs);
    bool writes_rounded = false;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (!rounded_.contains(op.outputs[k])) continue;
      round_output(compute, k);
      writes_rounded = true;
    }
    if (inputs.empty() && !writes_rounded) return op;
    return make_operator(compute, tensors, op.outputs, result_.constants, &op.workload);
  }

  Expr with_rounded(const Expr& body, const std::set<std::string>& inputs) const {
    return dsl::transform(body, [&](const Expr& e) -> std::optional<Expr> {
      const Read* read = e.as<Read>();
      if (!read || !inputs.contains(read->tensor)) return std::nullopt;
      return dsl::cast(Float32, dsl::read(read->tensor, read->indices, type_));
    });
  }

  /// Rounds a stage that is an output. A reduction, and a stage that others read, stays as it is,
  /// and a stage behind it is the output.
  void round_output(Compute& compute, size_t output) const {
    std::string& name = compute.outputs[output];
    Stage& stage =
        *std::ranges::find_if(compute.stages, [&](const Stage& each) { return each.name == name; });
    if (stage.combine == dsl::Combine::None && compute.consumers(name).empty()) {
      stage.body = rounded(stage.body);
      stage.type = type_;
      return;
    }
    Stage behind{name + "_rounded", type_, stage.axes, {}, dsl::Combine::None, {}, ""};
    std::vector<Expr> indices;
    for (const dsl::Axis& axis : stage.axes) indices.push_back(dsl::var(axis.name));
    behind.body = dsl::cast(type_, dsl::read(name, indices, Float32));
    name = behind.name;
    compute.stages.push_back(std::move(behind));
  }

  /// An f32 in the type. What only chooses between rounded numbers chooses between numbers of 16
  /// bits.
  Expr rounded(const Expr& wide) const {
    if (const Const* literal = wide.as<Const>()) return dsl::constant(type_, literal->float_value);
    if (const Cast* cast = wide.as<Cast>(); cast && cast->a.type() == type_) return cast->a;
    if (const Select* select = wide.as<Select>())
      return dsl::select(select->condition, rounded(select->a), rounded(select->b));
    return dsl::cast(type_, wide);
  }

  const Graph& graph_;
  const DType type_;
  const bool multiplies_;  ///< the target multiplies the type as it is
  Uses uses_;
  FreshNames names_;
  Graph result_;
  std::set<std::string> rounded_;               ///< tensors that operators write in 16 bits
  std::map<std::string, std::string> weights_;  ///< rounded constants; empty: it would overflow
  std::map<std::string, std::string> copies_;   ///< of inputs and outputs of the graph
  std::map<Place, std::string> bound_;          ///< inputs of products: the rounded tensor
};

}  // namespace

Result<Graph> round_factors(const Graph& graph, const PassOptions& options) {
  if (!options.precision) return graph;
  const bool multiplies = options.multiplied.contains(*options.precision);
  return FactorRounder(graph, *options.precision, multiplies).run();
}

}  // namespace tw::graph

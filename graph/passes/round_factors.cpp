// SPDX-License-Identifier: Apache-2.0
// Makes products of f32 read floats of 16 bits, of the type PassOptions::precision:
//
//   x = v                              x = bf16(v)
//   y = sum(x * w)                     y = sum(f32(x) * f32(w'))          w' = bf16(w), a constant
//   z = x + 1                ->        z = f32(x) + 1
//
// Sums stay f32. On a target with instructions that multiply this type, both factors of the
// products that these instructions compute are rounded. On any target a product that waits for a
// constant from memory gains, since the constant then has half the bytes. In such a product only
// the constant is rounded. Operators that only move elements, and whose result is rounded, move
// numbers of 16 bits. Inputs and outputs of the graph keep their types. So do tensors that other
// readers would convert many times: products read a rounded copy of these.

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

// Constants of fewer elements may stay in L2 between two calls. The limit is 256 KiB of f32.
constexpr double least_elements = 65536;

/// True if the operator only chooses between elements of its inputs and literals.
bool only_moves(const Operator& op) {
  const Stage* stage = only_stage(op);
  return stage && stage->type == Float32 && is_choice(stage->body);
}

/// The array rounded to the type; nullopt if a number overflows.
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
    for (size_t i = 0; i < graph_.operators.size(); ++i) choose_products(i);
    if (bound_.empty()) return graph_;
    choose_data();
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
  /// An input of an operator, given by the index of the operator and the index of the input.
  using Place = std::pair<size_t, size_t>;

  /// For each product in operator i that gains by it, binds its weights to rounded weights. Notes
  /// the other factors of dot products in data_.
  void choose_products(size_t i) {
    const Operator& op = graph_.operators[i];
    if (!is_fast(op)) return;
    const Compute& compute = op.workload.compute;
    for (const Stage& stage : compute.stages) {
      const auto sum = weighted_sum(op.workload.compute, op.inputs, stage, graph_.constants);
      if (!sum || stage.type != Float32) continue;
      const auto& [data, weights] = *sum;
      if (data.read->type != Float32 || weights.read->type != Float32) continue;
      const bool is_dot = multiplies_ && has_dot_products(stage, *sum);
      const dsl::Input& input = compute.inputs[weights.input];
      const bool waits =
          dsl::elements_of(input.shape) >= least_elements && !reads_repeatedly(compute, input);
      if ((is_dot || waits) && bind_weights({i, weights.input}) && is_dot)
        data_.insert({i, data.input});
    }
  }

  /// Binds an input to rounded weights, which are made once for all inputs. Returns false if a
  /// weight would overflow.
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

  /// Rounds the data of dot products where the data is written, or binds the dot products to a
  /// rounded copy.
  void choose_data() {
    for (const Place& place : data_) {
      const Operator& op = graph_.operators[place.first];
      const std::string& tensor = op.inputs[place.second];
      if (can_round(tensor)) {
        rounded_.insert(tensor);
        continue;
      }
      const auto [copy, is_new] = copies_.try_emplace(tensor);
      if (is_new)
        copy->second = {names_.make(tensor + ".rounded"),
                        op.workload.compute.inputs[place.second].shape};
      bound_[place] = copy->second.name;
    }
  }

  /// True if an operator writes the tensor, it is not an output of the graph, and no reader would
  /// convert its elements many times.
  bool can_round(const std::string& tensor) const {
    const auto writer = uses_.writer(tensor);
    if (!writer || uses_.is_output(tensor) || !is_fast(graph_.operators[*writer])) return false;
    return std::ranges::all_of(uses_.readers(tensor), [&](size_t reader) {
      const Operator& op = graph_.operators[reader];
      if (!is_fast(op)) return false;
      for (size_t k = 0; k < op.inputs.size(); ++k)
        if (op.inputs[k] == tensor && !data_.contains({reader, k}) &&
            reads_repeatedly(op.workload.compute, op.workload.compute.inputs[k]))
          return false;
      return true;
    });
  }

  /// Rounds the inputs of moves whose results are rounded, and the results of moves whose inputs
  /// are all rounded.
  void follow_moves() {
    for (size_t i = graph_.operators.size(); i-- > 0;) {
      const Operator& op = graph_.operators[i];
      if (!only_moves(op) || !rounded_.contains(op.outputs.front())) continue;
      for (const std::string& tensor : op.inputs)
        if (can_round(tensor)) rounded_.insert(tensor);
    }
    for (const Operator& op : graph_.operators)
      if (only_moves(op) && can_round(op.outputs.front()) &&
          std::ranges::all_of(op.inputs, [&](const auto& t) { return rounded_.contains(t); }))
        rounded_.insert(op.outputs.front());
  }

  /// Adds the rounded copy of a tensor, if there is one.
  Status add_copy(const std::string& tensor) {
    const auto copy = copies_.find(tensor);
    if (copy == copies_.end()) return {};
    const auto& [name, shape] = copy->second;
    Stage stage{"out", type_, {}, {}, dsl::Combine::None, {}, ""};
    for (const int64_t extent : shape)
      stage.axes.push_back({"i" + std::to_string(stage.axes.size()), extent});
    stage.body = dsl::cast(type_, dsl::read("in", variables_of(stage.axes), Float32));
    const Compute rounding{{{"in", Float32, shape, false, ""}}, {std::move(stage)}, {"out"}};
    TW_TRY(Operator op, make_operator(rounding, {tensor}, {name}, result_.constants));
    result_.operators.push_back(std::move(op));
    return {};
  }

  static std::vector<Expr> variables_of(const std::vector<dsl::Axis>& axes) {
    std::vector<Expr> variables;
    for (const dsl::Axis& axis : axes) variables.push_back(dsl::var(axis.name));
    return variables;
  }

  Result<Operator> rewritten(size_t i) const {
    const Operator& op = graph_.operators[i];
    Compute compute = op.workload.compute;
    std::vector<std::string> tensors = op.inputs;
    std::set<std::string> inputs;  // rounded inputs of the compute
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

  /// Returns the expression with each read of these inputs converted to f32. A padding with zeros
  /// is inside of the conversion, as tensor tiles need it.
  Expr with_rounded(const Expr& body, const std::set<std::string>& inputs) const {
    return dsl::transform(body, [&](const Expr& e) -> std::optional<Expr> {
      const Read* read = e.as<Read>();
      if (read && inputs.contains(read->tensor))
        return dsl::cast(Float32, dsl::read(read->tensor, read->indices, type_));
      const Select* guard = e.as<Select>();
      if (!guard || !dsl::is_zero_bytes(guard->b) || !guard->a.as<Cast>()) return std::nullopt;
      const auto padded = as_rounded(e);
      return padded ? std::optional(dsl::cast(Float32, *padded)) : std::nullopt;
    });
  }

  /// Rounds a stage that is an output. If the stage is a reduction, or other stages read it, it
  /// stays unchanged, and a new stage that rounds it becomes the output.
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
    behind.body = dsl::cast(type_, dsl::read(name, variables_of(stage.axes), Float32));
    name = behind.name;
    compute.stages.push_back(std::move(behind));
  }

  /// Rounds an f32 expression to the 16-bit type. If as_rounded() finds a 16-bit expression with
  /// its values, returns that expression.
  Expr rounded(const Expr& wide) const {
    if (const auto narrow = as_rounded(wide)) return *narrow;
    return dsl::cast(type_, wide);
  }

  /// Returns the 16-bit expression from which an f32 expression was converted. A literal is
  /// rounded, and a select between converted expressions is a select between the 16-bit
  /// expressions. nullopt for other expressions.
  std::optional<Expr> as_rounded(const Expr& wide) const {
    if (const Const* literal = wide.as<Const>()) return dsl::constant(type_, literal->float_value);
    if (const Cast* cast = wide.as<Cast>())
      return cast->a.type() == type_ ? std::optional(cast->a) : std::nullopt;
    const Select* select = wide.as<Select>();
    if (!select) return std::nullopt;
    const auto a = as_rounded(select->a), b = as_rounded(select->b);
    if (!a || !b) return std::nullopt;
    return dsl::select(select->condition, *a, *b);
  }

  struct Copy {
    std::string name;
    std::vector<int64_t> shape;
  };

  const Graph& graph_;
  const DType type_;
  const bool multiplies_;  ///< true if the target has instructions that multiply the type
  Uses uses_;
  FreshNames names_;
  Graph result_;
  std::set<Place> data_;           ///< data factors of dot products
  std::set<std::string> rounded_;  ///< tensors that operators write in 16 bits
  /// Name of each rounded constant; empty if it would overflow.
  std::map<std::string, std::string> weights_;
  std::map<std::string, Copy> copies_;  ///< rounded copies of tensors that stay f32
  std::map<Place, std::string> bound_;  ///< rounded tensors that inputs of products are bound to
};

}  // namespace

Result<Graph> round_factors(const Graph& graph, const PassOptions& options) {
  if (!options.precision) return graph;
  const bool multiplies = options.multiplied.contains(*options.precision);
  return FactorRounder(graph, *options.precision, multiplies).run();
}

}  // namespace tw::graph

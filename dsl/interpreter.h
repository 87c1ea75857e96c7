// SPDX-License-Identifier: Apache-2.0
#pragma once
// The evaluator of expressions that interpret.cpp and rounding.cpp share. Its template parameter is
// the kind of number: a plain value in interpret.cpp, and a value with an error bound in
// rounding.cpp. Private to these two sources; not thread-safe.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dsl/array.h"
#include "dsl/compute.h"
#include "dsl/interpret.h"
#include "dsl/value.h"

namespace tw::dsl {

/// Fails with Usage if an input of the compute is missing in `inputs` or has another type or shape
/// there. The message names the first such input.
Status check_inputs(const Compute& compute, const Arrays& inputs);
Error no_such_tensor(const std::string& name);
/// Returns the error for a read outside of its tensor.
Error outside_of(const std::string& tensor, const std::vector<int64_t>& indices,
                 const std::vector<int64_t>& shape);

/// Returns the operation by which a reduction combines two numbers.
BinaryOp operation(Combine combine);
/// Returns the value of a literal.
Value constant_of(const Expr& literal);
inline Value rounded(DType type, Value a) {
  return is_float(type) ? Value{round_to(type, a.f), 0} : Value{0, wrap_to(type, a.i)};
}

/// A node of an expression, in which positions replace names so that evaluating it needs no
/// look-up. In a variable, `slot` is the position of its axis in the vector of indices that
/// evaluate() receives. In a read, `slot` is the position of the tensor in tensors_. Other nodes do
/// not use `slot`.
struct Node {
  const ExprNode* expr;
  size_t slot = 0;
  std::vector<Node> children;
};

inline std::vector<Axis> domain(const Stage& stage) {
  std::vector<Axis> axes = stage.axes;
  axes.insert(axes.end(), stage.reduction.begin(), stage.reduction.end());
  return axes;
}

/// The recursive part of for_each_point(). Requires: no axis in [first, last) is empty.
template <typename Visit>
bool visit_points(const std::vector<Axis>& axes, size_t first, size_t last,
                  std::vector<int64_t>& point, const Visit& visit) {
  if (first == last) return visit();
  for (int64_t i = 0; i < axes[first].extent; ++i) {
    point[first] = i;
    if (!visit_points(axes, first + 1, last, point, visit)) return false;
  }
  return true;
}

/// Calls `visit` for each combination of indices of the axes [first, last) of `axes`; the last axis
/// varies fastest. Before each call it writes the indices to `point`. It ends and returns false as
/// soon as `visit` returns false, and otherwise returns true. If an axis is empty, it returns at
/// once, even if another axis has 2^40 iterations.
template <typename Visit>
bool for_each_point(const std::vector<Axis>& axes, size_t first, size_t last,
                    std::vector<int64_t>& point, const Visit& visit) {
  for (size_t i = first; i < last; ++i)
    if (axes[i].extent == 0) return true;
  return visit_points(axes, first, last, point, visit);
}

/// Evaluates a compute. `Arithmetic` is a kind of number and its operations:
///   Number of(DType, Value)                 makes a number of a constant or an input's element
///   value(Number)                           the value without an error bound, for indices
///   apply(op, types..., Numbers), convert   as in dsl/value.h
///   rounded(DType, Number)                  the number after a stage of that type stores it
///   depending(Number, Number)               the first number, after the second one selected it
///   Total(const Stage&)                     a running reduction: add(Number), result()
template <typename Arithmetic>
class Interpreter {
  using Number = typename Arithmetic::Number;
  static constexpr size_t most_kept = 1 << 20;

 public:
  Interpreter(const Compute& compute, const Arrays& inputs) : compute_(compute) {
    for (const Input& input : compute.inputs) {
      tensors_.push_back(
          {input.name, input.type, input.shape, &inputs.at(input.name), nullptr, {}, {}});
      numbers_[input.name] = tensors_.size() - 1;
    }
    for (const Stage& stage : compute.stages) {
      std::vector<Axis> axes = domain(stage);
      Node body = resolve(stage.body, axes);
      tensors_.push_back({stage.name, stage.type, stage.shape(), nullptr, &stage, std::move(axes),
                          std::move(body)});
      numbers_[stage.name] = tensors_.size() - 1;
    }
    kept_.resize(tensors_.size());
  }

  /// Computes all outputs. Requires: this is the only call of run() or sample() on this
  /// interpreter.
  Result<Arrays> run() {
    Arrays computed;
    for (Tensor& tensor : tensors_) {
      if (!tensor.stage) continue;
      TW_TRY(Array array, Array::make(tensor.type, tensor.shape));
      fill(tensor, array);
      if (error_) return tl::unexpected<Error>(*error_);
      tensor.array = &(computed[tensor.name] = std::move(array));
    }
    Arrays outputs;
    for (const std::string& name : compute_.outputs) outputs[name] = std::move(computed[name]);
    return outputs;
  }

  /// Evaluates one element of the tensor `name`. The elements of other stages that it reads are
  /// kept for later calls.
  Result<Number> sample(const std::string& name, const std::vector<int64_t>& indices) {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) return tl::unexpected(no_such_tensor(name));
    const Number number = element(tensors_[found->second], indices);
    if (error_) return tl::unexpected<Error>(*error_);
    return number;
  }

  /// Returns the work done so far: the number of elements of stages plus the number of terms of
  /// reductions that were evaluated.
  int64_t evaluations() const { return evaluations_; }

 private:
  struct Tensor {
    std::string name;
    DType type;
    std::vector<int64_t> shape;
    const Array* array;  ///< null: elements are computed when they are read
    const Stage* stage;  ///< null for inputs
    std::vector<Axis> domain;
    Node body;
  };

  Node resolve(const Expr& expr, const std::vector<Axis>& axes) const {
    Node node{&expr.node(), 0, {}};
    const auto add = [&](const Expr& child) { node.children.push_back(resolve(child, axes)); };
    dsl::visit(
        expr,
        [&](const Var& v) {
          const auto at = std::find_if(axes.begin(), axes.end(),
                                       [&](const Axis& axis) { return axis.name == v.name; });
          node.slot = static_cast<size_t>(at - axes.begin());
        },
        [&](const Read& r) {
          node.slot = numbers_.at(r.tensor);
          for (const Expr& index : r.indices) add(index);
        },
        [&](const Unary& u) { add(u.a); },
        [&](const Binary& b) {
          add(b.a);
          add(b.b);
        },
        [&](const Select& s) {
          add(s.condition);
          add(s.a);
          add(s.b);
        },
        [&](const Cast& c) { add(c.a); }, ignore<Const>);
    return node;
  }

  void fill(const Tensor& tensor, Array& array) {
    if (tensor.stage->scan) return fill_scan(tensor, array);
    std::vector<int64_t> point(tensor.domain.size());
    int64_t position = 0;
    for_each_point(tensor.stage->axes, 0, tensor.stage->axes.size(), point, [&] {
      store(Arithmetic::value(reduce(tensor, point)), array, position++);
      return !error_;
    });
  }

  static void store(Value value, Array& array, int64_t position) {
    if (is_float(array.type)) {
      array.set_float(position, value.f);
    } else {
      array.set_int(position, value.i);
    }
  }

  /// Computes all elements of a scan. It keeps a running total while it moves along the axis, so it
  /// evaluates each term once.
  void fill_scan(const Tensor& tensor, Array& array) {
    const Stage& stage = *tensor.stage;
    const size_t along = stage.scanned_axis(), rank = stage.axes.size();
    std::vector<Axis> starts = stage.axes;
    starts[along].extent = std::min<int64_t>(starts[along].extent, 1);
    std::vector<int64_t> point(tensor.domain.size());
    for_each_point(starts, 0, rank, point, [&] {
      typename Arithmetic::Total total(stage);
      std::vector<int64_t> at(point.begin(), point.begin() + static_cast<ptrdiff_t>(rank));
      const auto store_total = [&] {
        store(Arithmetic::value(Arithmetic::rounded(stage.type, total.result())), array,
              array.offset(at));
      };
      for (int64_t i = 0; i < stage.axes[along].extent && !error_; ++i) {
        at[along] = point[rank] = i;
        if (!stage.scan->inclusive) store_total();
        total.add(evaluate(tensor.body, point));
        if (stage.scan->inclusive) store_total();
      }
      return !error_;
    });
  }

  /// Evaluates one element of a stage. The first entries of `point` are the element's indices; the
  /// entries for the reduction axes follow, and are overwritten.
  Number reduce(const Tensor& tensor, std::vector<int64_t>& point) {
    const Stage& stage = *tensor.stage;
    ++evaluations_;
    if (stage.combine == Combine::None)
      return Arithmetic::rounded(stage.type, evaluate(tensor.body, point));
    typename Arithmetic::Total total(stage);
    const std::vector<Axis>& terms = tensor.domain;
    const int64_t end = stage.scan ? point[stage.scanned_axis()] + stage.scan->inclusive : 0;
    for_each_point(terms, stage.axes.size(), terms.size(), point, [&] {
      if (stage.scan && point.back() >= end) return false;
      total.add(evaluate(tensor.body, point));
      ++evaluations_;
      return !error_;
    });
    return Arithmetic::rounded(stage.type, total.result());
  }

  Number element(const Tensor& tensor, const std::vector<int64_t>& indices) {
    if (indices.size() != tensor.shape.size()) return outside(tensor, indices);
    int64_t position = 0;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= tensor.shape[i]) return outside(tensor, indices);
      position = position * tensor.shape[i] + indices[i];
    }
    if (!tensor.array) return computed(tensor, indices, position);
    if (is_float(tensor.type))
      return Arithmetic::of(tensor.type, {tensor.array->get_float(position), 0});
    return Arithmetic::of(tensor.type, {0, tensor.array->get_int(position)});
  }

  /// Returns an element of a stage, and keeps it so that it is computed once. Without that, each
  /// term of a softmax would compute the maximum of its row again, and in a chain of stages that
  /// each read the previous stage twice, the work would double with each stage. A stage without a
  /// reduction keeps at most most_kept elements. Such a stage may define the terms of a long sum,
  /// each of which is read once; keeping them all would fill the memory.
  Number computed(const Tensor& tensor, const std::vector<int64_t>& indices, int64_t position) {
    auto& kept = kept_[static_cast<size_t>(&tensor - tensors_.data())];
    if (const auto found = kept.find(position); found != kept.end()) return found->second;
    std::vector<int64_t> point = indices;
    point.resize(tensor.domain.size());
    const Number value = reduce(tensor, point);
    if (tensor.stage->combine != Combine::None || kept.size() < most_kept)
      kept.emplace(position, value);
    return value;
  }

  Number outside(const Tensor& tensor, const std::vector<int64_t>& indices) {
    if (!error_) error_ = outside_of(tensor.name, indices, tensor.shape);
    return {};
  }

  Number evaluate(const Node& node, const std::vector<int64_t>& point) {
    const auto& value = node.expr->value;
    if (const auto* c = std::get_if<Const>(&value))
      return Arithmetic::of(c->type, {c->float_value, c->int_value});
    if (std::holds_alternative<Var>(value)) return Arithmetic::of(Int64, {0, point[node.slot]});
    if (std::holds_alternative<Read>(value)) return evaluate_read(node, point);
    const Number a = evaluate(node.children[0], point);
    if (const auto* u = std::get_if<Unary>(&value)) return Arithmetic::apply(u->op, u->a.type(), a);
    if (const auto* c = std::get_if<Cast>(&value))
      return Arithmetic::convert(c->a.type(), c->type, a);
    const int64_t chosen = Arithmetic::value(a).i;
    if (std::holds_alternative<Select>(value))
      return Arithmetic::depending(evaluate(node.children[chosen ? 1 : 2], point), a);
    const Binary& b = std::get<Binary>(value);
    if (b.op == BinaryOp::And || b.op == BinaryOp::Or) {
      const bool is_decided = (b.op == BinaryOp::Or) == (chosen != 0);
      return is_decided ? a : Arithmetic::depending(evaluate(node.children[1], point), a);
    }
    return Arithmetic::apply(b.op, b.a.type(), node.expr->type, a,
                             evaluate(node.children[1], point));
  }

  Number evaluate_read(const Node& node, const std::vector<int64_t>& point) {
    std::vector<int64_t> indices(node.children.size());
    Number index = Arithmetic::of(Int64, {});
    for (size_t i = 0; i < indices.size(); ++i) {
      index = Arithmetic::depending(evaluate(node.children[i], point), index);
      indices[i] = Arithmetic::value(index).i;
    }
    return Arithmetic::depending(element(tensors_[node.slot], indices), index);
  }

  const Compute& compute_;
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t> numbers_;
  /// For each tensor of tensors_, the elements that computed() has kept, by linear position.
  std::vector<std::unordered_map<int64_t, Number>> kept_;
  int64_t evaluations_ = 0;
  std::optional<Error> error_;  ///< the first error; the evaluation ends with it
};

}  // namespace tw::dsl

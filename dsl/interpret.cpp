// SPDX-License-Identifier: Apache-2.0
#include "dsl/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/integer.h"
#include "dsl/value.h"

namespace tw::dsl {
namespace {

constexpr size_t most_kept = 1 << 20;

/// An expression with its variables resolved to slots and its tensors to numbers.
struct Node {
  const ExprNode* expr;
  size_t slot = 0;
  std::vector<Node> children;
};

Value rounded(DType type, Value a) {
  return is_float(type) ? Value{round_to(type, a.f), 0} : Value{0, wrap_to(type, a.i)};
}

BinaryOp operation(Combine combine) {
  switch (combine) {
    case Combine::Sum:
      return BinaryOp::Add;
    case Combine::Prod:
      return BinaryOp::Mul;
    case Combine::Min:
      return BinaryOp::Min;
    default:
      return BinaryOp::Max;
  }
}

Value constant_of(const Expr& expr) {
  const Const& c = *expr.as<Const>();
  return {c.float_value, c.int_value};
}

std::vector<Axis> domain(const Stage& stage) {
  std::vector<Axis> axes = stage.axes;
  axes.insert(axes.end(), stage.reduction.begin(), stage.reduction.end());
  return axes;
}

/// Calls `visit` with each point of the axes in [first, last), the last axis fastest, leaving the
/// indices in `point`; stops when it returns false.
template <typename Visit>
bool for_each_point(const std::vector<Axis>& axes, size_t first, size_t last,
                    std::vector<int64_t>& point, const Visit& visit) {
  if (first == last) return visit();
  for (int64_t i = 0; i < axes[first].extent; ++i) {
    point[first] = i;
    if (!for_each_point(axes, first + 1, last, point, visit)) return false;
  }
  return true;
}

class Interpreter {
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
  }

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

  Result<double> sample(const std::string& name, const std::vector<int64_t>& indices) {
    const auto found = numbers_.find(name);
    if (found == numbers_.end())
      return fail(ErrorCode::Usage, fmt::format("[interpret] there is no tensor '{}'", name));
    const Value value = element(tensors_[found->second], indices);
    if (error_) return tl::unexpected<Error>(*error_);
    return is_float(tensors_[found->second].type) ? value.f : static_cast<double>(value.i);
  }

 private:
  struct Tensor {
    std::string name;
    DType type;
    std::vector<int64_t> shape;
    const Array* array;  ///< null: not stored, computed when read
    const Stage* stage;  ///< null for inputs
    std::vector<Axis> domain;
    Node body;
  };

  Node resolve(const Expr& expr, const std::vector<Axis>& axes) const {
    Node node{&expr.node(), 0, {}};
    const auto add = [&](const Expr& child) { node.children.push_back(resolve(child, axes)); };
    if (const Var* v = expr.as<Var>()) {
      const auto at = std::find_if(axes.begin(), axes.end(),
                                   [&](const Axis& axis) { return axis.name == v->name; });
      node.slot = static_cast<size_t>(at - axes.begin());
    } else if (const Read* r = expr.as<Read>()) {
      node.slot = numbers_.at(r->tensor);
      for (const Expr& index : r->indices) add(index);
    } else if (const Unary* u = expr.as<Unary>()) {
      add(u->a);
    } else if (const Binary* b = expr.as<Binary>()) {
      add(b->a);
      add(b->b);
    } else if (const Select* s = expr.as<Select>()) {
      add(s->condition);
      add(s->a);
      add(s->b);
    } else if (const Cast* c = expr.as<Cast>()) {
      add(c->a);
    }
    return node;
  }

  void fill(const Tensor& tensor, Array& array) {
    std::vector<int64_t> point(tensor.domain.size());
    int64_t position = 0;
    for_each_point(tensor.stage->axes, 0, tensor.stage->axes.size(), point, [&] {
      const Value value = reduce(tensor, point);
      if (is_float(tensor.type)) {
        array.set_float(position++, value.f);
      } else {
        array.set_int(position++, value.i);
      }
      return !error_;
    });
  }

  /// The stage at the axes given in `point`, whose reduction part is overwritten.
  Value reduce(const Tensor& tensor, std::vector<int64_t>& point) {
    const Stage& stage = *tensor.stage;
    if (stage.combine == Combine::None) return rounded(stage.type, evaluate(tensor.body, point));
    Value total = constant_of(identity(stage.combine, stage.type));
    for_each_point(tensor.domain, stage.axes.size(), tensor.domain.size(), point, [&] {
      const Value term = evaluate(tensor.body, point);
      total = apply(operation(stage.combine), stage.type, stage.type, total, term);
      return !error_;
    });
    return rounded(stage.type, total);
  }

  Value element(const Tensor& tensor, const std::vector<int64_t>& indices) {
    if (indices.size() != tensor.shape.size()) return outside(tensor, indices);
    int64_t position = 0;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= tensor.shape[i]) return outside(tensor, indices);
      position = position * tensor.shape[i] + indices[i];
    }
    if (!tensor.array) return computed(tensor, indices, position);
    if (is_float(tensor.type)) return {tensor.array->get_float(position), 0};
    return {0, tensor.array->get_int(position)};
  }

  /// Elements are kept: each term of a softmax reads the peak of its row, and what a chain of
  /// stages computes would double with each that reads the one before twice. A long reduction of
  /// what no one else reads is not to fill the memory.
  Value computed(const Tensor& tensor, const std::vector<int64_t>& indices, int64_t position) {
    auto& kept = kept_[tensor.name];
    if (const auto found = kept.find(position); found != kept.end()) return found->second;
    std::vector<int64_t> point = indices;
    point.resize(tensor.domain.size());
    const Value value = reduce(tensor, point);
    if (tensor.stage->combine != Combine::None || kept.size() < most_kept)
      kept.emplace(position, value);
    return value;
  }

  Value outside(const Tensor& tensor, const std::vector<int64_t>& indices) {
    if (!error_)
      error_ =
          Error{ErrorCode::Invalid,
                fmt::format("[interpret] {}[{}] is read, '{}' has the shape [{}]: guard the read "
                            "with select()",
                            tensor.name, fmt::join(indices, ", "), tensor.name,
                            fmt::join(tensor.shape, ", "))};
    return {};
  }

  Value evaluate(const Node& node, const std::vector<int64_t>& point) {
    const auto& value = node.expr->value;
    if (const auto* c = std::get_if<Const>(&value)) return {c->float_value, c->int_value};
    if (std::holds_alternative<Var>(value)) return {0, point[node.slot]};
    if (std::holds_alternative<Read>(value)) return evaluate_read(node, point);
    const Value a = evaluate(node.children[0], point);
    if (const auto* u = std::get_if<Unary>(&value)) return apply(u->op, u->a.type(), a);
    if (const auto* c = std::get_if<Cast>(&value)) return convert(c->a.type(), c->type, a);
    if (std::holds_alternative<Select>(value)) return evaluate(node.children[a.i ? 1 : 2], point);
    const Binary& b = std::get<Binary>(value);
    if (b.op == BinaryOp::And) return a.i ? evaluate(node.children[1], point) : Value{0, 0};
    if (b.op == BinaryOp::Or) return a.i ? Value{0, 1} : evaluate(node.children[1], point);
    return apply(b.op, b.a.type(), node.expr->type, a, evaluate(node.children[1], point));
  }

  Value evaluate_read(const Node& node, const std::vector<int64_t>& point) {
    std::vector<int64_t> indices(node.children.size());
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = evaluate(node.children[i], point).i;
    return element(tensors_[node.slot], indices);
  }

  const Compute& compute_;
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t> numbers_;
  /// Elements of stages that are not stored, by their positions.
  std::map<std::string, std::unordered_map<int64_t, Value>> kept_;
  std::optional<Error> error_;  ///< the first; everything stops at it
};

Status check_inputs(const Compute& compute, const Arrays& inputs) {
  for (const Input& input : compute.inputs) {
    const auto found = inputs.find(input.name);
    if (found == inputs.end())
      return fail(ErrorCode::Usage,
                  fmt::format("[interpret] the input '{}' is missing", input.name));
    const Array& array = found->second;
    const bool same = array.type == input.type && array.shape == input.shape;
    const auto elements = checked_product(input.shape);
    if (!same || !elements || array.size() != *elements)
      return fail(ErrorCode::Usage,
                  fmt::format("[interpret] the input '{}' is {}[{}], expected {}[{}]", input.name,
                              to_string(array.type), fmt::join(array.shape, ", "),
                              to_string(input.type), fmt::join(input.shape, ", ")));
  }
  return {};
}

}  // namespace

Result<Arrays> interpret(const Compute& compute, const Arrays& inputs) {
  TW_RETURN_IF_ERROR(validate(compute));
  TW_RETURN_IF_ERROR(check_inputs(compute, inputs));
  return Interpreter(compute, inputs).run();
}

Result<double> evaluate_at(const Compute& compute, const Arrays& inputs, const std::string& name,
                           const std::vector<int64_t>& indices) {
  TW_RETURN_IF_ERROR(validate(compute));
  TW_RETURN_IF_ERROR(check_inputs(compute, inputs));
  return Interpreter(compute, inputs).sample(name, indices);
}

}  // namespace tw::dsl

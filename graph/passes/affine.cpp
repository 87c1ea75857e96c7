// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/affine.h"

#include "graph/passes/access.h"

namespace tw::graph {
namespace {

using dsl::Binary;
using dsl::BinaryOp;
using dsl::Expr;
using dsl::Read;

/// Returns a + b or a - b, where undefined operands are 0.
Expr combined(BinaryOp op, const Expr& a, const Expr& b) {
  if (!b.defined()) return a;
  if (a.defined()) return dsl::binary(op, a, b);
  return op == BinaryOp::Sub ? -b : b;
}

/// Returns a * factor or a / factor; undefined, which means 0, if `a` is undefined.
Expr scaled(BinaryOp op, const Expr& a, const Expr& factor) {
  return a.defined() ? dsl::binary(op, a, factor) : a;
}

/// Implements split_affine() for one tensor.
class AffineSplit {
 public:
  explicit AffineSplit(const std::string& tensor) : tensor_(tensor) {}

  std::optional<Affine> split(const Expr& expr) const {
    return dsl::visit(
        expr, [&](const Read& r) { return of_read(r, expr); },
        [&](const dsl::Unary& u) { return of_unary(u, expr); },
        [&](const Binary& b) { return of_binary(b, expr); },
        [&](const dsl::Select& s) { return of_select(s, expr); },
        [&](const dsl::Cast& c) { return only_if_free(c.a, expr); },
        [&](const dsl::Const&) { return free(expr); }, [&](const dsl::Var&) { return free(expr); });
  }

 private:
  using Split = std::optional<Affine>;

  static Split free(const Expr& expr) { return Affine{Expr(), expr}; }

  Split only_if_free(const Expr& part, const Expr& whole) const {
    const Split a = split(part);
    return a && !a->scale.defined() ? free(whole) : std::nullopt;
  }

  Split of_read(const Read& r, const Expr& expr) const {
    if (r.tensor == tensor_) return Affine{dsl::constant(expr.type(), 1), Expr()};
    return free(expr);
  }

  Split of_unary(const dsl::Unary& u, const Expr& expr) const {
    const Split a = split(u.a);
    if (!a || !a->scale.defined()) return a ? free(expr) : a;
    if (u.op != dsl::UnaryOp::Neg) return std::nullopt;
    return Affine{-a->scale, a->shift.defined() ? -a->shift : Expr()};
  }

  Split of_binary(const Binary& binary, const Expr& expr) const {
    const Split a = split(binary.a), b = split(binary.b);
    if (!a || !b) return std::nullopt;
    if (!a->scale.defined() && !b->scale.defined()) return free(expr);
    if (binary.op == BinaryOp::Add || binary.op == BinaryOp::Sub)
      return Affine{combined(binary.op, a->scale, b->scale),
                    combined(binary.op, a->shift, b->shift)};
    if (binary.op == BinaryOp::Mul && !a->scale.defined())
      return Affine{scaled(BinaryOp::Mul, b->scale, binary.a),
                    scaled(BinaryOp::Mul, b->shift, binary.a)};
    if ((binary.op == BinaryOp::Mul || binary.op == BinaryOp::Div) && !b->scale.defined())
      return Affine{scaled(binary.op, a->scale, binary.b), scaled(binary.op, a->shift, binary.b)};
    return std::nullopt;
  }

  Split of_select(const dsl::Select& s, const Expr& expr) const {
    const Split condition = split(s.condition), a = split(s.a), b = split(s.b);
    if (!condition || condition->scale.defined() || !a || !b) return std::nullopt;
    if (!a->scale.defined() && !b->scale.defined()) return free(expr);
    return Affine{chosen(s.condition, a->scale, b->scale), chosen(s.condition, a->shift, b->shift)};
  }

  static Expr chosen(const Expr& condition, const Expr& a, const Expr& b) {
    if (!a.defined() && !b.defined()) return Expr();
    const Expr zero = dsl::constant_int(a.defined() ? a.type() : b.type(), 0);
    return dsl::select(condition, a.defined() ? a : zero, b.defined() ? b : zero);
  }

  const std::string& tensor_;
};

/// Returns the stage with 0 in place of each axis of extent 1.
dsl::Stage without_unit_axes(dsl::Stage stage) {
  dsl::Substitution zeros;
  for (const dsl::Axis& axis : stage.axes)
    if (axis.extent == 1) zeros.emplace(axis.name, Expr(0));
  stage.body = dsl::substitute(stage.body, zeros);
  return stage;
}

}  // namespace

bool is_zero(const Expr& part) {
  if (!part.defined() || dsl::is_zero_bytes(part)) return true;
  const dsl::Select* s = part.as<dsl::Select>();
  return s && is_zero(s->a) && is_zero(s->b);
}

std::optional<Affine> split_affine(const Expr& expr, const std::string& tensor) {
  return AffineSplit(tensor).split(expr);
}

std::optional<ScaleAndShift> as_scale_and_shift(const Operator& op, const std::string& tensor,
                                                const std::map<std::string, Constant>& constants) {
  if (!is_elementwise(op) || !input_for(op, tensor)) return std::nullopt;
  const Spelled spelled = in_canonical_names(op);
  const dsl::Stage stage = without_unit_axes(spelled.compute.stages.front());
  ScaleAndShift result{{}, {}, stage.axes, {}, {}};
  std::string x;
  for (size_t i = 0; i < spelled.inputs.size(); ++i) {
    const dsl::Input& input = spelled.compute.inputs[i];
    const auto constant = constants.find(spelled.inputs[i]);
    if (spelled.inputs[i] == tensor) {
      x = input.name;
    } else if (constant == constants.end()) {
      return std::nullopt;
    } else {
      result.compute.inputs.push_back(input);
      result.arrays[input.name] = *constant->second.array;
    }
  }
  if (stage.type != Float32 || !count_pointwise_reads(spelled.compute, stage, x))
    return std::nullopt;
  const auto split = split_affine(stage.body, x);
  if (!split || !split->scale.defined()) return std::nullopt;
  result.scale = split->scale;
  result.shift = split->shift.defined() ? split->shift : dsl::constant(Float32, 0);
  return result;
}

}  // namespace tw::graph

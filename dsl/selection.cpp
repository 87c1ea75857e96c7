// SPDX-License-Identifier: Apache-2.0
#include "dsl/selection.h"

#include <algorithm>

namespace tw::dsl {
namespace {

bool is_zero(const Expr& expr) {
  const Const* c = expr.as<Const>();
  return c && (is_float(c->type) ? c->float_value == 0 : c->int_value == 0);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the axes of the stage that the expression uses.
std::vector<std::string> axes_in(const Stage& stage, const Expr& expr) {
  std::vector<std::string> used;
  for (const auto* axes : {&stage.axes, &stage.reduction})
    for (const Axis& axis : *axes)
      if (uses_var(expr, axis.name)) used.push_back(axis.name);
  return used;
}

/// Adds the axis of an equation `axis == data` to selection.selected, and the axes on which the
/// data depend to selection.selectors. Does nothing for other equations, or if an axis would be in
/// both lists.
void add_equation(const Stage& stage, const Binary& equation, Selection& selection) {
  for (const auto& [side, index] :
       {std::pair(&equation.a, &equation.b), std::pair(&equation.b, &equation.a)}) {
    const Var* axis = side->as<Var>();
    if (!axis || !reads_tensors(*index) || contains(selection.selectors, axis->name) ||
        contains(selection.selected, axis->name))
      continue;
    const std::vector<std::string> used = axes_in(stage, *index);
    const bool is_apart = std::none_of(used.begin(), used.end(), [&](const std::string& name) {
      return name == axis->name || contains(selection.selected, name);
    });
    if (!is_apart) continue;
    selection.selected.push_back(axis->name);
    for (const std::string& name : used)
      if (!contains(selection.selectors, name)) selection.selectors.push_back(name);
    return;
  }
}

}  // namespace

GuardedTerm guarded_term(const Expr& body, const Expr& neutral) {
  if (const Select* s = body.as<Select>(); s && equal(s->b, neutral)) {
    GuardedTerm inner = guarded_term(s->a, neutral);
    return {s->condition && inner.condition, inner.value};
  }
  if (is_zero(neutral)) {
    if (const Binary* b = body.as<Binary>(); b && b->op == BinaryOp::Mul) {
      const GuardedTerm x = guarded_term(b->a, neutral), y = guarded_term(b->b, neutral);
      return {x.condition && y.condition, binary(BinaryOp::Mul, x.value, y.value)};
    }
    if (const Cast* c = body.as<Cast>()) {
      const GuardedTerm inner = guarded_term(c->a, constant_int(c->a.type(), 0));
      return {inner.condition, cast(c->type, inner.value)};
    }
  }
  return {constant_int(Bool, 1), body};
}

const Binary* choosing_comparison(const Expr& expr) {
  const Select* select = expr.as<Select>();
  const Binary* b = select ? select->condition.as<Binary>() : nullptr;
  return b && b->op == BinaryOp::Eq && as_int(b->b) ? b : nullptr;
}

Selection selection_of(const Stage& stage) {
  Selection selection;
  if (stage.combine == Combine::None || stage.scan) return selection;
  const GuardedTerm term = guarded_term(stage.body, identity(stage.combine, stage.type));
  for_each_conjunct(term.condition, [&](const Expr& conjunct) {
    if (const Binary* b = conjunct.as<Binary>(); b && b->op == BinaryOp::Eq)
      add_equation(stage, *b, selection);
  });
  return selection;
}

bool scatters(const Stage& stage) {
  const Selection selection = selection_of(stage);
  return std::any_of(stage.axes.begin(), stage.axes.end(),
                     [&](const Axis& axis) { return contains(selection.selected, axis.name); });
}

}  // namespace tw::dsl

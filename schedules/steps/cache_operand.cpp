// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "schedules/program/affine.h"
#include "schedules/program/bounds.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

std::set<std::string> variables_of(const Expr& expr) {
  std::set<std::string> names;
  dsl::for_each(expr, [&](const Expr& e) {
    if (const dsl::Var* v = e.as<dsl::Var>()) names.insert(v->name);
  });
  return names;
}

/// Returns the name of the first tensor that the expression reads; if it reads none, the number of
/// the operand, 1 or 2, as text.
std::string operand_name(const Expr& value, int64_t number) {
  std::string name;
  for_each_read(value, [&](const dsl::Read& r) {
    if (name.empty()) name = r.tensor;
  });
  return name.empty() ? std::to_string(number) : name;
}

/// Returns the loops that the step lists, in the order of the list. Invalid unless they are exactly
/// the loops inside of loop `index` that the operand depends on. `used` are the variables of the
/// operand.
Result<std::vector<NestLoop>> operand_loops(const StageNest& stage, const CacheOperand& s,
                                            size_t index, const std::set<std::string>& used) {
  std::vector<NestLoop> loops;
  if (s.loops.empty()) return illegal(s.name, "no loop is named");
  for (const std::string& name : s.loops) {
    TW_TRY(const int at, loop_index(stage, s.name, name));
    const NestLoop& loop = stage.loops[static_cast<size_t>(at)];
    if (static_cast<size_t>(at) <= index || !used.contains(loop.variable))
      return illegal(s.name, fmt::format("loop '{}' is not inside of '{}', or operand {} does not "
                                         "depend on it",
                                         name, s.loop, s.operand));
    if (std::any_of(loops.begin(), loops.end(), [&](const auto& l) { return l.name == name; }))
      return illegal(s.name, fmt::format("loop '{}' is named twice", name));
    loops.push_back(loop);
  }
  for (size_t i = index + 1; i < stage.loops.size(); ++i)
    if (used.contains(stage.loops[i].variable) &&
        std::find(s.loops.begin(), s.loops.end(), stage.loops[i].name) == s.loops.end())
      return illegal(s.name, fmt::format("operand {} depends on loop '{}' too", s.operand,
                                         stage.loops[i].name));
  return loops;
}

/// An index of a read that may lie outside of its tensor.
struct Outside {
  Expr index;
  int64_t extent;
};

/// Returns the indices of reads in `value` that are not proved to be inside of their tensors for
/// all iterations of the stage's loops in which the conditions hold.
std::vector<Outside> indices_outside(const Nest& nest, const StageNest& stage, const Expr& value,
                                     const std::vector<Expr>& conditions) {
  Bounds bounds = bounds_of_loops(stage);
  for (const Expr& condition : conditions) bounds.push_condition(condition);
  std::vector<Outside> outside;
  for_each_read(value, [&](const dsl::Read& r) {
    const std::vector<int64_t> shape = nest.compute.shape_of(r.tensor);
    for (size_t d = 0; d < shape.size(); ++d)
      if (!bounds.proves_inside(r.indices[d], shape[d]))
        outside.push_back({r.indices[d], shape[d]});
  });
  return outside;
}

/// True if `condition` has the term `index >= 0` in its conjunction.
bool bounds_from_below(const Expr& condition, const Expr& index) {
  const Constraints constraints = split_condition(condition);
  return std::ranges::any_of(constraints.affine, [&](Affine at_least_zero) {
    at_least_zero.add(to_affine(index), -1);
    return at_least_zero.is_constant() && at_least_zero.constant == 0;
  });
}

/// Removes or weakens guards that limit only the results of the stage. `value` is read under
/// `condition`, the condition of a padding. Where such a guard fails, no result uses the element of
/// the buffer, so the buffer may hold any element that can be read. A guard is removed if the other
/// conditions prove all indices of `value` to be inside of their tensors. If only one index may be
/// outside, and `condition` keeps it from being negative, the guard becomes the upper bound of this
/// index. The index then has one upper bound, the end of the tensor, instead of two:
///
///     in[y + r - 1] if y < 14 && 0 <= y + r - 1 && y + r - 1 < 14
///  -> in[y + r - 1] if 0 <= y + r - 1 && y + r - 1 < 14
///     in[y * 2 + r - 1] if y < 7 && 0 <= y * 2 + r - 1
///  -> in[y * 2 + r - 1] if y * 2 + r - 1 < 14 && 0 <= y * 2 + r - 1
void bound_by_padding(const Nest& nest, const StageNest& stage, const Expr& value,
                      const Expr& condition, std::vector<Expr>& guards) {
  const auto is_of_results = [&](const Expr& guard) {
    return std::none_of(stage.loops.begin(), stage.loops.end(), [&](const NestLoop& loop) {
      return loop.reduction && dsl::uses_var(guard, loop.variable);
    });
  };
  for (size_t i = guards.size(); i > 0; --i) {
    if (!is_of_results(guards[i - 1])) continue;
    std::vector<Expr> others = guards;
    others.erase(others.begin() + static_cast<ptrdiff_t>(i) - 1);
    others.push_back(condition);
    const std::vector<Outside> outside = indices_outside(nest, stage, value, others);
    if (outside.empty()) {
      guards.erase(guards.begin() + static_cast<ptrdiff_t>(i) - 1);
    } else if (outside.size() == 1 && bounds_from_below(condition, outside[0].index)) {
      guards[i - 1] = outside[0].index < Expr(outside[0].extent);
    }
  }
}

}  // namespace

Status apply(Nest& nest, const CacheOperand& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_RETURN_IF_ERROR(check_no_scan(*stage, s.name));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  if (stage->stage.combine == Combine::None)
    return illegal(s.name, fmt::format("'{}' is no reduction", s.stage));
  std::vector<Expr> operands = operands_of(stage->stage);
  if (s.operand < 1 || s.operand > static_cast<int64_t>(operands.size()))
    return illegal(s.name, fmt::format("'{}' has {}, there is no operand {}", s.stage,
                                       counted(std::ssize(operands), "operand"), s.operand));
  Expr& operand = operands[static_cast<size_t>(s.operand) - 1];
  const Expr value = unwidened(operand);
  const Expr neutral =
      identity(operands.size() == 2 ? Combine::Sum : stage->stage.combine, value.type());
  Expr held = dsl::substitute(value, stage->axis);
  TW_TRY(const std::vector<NestLoop> loops,
         operand_loops(*stage, s, static_cast<size_t>(index), variables_of(held)));

  // The guards that have the same value in all iterations that read the same element of the buffer.
  std::set<std::string> inside;
  for (size_t i = static_cast<size_t>(index) + 1; i < stage->loops.size(); ++i)
    inside.insert(stage->loops[i].variable);
  for (const NestLoop& loop : loops) inside.erase(loop.variable);
  std::vector<Expr> zero_filled_guards;
  for (const Expr& guard : stage->guards) {
    const auto used = variables_of(guard);
    if (std::any_of(used.begin(), used.end(), [&](const auto& v) { return inside.contains(v); }))
      continue;
    zero_filled_guards.push_back(guard);
  }
  std::vector<Expr> conditions = zero_filled_guards;
  if (const dsl::Select* select = held.as<dsl::Select>();
      select && dsl::equal(select->b, neutral)) {
    bound_by_padding(nest, *stage, select->a, select->condition, conditions);
    conditions.push_back(select->condition);
    held = select->a;
  }
  Expr exists = dsl::constant_int(Bool, 1);
  for (const Expr& condition : conditions) exists = exists && condition;
  if (!dsl::is_int(exists, 1)) held = dsl::select(exists, held, neutral);

  Stage copy;
  const std::string tensor = operand_name(value, s.operand);
  copy.name = tensor + "@" + s.stage;
  // The name may be taken, because both factors of a product may read the same tensor.
  if (nest.find(copy.name)) copy.name = fmt::format("{}.{}@{}", tensor, s.operand, s.stage);
  if (nest.find(copy.name)) return illegal(s.name, fmt::format("'{}' exists already", copy.name));
  copy.type = value.type();
  std::vector<Expr> indices;
  std::vector<int64_t> extents;
  for (const NestLoop& loop : loops) {
    // The copy's axes have names of their own, because `held` may also use variables of outer
    // loops.
    copy.axes.emplace_back(copy.name + "." + loop.name, loop.extent);
    held = dsl::substitute(held, loop.variable, dsl::var(copy.axes.back().name));
    indices.push_back(dsl::var(loop.variable));
    extents.push_back(loop.extent);
  }
  copy.body = held;

  const Expr read = dsl::read(copy.name, indices, copy.type);
  operand = value.same_node(operand) ? read : dsl::cast(operand.type(), read);
  stage->stage.body = operands.size() == 2
                          ? dsl::binary(dsl::BinaryOp::Mul, operands[0], operands[1])
                          : operands[0];
  insert_before(nest, s.stage, copy);
  StageNest& placed = *nest.find(copy.name);
  placed.at = StageNest::Placement{s.stage, s.loop};
  placed.loops.clear();
  for (size_t i = 0; i < loops.size(); ++i)
    placed.loops.push_back({loops[i].name, copy.axes[i].name, loops[i].extent});
  placed.own_names = nest.find(s.stage)->own_names;
  placed.axis.clear();
  for (const Axis& axis : copy.axes) placed.axis[axis.name] = dsl::var(axis.name);
  placed.region_offset.assign(extents.size(), Expr(0));
  placed.region_extent = extents;
  placed.is_staged_operand = true;
  placed.zero_filled_guards = std::move(zero_filled_guards);
  return {};
}

}  // namespace tw::schedules

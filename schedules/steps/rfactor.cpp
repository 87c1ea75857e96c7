// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/integer.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

bool has_axis(const Stage& stage, const std::string& name) {
  const auto is_it = [&](const Axis& axis) { return axis.name == name; };
  return std::any_of(stage.axes.begin(), stage.axes.end(), is_it) ||
         std::any_of(stage.reduction.begin(), stage.reduction.end(), is_it);
}

/// Returns a factor of a product, or 0 where `inside` does not hold. The result has the form of a
/// padded operand: f32(a[k]) becomes f32(select(k < 10, a[k], 0)).
Expr guarded_factor(const Expr& factor, const Expr& inside) {
  if (const dsl::Cast* widened = factor.as<dsl::Cast>())
    return dsl::cast(factor.type(), guarded_factor(widened->a, inside));
  const Expr zero = identity(Combine::Sum, factor.type());
  const dsl::Select* padded = factor.as<dsl::Select>();
  if (padded && dsl::equal(padded->b, zero))
    return dsl::select(inside && padded->condition, padded->a, zero);
  return dsl::select(inside, factor, zero);
}

/// Returns the body of the stage, or the identity of its reduction where `inside` does not hold. If
/// `keeps_product`, each factor of a product of two factors is guarded instead, so that the body
/// remains a product whose operands can be cached.
Expr guarded_body(const Stage& stage, const Expr& inside, bool keeps_product) {
  const std::vector<Expr> factors = operands_of(stage);
  if (keeps_product && factors.size() == 2)
    return dsl::binary(dsl::BinaryOp::Mul, guarded_factor(factors[0], inside),
                       guarded_factor(factors[1], inside));
  return dsl::select(inside, stage.body, identity(stage.combine, stage.type));
}

}  // namespace

Status apply(Nest& nest, const Rfactor& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_RETURN_IF_ERROR(check_no_scan(*stage, s.name));
  if (!has_fresh_loops(nest, *stage))
    return illegal(s.name, fmt::format("'{}' has steps already", s.stage));
  if (s.factor < 1) return illegal(s.name, fmt::format("the factor {} is not positive", s.factor));
  Stage partial = stage->stage;
  do {
    partial.name += ".rf";
  } while (nest.find(partial.name));
  const auto axis = std::find_if(partial.reduction.begin(), partial.reduction.end(),
                                 [&](const Axis& a) { return a.name == s.axis; });
  if (axis == partial.reduction.end())
    return illegal(s.name, fmt::format("'{}' does not reduce over '{}'", s.stage, s.axis));
  const Axis lane(s.axis + "_rf", s.factor);
  if (has_axis(partial, lane.name))
    return illegal(s.name, fmt::format("'{}' has an axis '{}' already", s.stage, lane.name));
  const int64_t extent = axis->extent;
  axis->extent = ceil_div(extent, s.factor);
  const bool in_blocks = s.partition == Partition::Blocks;
  const Expr index = in_blocks ? dsl::var(lane.name) * Expr(axis->extent) + dsl::var(s.axis)
                               : dsl::var(s.axis) * Expr(s.factor) + dsl::var(lane.name);
  partial.body = dsl::substitute(partial.body, {{s.axis, index}});
  if (extent % s.factor != 0) partial.body = guarded_body(partial, index < Expr(extent), in_blocks);
  partial.axes.insert(in_blocks ? partial.axes.begin() : partial.axes.end(), lane);
  partial.letters = "";
  std::vector<int64_t> extents;
  for (const auto* axes : {&partial.axes, &partial.reduction})
    for (const Axis& each : *axes) extents.push_back(each.extent);
  TW_RETURN_IF_ERROR(check_iterations(extents, s.name, partial.name));

  Stage final_stage = stage->stage;
  std::vector<Expr> indices;
  for (const Axis& a : partial.axes) indices.push_back(dsl::var(a.name));
  final_stage.reduction = {lane};
  final_stage.body = dsl::read(partial.name, indices, partial.type);
  const bool is_last = stage->loops[0].variable == stage->loops[0].name;
  definition(nest, s.stage) = final_stage;
  StageNest rest = make_stage_nest(final_stage, is_last);
  rest.epilogue = std::move(stage->epilogue);
  *stage = std::move(rest);
  insert_before(nest, s.stage, partial);
  return {};
}

}  // namespace tw::schedules

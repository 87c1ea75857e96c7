// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/stage_terms.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "dsl/selection.h"
#include "schedules/lowering/conditions.h"
#include "schedules/lowering/placed_buffers.h"
#include "schedules/program/simplify.h"

namespace tw::schedules {
namespace {

/// Simplifies the comparisons that choose between expressions, so that they use only the loop that
/// decides: select((4 a + b) % 4 == 0, ...) becomes select(b == 0, ...).
Expr with_simple_choices(const StageNest& s, const Expr& expr) {
  if (!has_choice(expr)) return expr;
  const Bounds bounds = bounds_of_loops(s);
  return dsl::transform(expr, [&](const Expr& e) -> std::optional<Expr> {
    if (!dsl::choosing_comparison(e)) return std::nullopt;
    const dsl::Select& select = *e.as<dsl::Select>();
    return dsl::select(simplify(select.condition, bounds), select.a, select.b);
  });
}

/// Replaces the indices in reads of placed stages by indices of their buffers.
Expr relative(const Nest& nest, const Expr& expr) {
  const bool places = std::any_of(nest.stages.begin(), nest.stages.end(),
                                  [](const StageNest& s) { return s.at.has_value(); });
  if (!places) return expr;
  return dsl::transform(expr, [&](const Expr& e) -> std::optional<Expr> {
    const dsl::Read* r = e.as<dsl::Read>();
    if (!r) return std::nullopt;
    for (const StageNest& producer : nest.stages)
      if (producer.at && producer.result() == r->tensor)
        return dsl::read(r->tensor, buffer_indices(nest, producer, r->indices), r->type);
    return std::nullopt;
  });
}

bool uses_reduction(const StageNest& s, const Expr& guard) {
  return std::any_of(s.loops.begin(), s.loops.end(), [&](const NestLoop& l) {
    return l.reduction && dsl::uses_var(guard, l.variable);
  });
}

}  // namespace

Expr over_loops(const Nest& nest, const StageNest& s, const dsl::Stage& definition,
                const Expr& expr) {
  dsl::Substitution axis = s.axis;
  for (size_t i = 0; i < definition.axes.size(); ++i)
    axis[definition.axes[i].name] = s.axis.at(s.stage.axes[i].name);
  return relative(nest, with_simple_choices(s, dsl::substitute(expr, axis)));
}

std::vector<Expr> result_indices(const Nest& nest, const StageNest& s) {
  std::vector<Expr> indices;
  for (const dsl::Axis& axis : s.stage.axes) indices.push_back(s.axis.at(axis.name));
  return s.at ? buffer_indices(nest, s, std::move(indices)) : indices;
}

Expr epilogue_of(const Nest& nest, const StageNest& s, const Expr& reduced) {
  return dsl::transform(over_loops(nest, s, *s.epilogue, s.epilogue->body),
                        [&](const Expr& e) -> std::optional<Expr> {
                          const dsl::Read* r = e.as<dsl::Read>();
                          return r && r->tensor == s.stage.name ? std::optional(reduced)
                                                                : std::nullopt;
                        });
}

Expr spatial_guard(const StageNest& s) {
  std::vector<Expr> guards;
  for (const Expr& g : s.guards)
    if (!uses_reduction(s, g)) guards.push_back(g);
  return conjunction(guards);
}

bool reduces_nothing(const StageNest& s) {
  return !s.stage.scan && std::any_of(s.stage.reduction.begin(), s.stage.reduction.end(),
                                      [](const dsl::Axis& axis) { return axis.extent == 0; });
}

bool reads_staged_operands(const Nest& nest, const StageNest& s) {
  bool all = s.cache.has_value(), any = false;
  for_each_read(s.stage.body, [&](const dsl::Read& r) {
    const StageNest* producer = nest.find(r.tensor);
    all = all && producer && producer->is_staged_operand;
    any = true;
  });
  return all && any;
}

Expr guards_not_zero_filled(const Nest& nest, const StageNest& s) {
  const auto is_zero_filled = [&](const Expr& guard) {
    return std::any_of(nest.stages.begin(), nest.stages.end(), [&](const StageNest& other) {
      return other.at && other.at->consumer == s.stage.name &&
             std::any_of(other.zero_filled_guards.begin(), other.zero_filled_guards.end(),
                         [&](const Expr& zero_filled) { return dsl::equal(zero_filled, guard); });
    });
  };
  std::vector<Expr> guards;
  for (const Expr& guard : s.guards)
    if (uses_reduction(s, guard) && !is_zero_filled(guard)) guards.push_back(guard);
  return conjunction(guards);
}

}  // namespace tw::schedules

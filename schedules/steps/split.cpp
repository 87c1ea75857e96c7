// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/integer.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Split& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  TW_RETURN_IF_ERROR(check_untouched(nest, *stage, s.name, index));
  const NestLoop loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name,
                   fmt::format("loop '{}' is already unrolled, vectorized or parallel", s.loop));
  if (stage->cache && stage->cache->loop == s.loop)
    return illegal(s.name,
                   fmt::format("loop '{}' carries the accumulator of '{}'", s.loop, s.stage));
  if (s.factor < 1) return illegal(s.name, fmt::format("the factor {} is not positive", s.factor));
  const bool divides = loop.extent % s.factor == 0;
  if (!divides && s.tail == Tail::Exact)
    return illegal(s.name,
                   fmt::format("{} does not divide the extent {} of '{}' and its tail is exact",
                               s.factor, loop.extent, s.loop));
  if (!divides && s.tail == Tail::Shift &&
      (loop.reduction || stage->stage.combine != Combine::None))
    return illegal(s.name, "a shifted tail computes elements twice: not for reductions");
  if (s.tail == Tail::Shift && s.factor > loop.extent)
    return illegal(s.name, fmt::format("a shifted tile of {} is longer than the extent {}",
                                       s.factor, loop.extent));
  NestLoop outer = loop, inner = loop;
  outer.name += ".0", outer.variable += ".0", outer.extent = ceil_div(loop.extent, s.factor);
  inner.name += ".1", inner.variable += ".1", inner.extent = s.factor;
  const Expr outer_var = dsl::var(outer.variable), inner_var = dsl::var(inner.variable);
  Expr start = outer_var * Expr(s.factor);
  if (!divides && s.tail == Tail::Shift) {
    start = dsl::min(start, Expr(loop.extent - s.factor));
    outer.overlaps = inner.overlaps = true;
  }
  replace_variable(*stage, loop.variable, start + inner_var);
  if (!divides && s.tail == Tail::Guard)
    stage->guards.push_back(start + inner_var < Expr(loop.extent));
  stage->loops[static_cast<size_t>(index)] = outer;
  stage->loops.insert(stage->loops.begin() + index + 1, inner);
  std::vector<int64_t> extents;
  for (const NestLoop& each : stage->loops) extents.push_back(each.extent);
  TW_RETURN_IF_ERROR(check_iterations(extents, s.name, s.stage));
  return name_loops(*stage, s.name, {outer.name, inner.name}, s.names.names);
}

}  // namespace tw::schedules

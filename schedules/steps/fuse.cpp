// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Fuse& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int outer_index, loop_index(*stage, s.name, s.outer));
  TW_TRY(const int inner_index, loop_index(*stage, s.name, s.inner));
  if (inner_index != outer_index + 1)
    return illegal(
        s.name, fmt::format("'{}' is not directly inside '{}': reorder first", s.inner, s.outer));
  TW_RETURN_IF_ERROR(check_untouched(nest, *stage, s.name, outer_index));
  const NestLoop outer = stage->loops[static_cast<size_t>(outer_index)];
  const NestLoop inner = stage->loops[static_cast<size_t>(inner_index)];
  if (outer.reduction != inner.reduction)
    return illegal(s.name, fmt::format("one loop {} and the other does not",
                                       stage->stage.scan ? "scans" : "reduces"));
  if (outer.kind != LoopKind::Serial || inner.kind != LoopKind::Serial || outer.parallel ||
      inner.parallel)
    return illegal(s.name, "only serial loops fuse");
  if (stage->cache && (stage->cache->loop == s.outer || stage->cache->loop == s.inner))
    return illegal(s.name, "one of the loops carries the accumulator");
  NestLoop fused = outer;
  fused.name = outer.name + "*" + inner.name;
  fused.variable = outer.variable + "*" + inner.name;
  fused.extent = outer.extent * inner.extent;
  fused.overlaps = outer.overlaps || inner.overlaps;
  const Expr v = dsl::var(fused.variable);
  replace_variable(*stage, outer.variable, v / Expr(inner.extent));
  replace_variable(*stage, inner.variable, v % Expr(inner.extent));
  stage->loops[static_cast<size_t>(outer_index)] = fused;
  stage->loops.erase(stage->loops.begin() + inner_index);
  return name_loops(*stage, s.name, {fused.name}, s.names.names);
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/program/dot_products.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {
namespace {

/// Checks that a reduction loop may be vectorized as a dot product. It must be the innermost loop,
/// directly inside of a vector loop, and sum 2 to most_dot_depth products.
Status check_dot_product(const StageNest& stage, size_t index, std::string_view step) {
  const NestLoop& loop = stage.loops[index];
  if (stage.stage.scan) return illegal(step, runs_in_order(loop.name));
  const bool is_in_vector = index > 0 && index + 1 == stage.loops.size() &&
                            stage.loops[index - 1].kind == LoopKind::Vector;
  if (!is_in_vector)
    return illegal(step,
                   fmt::format("loop '{}' reduces: its iterations share an element; rfactor makes "
                               "partial results that do not, and inside of a vector the innermost "
                               "loop may be a dot product",
                               loop.name));
  if (loop.extent < 2 || loop.extent > most_dot_depth || stage.stage.combine != dsl::Combine::Sum)
    return illegal(step, fmt::format("loop '{}' reduces: a dot product sums 2 to {} products for "
                                     "each lane of the vector around it",
                                     loop.name, most_dot_depth));
  return {};
}

}  // namespace

Status apply(Nest& nest, const Vectorize& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  NestLoop& loop = stage->loops[static_cast<size_t>(index)];
  if (loop.kind != LoopKind::Serial || loop.parallel)
    return illegal(s.name, fmt::format("loop '{}' is already unrolled or parallel", s.loop));
  if (loop.reduction)
    TW_RETURN_IF_ERROR(check_dot_product(*stage, static_cast<size_t>(index), s.name));
  if (loop.extent > 64)
    return illegal(
        s.name, fmt::format("loop '{}' has {} iterations, a vector has at most 64: split it first",
                            s.loop, loop.extent));
  loop.kind = LoopKind::Vector;
  return {};
}

}  // namespace tw::schedules

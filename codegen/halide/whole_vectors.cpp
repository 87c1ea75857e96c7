// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/whole_vectors.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tw::codegen::halide {
namespace {

/// True if the buffer has elements of 32 bits; not every target can mask narrower lanes. Returns
/// false for buffers that statements further inside allocate, because these are not in scope yet.
bool is_word(const PhaseScope& scope, const std::string& buffer) {
  const Access* access = scope.find_access(buffer);
  return access && size_bytes(access->buffer.type) == 4;
}

}  // namespace

std::optional<WholeVector> whole_vector(const PhaseScope& scope, const Masks& masks,
                                        const Loop& loop) {
  const auto begin = dsl::as_int(loop.begin), end = dsl::as_int(loop.end);
  if (!masks.words || loop.kind != LoopKind::Vector || !begin || !end) return std::nullopt;
  if (*begin < 0 || *end - *begin < 3) return std::nullopt;
  if (std::has_single_bit(static_cast<uint64_t>(*end - *begin))) return std::nullopt;
  auto lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(*end - *begin)));
  while (*begin / lanes != (*end - 1) / lanes) lanes *= 2;
  const int64_t first = *begin / lanes * lanes;
  for (const Stmt& stmt : *loop.body) {
    const Assign* assign = stmt.as<Assign>();
    if (!assign || !is_word(scope, assign->buffer)) return std::nullopt;
    bool words = true;
    dsl::for_each(assign->value, [&](const Expr& e) {
      const auto* read = e.as<dsl::Read>();
      words &= !read || is_word(scope, read->tensor);
    });
    if (!words) return std::nullopt;
  }
  return WholeVector{dsl::constant_int(Int64, first), dsl::constant_int(Int64, first + lanes)};
}

Buffer with_whole_rows(const PhaseScope& scope, const Masks& masks, const Buffer& buffer,
                       const Block& body) {
  int64_t lanes = buffer.extents.back();
  schedules::for_each(body, [&](const Stmt& stmt) {
    const Loop* loop = stmt.as<Loop>();
    const auto whole = loop ? whole_vector(scope, masks, *loop) : std::nullopt;
    if (!whole || dsl::as_int(loop->end) > buffer.extents.back()) return;
    for (const Stmt& inner : *loop->body) {
      const Assign* assign = inner.as<Assign>();
      const dsl::Var* lane =
          assign->buffer == buffer.name ? assign->indices.back().as<dsl::Var>() : nullptr;
      if (lane && lane->name == loop->variable) lanes = std::max(lanes, *dsl::as_int(whole->end));
    }
  });
  Buffer whole_rows = buffer;
  whole_rows.extents.back() = lanes;
  return whole_rows;
}

/// The condition compares the lane with limits that depend on the task number. LLVM does not know
/// the range of the task number, so the mask is not constant for LLVM. LLVM would turn a constant
/// mask into shuffles.
HExpr lane_exists(const PhaseScope& scope, const Loop& loop) {
  const HExpr begin = static_cast<int>(*dsl::as_int(loop.begin));
  const HExpr end = static_cast<int>(*dsl::as_int(loop.end));
  const HExpr task = hi::Variable::make(index32, "task");
  const HExpr lane = scope.variable(loop.variable).value;
  const HExpr is_below = lane < hi::Min::make(task + end, end);
  return hi::is_const_zero(begin) ? is_below
                                  : hi::Max::make(begin - task, begin) <= lane && is_below;
}

}  // namespace tw::codegen::halide

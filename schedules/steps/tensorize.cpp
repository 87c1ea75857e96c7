// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/text.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/tensor_tiles.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {
namespace {

/// Checks that the four loops from index `first` on have the form of the tile of a core.
Status check_core_loops(const StageNest& stage, size_t first, const TensorTile& tile,
                        const Tensorize& s) {
  if (first + 4 != stage.loops.size())
    return illegal(s.name, fmt::format("'{}' is to be the fourth loop from within", s.loop));
  for (size_t i = 0; i < 4; ++i) {
    const NestLoop& loop = stage.loops[first + i];
    const bool is_term = i == 3;
    if (loop.reduction == (i >= 2) &&
        (is_term ? loop.extent == group_terms(tile)
                 : loop.extent >= 2 && loop.extent <= most_core_extent))
      continue;
    return illegal(s.name, fmt::format("'{}' is loops of 2 to {} rows and columns, and of as many "
                                       "groups of {} terms that reduce, not '{}' of {}",
                                       tile.name, most_core_extent, group_terms(tile), loop.name,
                                       loop.extent));
  }
  return {};
}

/// Checks that the loops from index `first` on have the form of the tile of a warp or of a
/// warpgroup.
Status check_thread_loops(const StageNest& stage, size_t first, const TensorTile& tile,
                          const Tensorize& s) {
  std::vector<int64_t> extents = {tile_part, tile_part, tile.depth};
  if (tile.is_of_warpgroup) {
    int64_t iterations = first + 1 < stage.loops.size() ? stage.loops[first + 1].extent : 0;
    if (first + extents.size() + 2 == stage.loops.size()) {  // groups of columns
      extents.insert(extents.begin() + 1, {iterations, most_mn_neighbours / tile_columns});
      iterations *= most_mn_neighbours / tile_columns;
    } else {
      extents.insert(extents.begin() + 1, iterations);
    }
    if (!has_columns(tile, iterations * tile_columns))
      return illegal(s.name, fmt::format("'{}' has no {} columns, 8 for each turn of the loop "
                                         "inside of '{}'",
                                         tile.name, iterations * tile_columns, s.loop));
  }
  if (first + extents.size() != stage.loops.size())
    return illegal(s.name, fmt::format("'{}' is to be the {} loop from within", s.loop,
                                       tile.is_of_warpgroup ? "fourth" : "third"));
  for (size_t i = 0; i < extents.size(); ++i) {
    const NestLoop& loop = stage.loops[first + i];
    if (loop.extent != extents[i] || loop.reduction != (i + 1 == extents.size()))
      return illegal(
          s.name, fmt::format("'{}' is loops of {}, and of {} that reduces, not "
                              "'{}' of {}",
                              tile.name, tile.is_of_warpgroup ? "2, columns / 8 and 2" : "2 and 2",
                              tile.depth, loop.name, loop.extent));
  }
  return {};
}

}  // namespace

Status apply(Nest& nest, const Tensorize& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_RETURN_IF_ERROR(check_no_scan(*stage, s.name));
  const TensorTile* tile = find_tensor_tile(s.tile);
  if (!tile) {
    std::vector<std::string> names;
    for (const TensorTile& row : tensor_tiles()) names.emplace_back(row.name);
    return illegal(s.name,
                   fmt::format("there is no tile '{}': they are {}", s.tile, join(names, ", ")));
  }
  TW_TRY(const int index, loop_index(*stage, s.name, s.loop));
  const auto first = static_cast<size_t>(index);
  TW_RETURN_IF_ERROR(tile->is_of_core() ? check_core_loops(*stage, first, *tile, s)
                                        : check_thread_loops(*stage, first, *tile, s));
  for (size_t i = first; i < stage->loops.size(); ++i) {
    const NestLoop& loop = stage->loops[i];
    if (loop.kind != LoopKind::Serial || loop.parallel)
      return illegal(
          s.name, fmt::format("loop '{}' is unrolled, vectorized, bound or parallel", loop.name));
  }
  if (!sums_products_of(stage->stage, *tile))
    return illegal(s.name, fmt::format("'{}' sums products of {} in {}, which '{}' does not",
                                       tile->name, tw::to_string(tile->operand),
                                       tw::to_string(tile->accumulator), s.stage));
  for (size_t i = first; i < stage->loops.size(); ++i) stage->loops[i].kind = LoopKind::Tensor;
  stage->loops[first].tile = tile;
  return {};
}

}  // namespace tw::schedules

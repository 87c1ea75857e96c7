// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/placed_buffers.h"

#include <utility>

namespace tw::schedules {

PipelineTrip pipeline_trip(const NestLoop& loop, int64_t depth) {
  return {loop.extent, std::min(depth - 1, loop.extent)};
}

std::vector<int64_t> buffer_extents(const Nest& nest, const StageNest& placed) {
  std::vector<int64_t> extents = placed.region_extent;
  if (placed.padding) {
    int64_t row = 1;
    for (size_t d = placed.padding->dimension; d < extents.size(); ++d) row *= extents[d];
    extents.resize(placed.padding->dimension);
    extents.push_back(row + placed.padding->elements);
  }
  if (placed.depth > 1)
    extents.insert(extents.begin(), pipeline_trip(loop_around(nest, placed), placed.depth).slots());
  return extents;
}

std::vector<Expr> buffer_indices(const Nest& nest, const StageNest& placed,
                                 std::vector<Expr> indices) {
  for (size_t d = 0; d < indices.size(); ++d) {
    const bool slides = placed.window && placed.window->dimension == d;
    indices[d] =
        slides ? indices[d] % Expr(placed.region_extent[d]) : indices[d] - placed.region_offset[d];
  }
  if (placed.padding) {
    Expr row = 0;
    for (size_t d = placed.padding->dimension; d < indices.size(); ++d)
      row = row * Expr(placed.region_extent[d]) + indices[d];
    indices.resize(placed.padding->dimension, Expr(0));
    indices.push_back(row);
  }
  if (placed.depth > 1) {
    const NestLoop& loop = loop_around(nest, placed);
    indices.insert(indices.begin(),
                   dsl::var(loop.variable) % Expr(pipeline_trip(loop, placed.depth).slots()));
  }
  return indices;
}

}  // namespace tw::schedules

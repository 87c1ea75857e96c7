// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/placed_buffers.h"

#include <utility>

namespace tw::schedules {

PipelineTrip pipeline_trip(const NestLoop& loop, int64_t depth) {
  return {loop.extent, std::min(depth - 1, loop.extent)};
}

bool is_placed_at(const StageNest& producer, const StageNest& s, const NestLoop& l) {
  return producer.at && !producer.copies_results() && producer.at->consumer == s.stage.name &&
         producer.at->loop == l.name;
}

bool phase_has_threads(const Nest& nest, const StageNest& s) {
  const auto is_bound = [](const NestLoop& loop) { return loop.kind == LoopKind::Thread; };
  return std::any_of(s.loops.begin(), s.loops.end(), is_bound) ||
         std::any_of(nest.stages.begin(), nest.stages.end(), [&](const StageNest& other) {
           return other.at && other.at->consumer == s.stage.name && phase_has_threads(nest, other);
         });
}

Scope scope_at(const Nest& nest, const StageNest& s, const NestLoop& l) {
  for (const NestLoop& loop : s.loops) {
    if (loop.kind == LoopKind::Thread) return Scope::Local;
    if (loop.name == l.name) break;
  }
  if (s.at) return scope_at(nest, *nest.find(s.at->consumer), loop_around(nest, s));
  return phase_has_threads(nest, s) ? Scope::Shared : Scope::Local;
}

Buffer placed_buffer(const Nest& nest, const StageNest& s, const NestLoop& l,
                     const StageNest& producer) {
  const DType type =
      producer.copies_results() ? producer.stage.type : nest.compute.type_of(producer.result());
  return {producer.result(), type, buffer_extents(nest, producer), scope_at(nest, s, l),
          producer.swizzle};
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

// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/placed_buffers.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "schedules/program/affine.h"

namespace tw::schedules {
namespace {

/// A loop as a digit of an axis: the value of the loop is index / factor % extent, where `index` is
/// an index of the region. The loop with the largest factor needs no remainder.
struct Digit {
  size_t axis;
  int64_t factor;
  bool is_first;  ///< true for the loop with the largest factor
};

/// Returns, for each loop of the stage, which digit of an axis's index it is. Returns nullopt if
/// the index of an axis is not a mixed-radix number whose digits are loops.
std::optional<std::vector<Digit>> digits_of(const StageNest& placed) {
  std::vector<std::optional<Digit>> digits(placed.loops.size());
  for (size_t d = 0; d < placed.stage.axes.size(); ++d) {
    Affine rest = to_affine(placed.axis.at(placed.stage.axes[d].name) - placed.region_offset[d]);
    std::vector<size_t> loops;  // over this axis, those with the smallest factors first
    for (size_t l = 0; l < placed.loops.size(); ++l) {
      const Expr variable = dsl::var(placed.loops[l].variable);
      const int64_t factor = rest.coefficient(variable);
      if (factor == 0) continue;
      if (factor < 0 || digits[l]) return std::nullopt;
      rest.add(variable, -factor);
      digits[l] = Digit{d, factor, false};
      loops.push_back(l);
    }
    if (!rest.is_constant() || rest.constant != 0) return std::nullopt;
    std::ranges::sort(
        loops, {}, [&](size_t l) { return std::pair(digits[l]->factor, placed.loops[l].extent); });
    int64_t next = 1;
    for (const size_t l : loops) {
      if (digits[l]->factor != next) return std::nullopt;
      next *= placed.loops[l].extent;
    }
    if (!loops.empty()) digits[loops.back()]->is_first = true;
  }
  std::vector<Digit> all;
  for (const std::optional<Digit>& digit : digits) {
    if (!digit) return std::nullopt;
    all.push_back(*digit);
  }
  return all;
}

}  // namespace

Status check_stored(const StageNest& placed) {
  const auto illegal = [&](const std::string& why) {
    return fail(ErrorCode::Invalid, fmt::format("[store_in] {}\n  {}", why, describe(placed)));
  };
  if (std::ranges::none_of(placed.loops, [](const auto& l) { return l.kind == LoopKind::Thread; }))
    return illegal(fmt::format("no loop of '{}' is bound to threads that could keep its elements",
                               placed.stage.name));
  if (!digits_of(placed))
    return illegal(fmt::format(
        "the loops of '{}' do not number its elements: a loop was fused, or split with a "
        "shifted tail or by a factor that does not divide an inner loop",
        placed.stage.name));
  return {};
}

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
  return {producer.result(), type, buffer_extents(nest, producer),
          producer.stored_in.value_or(scope_at(nest, s, l)), producer.swizzle};
}

std::vector<int64_t> buffer_extents(const Nest& nest, const StageNest& placed) {
  std::vector<int64_t> extents = placed.region_extent;
  if (placed.stored_in) {
    extents.clear();
    for (const NestLoop& loop : placed.loops) extents.push_back(loop.extent);
    return extents;
  }
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
  if (placed.stored_in) {
    std::vector<Expr> values;
    const std::vector<Digit> digits = digits_of(placed).value();
    for (size_t l = 0; l < digits.size(); ++l) {
      const Expr value = indices[digits[l].axis] / Expr(digits[l].factor);
      values.push_back(digits[l].is_first ? value : value % Expr(placed.loops[l].extent));
    }
    return values;
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

// SPDX-License-Identifier: Apache-2.0
// The algorithm packed_dot packs the factors of sums for dot products. It pads axes, for example
// the three channels of an image to four, and widens elements once instead of in each product.

#include <algorithm>
#include <limits>

#include "base/integer.h"
#include "schedules/nest.h"
#include "schedules/prepared.h"
#include "schedules/program/dot_products.h"
#include "schedules/space/algorithms.h"
#include "schedules/space/stage_plan.h"

namespace tw::schedules {
namespace {

using dsl::Axis;
using dsl::Compute;
using dsl::Stage;

// The largest time of the packed products, as a fraction of the time of the products as they are
// declared. The rest of the time must suffice for the copies.
constexpr double most_time = 0.75;
// The time of products that widen their factors, as a multiple of the time of other products.
// Layers of u8 and i8 with `vpmaddwd` ran at 1.13 times the f32 peak of a Zen 4 that was limited to
// AVX2, where twice the peak is possible.
constexpr double time_of_widening = 2 / 1.13;
// The smallest number of products for each copied element for which packing is worthwhile. A
// product with a single row has only one product for each weight. Packed, it would read the wider
// weights at the speed of memory.
constexpr double least_packed_products = 8;

/// Returns the time of the products along an axis by a dot product, divided by the time of the same
/// products by multiply-adds of vectors. The time includes the terms that are added to reach the
/// depth of the instruction.
double time_of(const Axis& axis, const DotInstruction& dot, const Target& target) {
  const double terms = static_cast<double>(round_up(axis.extent, dot.depth));
  return terms / static_cast<double>(axis.extent) / dot.speed(target.machine.core);
}

bool fits(const Axis& axis, const StageDot& dot) {
  return axis.extent % dot.instruction->depth == 0;
}

/// True if the axis, padded to a multiple of the dot product's depth, is long enough to be split
/// into blocks.
bool is_blocked(const Axis& axis, const StageDot& dot) {
  return round_up(axis.extent, dot.instruction->depth) >= least_blocked_extent;
}

/// Returns the least time of the products of the stage without packing, by multiply-adds of vectors
/// or by dot products. Its unit is that of time_of().
double time_as_it_is(const Stage& stage, const Target& target) {
  double least = 1;
  for (const Axis& axis : stage.reduction)
    for (const StageDot& dot : dots_along(target, stage, axis.name))
      if (fits(axis, dot) && is_blocked(axis, dot) && dot.is_shared_along)
        least = std::min(
            least, time_of(axis, *dot.instruction, target) * (dot.widens ? time_of_widening : 1));
  return least;
}

/// True if the tensor is not copied, or if each element of the copy is used in enough products.
bool pays(const Schedule& schedule, const Stage& stage, const std::string& tensor) {
  const Stage* copy = schedule.nest().compute.find_stage(stage.name + "." + tensor);
  return !copy ||
         dsl::evaluations_of(stage) >= least_packed_products * dsl::elements_of(copy->shape());
}

/// True if the factor that differs between lanes is a constant, or is a copy that can be prepared.
bool can_be_packed(const Schedule& schedule, const Stage& stage, const std::string& own) {
  const dsl::Input* input = schedule.compute().find_input(own);
  const std::string copy = stage.name + "." + own;
  if (!schedule.nest().find(copy)) return input && input->constant;
  const Schedule prepared = schedule.nest().find(own) ? schedule.prepare(own) : schedule;
  return !prepared.error() && can_be_prepared(prepared.nest(), *prepared.nest().find(copy));
}

/// Returns the schedule with the step pack_factors for the stage. nullopt if the step is illegal,
/// if the lanes' factor cannot be packed, or if a copy is not worthwhile.
std::optional<Schedule> packed(const Schedule& schedule, const Stage& stage, const Axis& axis,
                               const StageDot& dot) {
  const DotInstruction& row = *dot.instruction;
  Schedule next = schedule.pack_factors(stage.name, axis.name, row.depth,
                                        dot.widens ? std::string(to_string(row.own)) : "");
  if (next.error() || !can_be_packed(next, stage, dot.own)) return std::nullopt;
  bool all_pay = true;
  for_each_read(stage.body, [&](const dsl::Read& read) {
    all_pay = all_pay && pays(next, stage, read.tensor);
  });
  return all_pay ? std::optional(std::move(next)) : std::nullopt;
}

/// Returns the schedule with the step that makes the products of the stage fastest; nullopt if no
/// step is worthwhile.
std::optional<Schedule> packed(const Schedule& schedule, const Stage& stage, const Target& target) {
  double least = std::numeric_limits<double>::infinity();
  std::optional<Schedule> best;
  for (const Axis& axis : stage.reduction)
    for (const StageDot& dot : dots_along(target, stage, axis.name)) {
      const double time = time_of(axis, *dot.instruction, target);
      const bool needs_packing = dot.widens || !fits(axis, dot);
      if (!needs_packing || !is_blocked(axis, dot) || time >= least) continue;
      auto next = packed(schedule, stage, axis, dot);
      if (!next) continue;
      best = std::move(next);
      least = time;
    }
  return least <= most_time * time_as_it_is(stage, target) ? best : std::nullopt;
}

}  // namespace

std::optional<Rewritten> packed_dot(const Compute& compute, const Target& target) {
  if (target.is_gpu()) return std::nullopt;
  Schedule schedule(compute);
  for (const Stage& stage : compute.stages)
    if (auto next = packed(schedule, stage, target)) schedule = *std::move(next);
  if (schedule.steps().empty()) return std::nullopt;
  return Rewritten{.schedule = std::move(schedule), .needs_dots = true};
}

}  // namespace tw::schedules

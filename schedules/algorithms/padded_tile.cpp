// SPDX-License-Identifier: Apache-2.0
// The algorithm padded_tile copies the padded factors of sums together with the zeros of the
// padding. Core tiles (tensor tiles of a CPU core) need whole rows, and only in such a copy the
// rows of a padded convolution are whole.

#include "schedules/nest.h"
#include "schedules/program/core_tiles.h"
#include "schedules/space/algorithms.h"

namespace tw::schedules {
namespace {

using dsl::Axis;
using dsl::Compute;
using dsl::Stage;

// The smallest number of products for each copied element for which copying is worthwhile.
constexpr double least_padded_products = 8;

/// Returns the schedule with the step pad_factors for the stage; nullopt if the step is illegal or
/// not worthwhile.
std::optional<Schedule> padded(const Schedule& schedule, const Stage& stage, const Target& target) {
  const TensorTile* tile = core_tile_for(target, stage);
  if (!tile) return std::nullopt;
  for (const Axis& axis : stage.reduction) {
    if (axis.extent % (2 * group_terms(*tile)) != 0) continue;
    Schedule next = schedule.pad_factors(stage.name, axis.name);
    if (next.error()) continue;
    double copied = 0;
    for (const Stage& made : next.nest().compute.stages)
      if (!schedule.nest().compute.find_stage(made.name)) copied += dsl::elements_of(made.shape());
    if (dsl::evaluations_of(stage) >= least_padded_products * copied) return next;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Rewritten> padded_tile(const Compute& compute, const Target& target) {
  if (!has_core_tiles(target)) return std::nullopt;
  Schedule schedule(compute);
  for (const Stage& stage : compute.stages)
    if (auto next = padded(schedule, stage, target)) schedule = *std::move(next);
  if (schedule.steps().empty()) return std::nullopt;
  return Rewritten{.schedule = std::move(schedule), .needs_core_tiles = true};
}

}  // namespace tw::schedules

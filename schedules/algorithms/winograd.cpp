// SPDX-License-Identifier: Apache-2.0
// Winograd's algorithm for convolutions with a stride of 1, along one direction of the window or
// along two (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016).

#include <cmath>
#include <ranges>

#include "dsl/rounding.h"
#include "dsl/workload.h"
#include "schedules/nest.h"
#include "schedules/space/algorithms.h"
#include "schedules/space/construction.h"
#include "schedules/toom_cook.h"

namespace tw::schedules {
namespace {

using dsl::Compute;
using dsl::Stage;

constexpr int most_directions = 2;
// The algorithm is used if there are at least this many products for each transformed element, and
// for each sum. For comparison, a depthwise convolution has one product for each, and its
// transforms take longer than its products.
constexpr double least_products = 8;

// The largest error of a sum of n products, as a fraction of the largest sum, is this factor times
// u sqrt(n / taps) times the amplification of the transforms, where u is the unit roundoff.
// Measured in f32: the factor is 0.44 to 0.55, for 64 to 512 channels and N(0, 1) data.
constexpr double error_of_sums = 0.5;
// An algorithm with a larger expected error is left out, because measurements would never find it
// accurate enough for `fast`.
constexpr double hopeless_error = 2 * dsl::error_of_fast;

/// True if there are at least `least_products` products for each transformed element and for each
/// sum. A sum has `length` products.
bool pays(const Compute& compute, const std::string& products, double length) {
  const std::string of = products.substr(0, products.rfind('.'));
  const double transformed = dsl::evaluations_of(*compute.find_stage(of + ".v"));
  return length >= least_products &&
         dsl::evaluations_of(*compute.find_stage(products)) >= least_products * transformed;
}

/// Returns the number of products of a tile along one direction.
int64_t products_of(const Schedule& schedule, const std::string& weights) {
  return schedule.nest().compute.find_stage(weights)->axes[0].extent;
}

/// Returns the schedule with a step along each direction of the stage's window, at most two
/// directions, the last one first. nullopt if no step is legal, if the algorithm is not worthwhile,
/// or if its expected error is hopeless.
std::optional<Rewritten> rewritten(const Compute& compute, const Stage& stage, int64_t tile) {
  Schedule schedule(compute);
  std::string products = stage.name;
  int directions = 0;
  double amplified = 1;
  for (const dsl::Axis& axis : stage.axes | std::views::reverse) {
    if (axis.extent < tile || directions == most_directions) continue;
    Schedule next = schedule.winograd(products, axis.name, tile);
    if (next.error()) continue;
    schedule = std::move(next);
    const int64_t of_tile = products_of(schedule, products + ".u");
    amplified *= amplification(toom_cook(tile, of_tile - tile + 1));
    products += ".m";
    ++directions;
  }
  if (directions == 0) return std::nullopt;
  const Compute& made = schedule.nest().compute;
  const Stage& sums = *made.find_stage(products);
  const auto length = static_cast<double>(points_of(sums, names_of(sums.reduction)));
  if (!pays(made, products, length)) return std::nullopt;
  const double error = error_of_sums * dsl::unit_roundoff(Float32) * std::sqrt(length) * amplified;
  if (error > hopeless_error) return std::nullopt;
  return Rewritten{std::move(schedule), error};
}

std::optional<Rewritten> winograd(const Compute& compute, const Target& target, int64_t tile) {
  if (target.is_gpu()) return std::nullopt;
  for (const Stage& stage : compute.stages) {
    if (stage.combine != Combine::Sum || stage.type != Float32) continue;
    if (auto found = rewritten(compute, stage, tile)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Rewritten> winograd_2(const Compute& compute, const Target& target) {
  return winograd(compute, target, 2);
}
std::optional<Rewritten> winograd_4(const Compute& compute, const Target& target) {
  return winograd(compute, target, 4);
}
std::optional<Rewritten> winograd_6(const Compute& compute, const Target& target) {
  return winograd(compute, target, 6);
}

}  // namespace tw::schedules

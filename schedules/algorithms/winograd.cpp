// SPDX-License-Identifier: Apache-2.0
// Winograd's algorithm for convolutions with a stride of 1, along one direction of the window or
// along two (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016).

#include <ranges>

#include "dsl/workload.h"
#include "schedules/algorithms.h"
#include "schedules/nest.h"

namespace tw::schedules {
namespace {

using dsl::Compute;
using dsl::Stage;

constexpr int most_directions = 2;
// Products that each transformed element and each sum takes part in, at least. A depthwise
// convolution has one: its transforms take longer than its products.
constexpr double least_products = 8;

/// True if products outnumber the elements that are transformed for them.
bool pays(const Nest& nest, const std::string& products) {
  const Stage& product = *nest.compute.find_stage(products);
  const std::string of = products.substr(0, products.rfind('.'));
  const double evaluations = dsl::evaluations_of(product);
  double sums = 1;
  for (const dsl::Axis& axis : product.axes) sums *= static_cast<double>(axis.extent);
  return evaluations >= least_products * sums &&
         evaluations >= least_products * dsl::evaluations_of(*nest.compute.find_stage(of + ".v"));
}

/// The schedule with a step along each direction of the stage's window, the last direction first.
std::optional<Schedule> rewritten(const Compute& compute, const Stage& stage, int64_t tile) {
  Schedule schedule(compute);
  std::string products = stage.name;
  int directions = 0;
  for (const dsl::Axis& axis : stage.axes | std::views::reverse) {
    if (axis.extent < tile || directions == most_directions) continue;
    Schedule next = schedule.winograd(products, axis.name, tile);
    if (next.error()) continue;
    schedule = std::move(next);
    products += ".m";
    ++directions;
  }
  if (directions == 0 || !pays(schedule.nest(), products)) return std::nullopt;
  return schedule;
}

std::optional<Schedule> winograd(const Compute& compute, const Target& target, int64_t tile) {
  if (target.is_gpu()) return std::nullopt;
  for (const Stage& stage : compute.stages) {
    if (stage.combine != Combine::Sum || stage.type != Float32) continue;
    if (auto schedule = rewritten(compute, stage, tile)) return schedule;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Schedule> winograd_2(const Compute& compute, const Target& target) {
  return winograd(compute, target, 2);
}
std::optional<Schedule> winograd_4(const Compute& compute, const Target& target) {
  return winograd(compute, target, 4);
}
std::optional<Schedule> winograd_6(const Compute& compute, const Target& target) {
  return winograd(compute, target, 6);
}

}  // namespace tw::schedules

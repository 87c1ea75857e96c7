// SPDX-License-Identifier: Apache-2.0
#pragma once
// An Algorithm rewrites a compute so that other operations give the same result up to rounding. For
// example, winograd_4 applies `winograd out x 4; winograd out.m y 4` to a convolution `out`. A
// schedule begins with these steps, so its text shows the algorithm. The search space of a compute
// (space.h) is the union of the space of its declared operations, called `direct`, and of the
// spaces of the rewritten computes. Measurements decide between them; a kernel whose error exceeds
// that of the accuracy class gets the status `wrong`.
//
// Each line of algorithms.def adds a function of algorithms/*.cpp to all spaces whose problem
// allows other algorithms. Free functions; thread-safe.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/target.h"
#include "dsl/compute.h"
#include "schedules/schedule.h"

namespace tw::schedules {

/// A compute as an algorithm has rewritten it.
struct Rewritten {
  Schedule schedule;  ///< the steps that rewrite the compute
  /// The expected largest error of an element of the result, as a fraction of the largest element,
  /// for data and weights that are independent and of mean 0.
  double expected_error = 0;
  bool needs_dots = false;          ///< true if it pays only where tiles have dot products
  bool needs_core_tiles = false;    ///< true if it pays only with core tiles
  std::string_view algorithm = {};  ///< name of the algorithm, which apply_algorithms() sets
};

struct Algorithm {
  std::string_view name;  ///< the first word of configurations
  /// Rewrites a compute. Returns nullopt if the algorithm does not match the compute or cannot be
  /// faster on the target.
  std::optional<Rewritten> (*rewrite)(const dsl::Compute& compute, const Target& target);
};

/// All algorithms except `direct`, in the order in which spaces offer them.
std::span<const Algorithm> algorithms();
/// Applies all algorithms to the compute. Returns the rewritten compute of each that matches.
std::vector<Rewritten> apply_algorithms(const dsl::Compute& compute, const Target& target);

}  // namespace tw::schedules

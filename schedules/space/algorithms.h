// SPDX-License-Identifier: Apache-2.0
#pragma once
// An Algorithm rewrites a compute so that other operations give the same result up to rounding. For
// example, winograd_4 applies `winograd out x 4; winograd out.m y 4` to a convolution `out`. A
// schedule begins with these steps, so its text shows the algorithm. The search space of a compute
// (space.h) is the union of two kinds of spaces: that of the operations as they are declared,
// called `direct`, and those of the rewritten computes. Measurements decide between the algorithms.
// A kernel whose error exceeds that of the accuracy class gets the status `wrong`.
//
// Each line of algorithms.def names a function of algorithms/*.cpp. The function's algorithm is
// added to all spaces whose problem allows other algorithms. Free functions; thread-safe.

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
  /// The expected largest absolute error of an element of the result, divided by the largest
  /// absolute value of an element. It is for data and weights that are independent and have mean 0.
  double expected_error = 0;
  bool needs_dots = false;        ///< true if the algorithm is only worthwhile where tiles have dot
                                  ///< products
  bool needs_core_tiles = false;  ///< true if the algorithm is only worthwhile with core tiles,
                                  ///< i.e. tensor tiles of a CPU core
  std::string_view algorithm = {};  ///< name of the algorithm, which apply_algorithms() sets
};

struct Algorithm {
  std::string_view name;  ///< name of the algorithm; the text of a configuration begins with it
  /// Rewrites a compute. Returns nullopt if the algorithm does not match the compute or cannot be
  /// faster on the target.
  std::optional<Rewritten> (*rewrite)(const dsl::Compute& compute, const Target& target);
};

/// Returns all algorithms except `direct`, in the order in which spaces offer them.
std::span<const Algorithm> algorithms();
/// Applies all algorithms to the compute. Returns the rewritten computes of those that match.
std::vector<Rewritten> apply_algorithms(const dsl::Compute& compute, const Target& target);

}  // namespace tw::schedules

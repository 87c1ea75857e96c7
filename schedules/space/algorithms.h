// SPDX-License-Identifier: Apache-2.0
#pragma once
// An Algorithm rewrites a compute so that other operations give the same result up to rounding:
// winograd_4 makes `winograd out x 4; winograd out.m y 4` of a convolution `out`. A schedule begins
// with these steps, so that its text says which algorithm it uses. A search space is the union of
// the spaces of the compute as it is declared, called `direct`, and of those that the algorithms
// make of it (space.h). Measuring decides between them: a kernel whose error exceeds that of the
// accuracy class has the status `wrong`.
//
// A line of algorithms.def makes a function of algorithms/*.cpp part of every space whose problem
// allows algorithms. Free functions; thread-safe.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/target.h"
#include "dsl/compute.h"
#include "schedules/schedule.h"

namespace tw::schedules {

/// A compute as an algorithm computes it.
struct Rewritten {
  Schedule schedule;  ///< the steps that rewrite the compute
  /// The largest error of an element that is to be expected, relative to the largest element, of
  /// data and weights that are independent and of mean 0.
  double expected_error = 0;
  bool needs_dots = false;          ///< it pays only where a tile has dot products
  bool needs_core_tiles = false;    ///< it pays only where there is a tile of a core
  std::string_view algorithm = {};  ///< its name, which apply_algorithms() sets
};

struct Algorithm {
  std::string_view name;  ///< the first word of configurations
  /// nullopt if the algorithm does not match the compute or cannot pay on the target.
  std::optional<Rewritten> (*rewrite)(const dsl::Compute& compute, const Target& target);
};

/// All algorithms but the direct one, in the order in which spaces offer them.
std::span<const Algorithm> algorithms();
/// The rewritten computes of those that match.
std::vector<Rewritten> apply_algorithms(const dsl::Compute& compute, const Target& target);

}  // namespace tw::schedules

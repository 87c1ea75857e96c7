// SPDX-License-Identifier: Apache-2.0
#pragma once
// An Algorithm computes a compute by other operations, equal up to rounding: Winograd's for a
// convolution. It is a list of steps that rewrite the compute, with which a schedule begins, so
// that its text says which algorithm it uses. A search space is the union of the spaces of the
// compute as it is declared, called `direct`, and of those that the algorithms make of it
// (space.h). Measuring decides between them: a result that is too inexact for the accuracy class is
// `wrong`, and is no result.
//
// A line of algorithms.def makes a function of algorithms/*.cpp part of every space whose problem
// allows algorithms. Free functions; thread-safe.

#include <optional>
#include <span>
#include <string_view>

#include "base/target.h"
#include "dsl/compute.h"
#include "schedules/schedule.h"

namespace tw::schedules {

struct Algorithm {
  std::string_view name;  ///< the first word of configurations
  /// The schedule of the steps that rewrite the compute; nullopt if the algorithm does not match it
  /// or cannot pay on the target.
  std::optional<Schedule> (*rewrite)(const dsl::Compute& compute, const Target& target);
};

/// All algorithms but the direct one, in the order in which spaces offer them.
std::span<const Algorithm> algorithms();

}  // namespace tw::schedules

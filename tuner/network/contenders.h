// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds contenders: schemes that were never measured and would change the plan if they were faster
// than predicted. A scheme is one way to run an operator, with a layout for each of its tensors.
// Private to network.cpp. A pure function; thread-safe.

#include <cstddef>
#include <vector>

#include "graph/plan.h"
#include "tuner/network/scheme_costs.h"

namespace tw::tuner {

/// A scheme that the plan does not use. `group` and `scheme` are its SchemeIndex.
struct Contender {
  size_t group = 0, scheme = 0;
  double gain_ns = 0;  ///< upper bound on the time that the network would save with this scheme
};

/// Returns the unmeasured schemes that the cheapest plan would use if their times were
/// SchemeCosts::optimistic_ns(), largest gain first. The gain of a scheme is the sum of the gains
/// of the operators in its group. The gain of an operator is
///
///   (cost of the scheme - optimistic_ns) - (time of the cheapest plan with the scheme - plan_ns)
///
/// Or 0 if this is negative. For example, a scheme costs 50 us, and 30 us at best. The cheapest
/// plan takes 900 us, and the cheapest plan with the scheme 905 us. The gain is (50 - 30) - (905 -
/// 900) = 15 us. A scheme is left out if its gain is at most `least_ns`. Requires: `cheapest` is
/// the result of graph::cheapest_with() for costs.schemes(), and `plan_ns` is the time of the
/// cheapest plan.
std::vector<Contender> find_contenders(const SchemeCosts& costs,
                                       const std::vector<std::vector<double>>& cheapest,
                                       double plan_ns, double least_ns);

}  // namespace tw::tuner

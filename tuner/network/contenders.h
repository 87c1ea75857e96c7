// SPDX-License-Identifier: Apache-2.0
#pragma once
// Contenders: schemes that were never measured and could change the plan. Private to network.cpp.
// A pure function; thread-safe.

#include <cstddef>
#include <vector>

#include "graph/plan.h"
#include "tuner/network/scheme_costs.h"

namespace tw::tuner {

/// A scheme of a group that the plan does not use.
struct Contender {
  size_t group = 0, scheme = 0;
  double gain_ns = 0;  ///< upper bound on the time that the network would save by it
};

/// The unmeasured schemes that would be chosen if they took SchemeCosts::optimistic_ns(), largest
/// gain first. For each operator of the group the gain is
///
///   (cost of the scheme - optimistic_ns) - (time of the cheapest plan with the scheme - plan_ns)
///
/// or 0 if that is negative. Schemes with a gain of `least_ns` or less are left out. Requires:
/// `cheapest` as graph::cheapest_with() returns it for costs.schemes(), and the time of the
/// cheapest plan, `plan_ns`.
std::vector<Contender> find_contenders(const SchemeCosts& costs,
                                       const std::vector<std::vector<double>>& cheapest,
                                       double plan_ns, double least_ns);

}  // namespace tw::tuner

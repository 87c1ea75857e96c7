// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which schemes that were never measured could change the plan. Private to network.cpp. A pure
// function; thread-safe.

#include <cstddef>
#include <vector>

#include "graph/plan.h"
#include "tuner/scheme_costs.h"

namespace tw::tuner {

/// A scheme of a group that the plan does not use.
struct Contender {
  size_t group = 0, scheme = 0;
  double gain_ns = 0;  ///< what the network would gain at most
};

/// The unmeasured schemes that would be chosen if they took SchemeCosts::optimistic_ns(), largest
/// gain first. Each operator of the group gains what its scheme costs more than that, less what the
/// cheapest plan with this scheme, `cheapest`, costs more than the cheapest of all. Schemes that
/// gain less than `least_ns` are left out. Requires: `cheapest` as cheapest_with() returns it for
/// costs.schemes().
std::vector<Contender> find_contenders(const SchemeCosts& costs,
                                       const std::vector<std::vector<double>>& cheapest,
                                       double plan_ns, double least_ns);

}  // namespace tw::tuner

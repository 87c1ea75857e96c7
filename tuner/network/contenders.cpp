// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/contenders.h"

#include <algorithm>

namespace tw::tuner {

std::vector<Contender> find_contenders(const SchemeCosts& costs,
                                       const std::vector<std::vector<double>>& cheapest,
                                       double plan_ns, double least_ns) {
  const std::vector<std::vector<graph::Scheme>> schemes = costs.schemes();
  std::vector<Contender> contenders;
  for (size_t group = 0; group < costs.groups().size(); ++group) {
    for (size_t scheme = 0; scheme < costs.kernels(group).size(); ++scheme) {
      if (costs.kernels(group)[scheme].measured_ns > 0) continue;
      const double best = costs.optimistic_ns(group, scheme);
      Contender contender{group, scheme};
      for (const size_t op : costs.groups()[group].operators) {
        const double saved = schemes[op][scheme].cost_ns - costs.runs_of(op) * best;
        contender.gain_ns += std::max(saved - (cheapest[op][scheme] - plan_ns), 0.0);
      }
      if (contender.gain_ns > least_ns) contenders.push_back(contender);
    }
  }
  std::ranges::stable_sort(
      contenders, [](const Contender& a, const Contender& b) { return a.gain_ns > b.gain_ns; });
  return contenders;
}

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/network_demand.h"

#include <map>
#include <utility>

#include "tuner/demand.h"

namespace tw::tuner {

db::Demand demand_of(const PlannedNetwork& planned, const std::string& source,
                     const std::string& name, const Target& target, int threads, double most_error,
                     int64_t now_ms) {
  db::Demand demand = demand_at(target, threads, now_ms);
  demand.source = source;
  demand.name = name;
  demand.latency_ns = planned.plan.predicted_ns;
  std::map<std::string, size_t> places;  // of kernels, by the text of their workload
  for (const KernelUse& use : planned.uses) {
    const auto [place, is_new] = places.emplace(use.kernel.workload.text(), demand.kernels.size());
    if (!is_new) {
      demand.kernels[place->second].runs += use.runs;
      continue;
    }
    db::WantedKernel kernel;
    kernel.op = use.kernel.workload.op;
    kernel.workload = use.kernel.workload.key();
    kernel.layouts = use.kernel.workload.asked();
    kernel.schedule = use.kernel.schedule;
    kernel.runs = use.runs;
    kernel.latency_ns = use.latency_ns;
    kernel.is_measured = use.kernel.measured_ns > 0;
    kernel.most_error = most_error;
    demand.kernels.push_back(std::move(kernel));
  }
  return demand;
}

}  // namespace tw::tuner

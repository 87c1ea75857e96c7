// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/network_error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "graph/rewrite.h"
#include "schedules/schedule.h"
#include "schedules/space/algorithms.h"

namespace tw::tuner {

double most_error_of_kernels(const graph::Graph& graph, const Target& target) {
  std::map<std::string, bool> rounds_more;  // by the key of a workload
  uint64_t count = 0;
  for (const graph::Operator& op : graph.operators) {
    if (graph::is_reshape(op) || op.workload.accuracy != dsl::Accuracy::Fast) continue;
    const auto [known, is_new] = rounds_more.try_emplace(op.workload.key());
    if (is_new)
      known->second =
          std::ranges::any_of(schedules::apply_algorithms(op.workload.compute, target),
                              [](const auto& other) { return other.expected_error > 0; });
    if (known->second) ++count;
  }
  if (count == 0) return std::numeric_limits<double>::infinity();
  return error_of_network / std::sqrt(static_cast<double>(std::bit_ceil(count)));
}

bool is_exact_enough(const dsl::Workload& workload, const db::Record& record, double most_error) {
  if (record.verified_error <= most_error) return true;
  const auto is_narrow = [&](const std::string& output) {
    return size_bytes(workload.compute.find_stage(output)->type) < size_bytes(Float32);
  };
  return schedules::algorithm_text(record.schedule).empty() ||
         std::ranges::any_of(workload.compute.outputs, is_narrow);
}

}  // namespace tw::tuner

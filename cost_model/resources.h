// SPDX-License-Identifier: Apache-2.0
#pragma once
// The resources on which a kernel spends its time, in the analytic models of processors and GPUs. A
// time is stored as a sum of the contributions of the resources, which shows how much longer the
// kernel would take if one resource were slower. Plain values; pure functions.

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

namespace tw::cost_model {

enum class Resource {
  Arithmetic,  ///< multiply-add units; on GPUs all arithmetic lanes, and tensor cores
  Loads,       ///< load ports; on GPUs shared memory together with L1
  Stores,      ///< store ports
  Issue,       ///< issue slots of all instructions
  /// Time in which an update of a sum waits for the previous update of this sum; on GPUs, latencies
  /// of blocks that run one after another.
  Latency,
  Spills,    ///< loads and stores of values for which no register is free
  Tests,     ///< branches around statements
  Loops,     ///< starting and counting loops
  L2,        ///< moving data from L2 into L1
  L3,        ///< moving data from L3 into L2
  Memory,    ///< moving data from main memory; on GPUs from DRAM
  Dispatch,  ///< starting tasks, barriers between phases; on GPUs launches
};
inline constexpr size_t resource_count = 12;

/// A time, as the sum of the contributions of resources. Of the resources that work at the same
/// time, the busiest contributes its whole time, and each other resource contributes a share of its
/// time. For example, 10 ns of loads beside 4 ns of stores, with a share of 0.1, are 10 + 0.4 ns.
struct Spent {
  std::array<double, resource_count> by_resource{};
  double overlap = 0;  ///< the part of the total that is contributed by resources other than the
                       ///< busiest (0.4 ns)

  double total() const {
    double sum = 0;
    for (const double time : by_resource) sum += time;
    return sum;
  }
  void add(const Spent& other, double times = 1) {
    for (size_t i = 0; i < resource_count; ++i) by_resource[i] += times * other.by_resource[i];
    overlap += times * other.overlap;
  }
};

inline Spent spent_on(Resource resource, double time) {
  Spent spent;
  spent.by_resource[static_cast<size_t>(resource)] = time;
  return spent;
}

/// Returns the time of activities that run at the same time: the longest of the times, plus the
/// share `overlap_loss` of each of the others, because overlap is imperfect.
inline Spent at_once(std::initializer_list<Spent> all, double overlap_loss) {
  const Spent* longest = std::max_element(
      all.begin(), all.end(), [](const Spent& a, const Spent& b) { return a.total() < b.total(); });
  Spent spent = *longest;
  for (const Spent& other : all) {
    if (&other == longest) continue;
    spent.add(other, overlap_loss);
    spent.overlap += overlap_loss * (other.total() - other.overlap);
  }
  return spent;
}

/// Returns the time of activities that overlap perfectly: the longest of the times.
inline Spent longest(std::initializer_list<Spent> all) { return at_once(all, 0); }

}  // namespace tw::cost_model

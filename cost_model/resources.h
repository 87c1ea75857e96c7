// SPDX-License-Identifier: Apache-2.0
#pragma once
// The resources on which a kernel's time is spent in the analytic models of processors and GPUs. A
// time is stored as the sum of the contributions of its resources, so that the effect of a slower
// resource on it is known. Pure.

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

namespace tw::cost_model {

enum class Resource {
  Arithmetic,  ///< multiply-add units; of GPUs all lanes, and tensor cores
  Loads,       ///< load ports; of GPUs shared memory together with L1
  Stores,      ///< store ports
  Issue,       ///< instructions, whatever they are
  Latency,     ///< updates of a sum that wait for one another; of GPUs blocks that do
  Spills,      ///< values that no register holds
  Tests,       ///< branches around statements
  Loops,       ///< starting and counting loops
  L2,          ///< moving data from L2 into L1
  L3,          ///< from L3 into L2
  Memory,      ///< from main memory; of GPUs DRAM
  Dispatch,    ///< starting tasks, barriers between phases; of GPUs launches
};
inline constexpr size_t resource_count = 12;

/// A time as the sum of what resources contribute to it. A resource in use beside a busier one
/// contributes a share of its own time.
struct Spent {
  std::array<double, resource_count> by_resource{};
  double overlap = 0;  ///< the part of the total that such shares make up

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

/// The time of what is done at once: the longest, and the share `overlap_loss` of the others, as
/// overlap is imperfect.
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

/// The longest alone: what is hidden behind it costs nothing.
inline Spent longest(std::initializer_list<Spent> all) { return at_once(all, 0); }

}  // namespace tw::cost_model

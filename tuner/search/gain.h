// SPDX-License-Identifier: Apache-2.0
#pragma once
// Estimates how much more trials will improve the best latency, from the trials so far.
//
// The best of n trials improves by steps that become rarer and smaller. In recorded searches, both
// guided and random, the gain of a doubling of the trials falls to a quarter from one doubling to
// the next, until a steady tail of about 0.08 % a doubling is left. So k trials after the first n
// lower the logarithm of the latency by
//
//   tail * log2((n + k) / n) + rate * (1 - (n / (n + k))^2) / ln 4
//
// where `rate` is the gain per doubling at n: the mean of the gains of the doublings so far, each
// scaled down by the doublings that followed it.
//
//   GainCurve curve;
//   for (...) curve.add(latency_ns);
//   curve.next(60 * trials_per_s);   // 0.004: expected gain of the next minute: 0.4 %
//
// A value; not thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tw::tuner {

class GainCurve {
 public:
  /// Adds a trial. A latency of 0 is that of a trial without a valid kernel.
  void add(double latency_ns);
  /// Adds so many trials, none of which is faster than the best one so far.
  void add_in_vain(int64_t trials);
  int64_t trials() const { return trials_; }
  /// The share by which `more` trials are expected to shorten the best latency, from 0 to 1. Before
  /// the first valid trial, every doubling is expected to halve the latency.
  double next(double more) const;

 private:
  int64_t trials_ = 0;
  double best_ns_ = 0;
  /// Sum of the improvements of the logarithm so far, each scaled down by the doublings since. It
  /// begins with the improvement that is expected of an unknown search.
  double steps_ = 0.02;
};

/// The state of one of several searches that share their time.
struct SharedSearch {
  GainCurve curve;
  double total_ns = 0;      ///< the best latency of the search, times its weight
  double trials_per_s = 0;  ///< trials made in each second that is spent on the search
  double committed = 0;     ///< trials under way
};

/// Index of the search in which the next `seconds` save the most of the sum of total_ns; nullopt if
/// no search is expected to save anything.
std::optional<size_t> most_promising(const std::vector<SharedSearch>& searches, double seconds);

/// The share by which so many seconds are expected to shorten the sum of total_ns, if each of them
/// is spent on the search in which it saves the most.
double expected_improvement(std::vector<SharedSearch> searches, double seconds);

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Estimates from the trials so far by how much further trials will improve the best latency.
//
// The best of n trials improves by steps that become rarer and smaller. In recorded searches, both
// guided and random, the gain of a doubling of the trials falls to a quarter from one doubling to
// the next, until a steady tail of about 0.08 % a doubling is left. So k trials after the first n
// lower the logarithm of the latency by
//
//   tail * log2((n + k) / n) + rate * (1 - (n / (n + k))^2) / ln 4
//
// where `rate` is the gain per doubling at n: the mean of the gains of the doublings so far, each
// multiplied by 1/4 for every doubling that came after it. For example, with tail = 0.0008, rate =
// 0.01 and n = k = 64 this is 0.0008 + 0.01 * 0.75 / 1.39 = 0.0062, a gain of 0.6 %.
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
  /// Adds a trial. The latency of a trial without a valid kernel is 0.
  void add(double latency_ns);
  /// Adds `trials` trials, none of which is faster than the best trial so far.
  void add_in_vain(int64_t trials);
  int64_t trials() const { return trials_; }
  /// Returns the share, from 0 to 1, by which `more` trials are expected to shorten the best
  /// latency. Before the first valid trial, every doubling is expected to halve the latency.
  double next(double more) const;

 private:
  int64_t trials_ = 0;
  double best_ns_ = 0;
  /// Sum of the decreases of the logarithm of the best latency so far, each multiplied by 1/4 for
  /// every doubling of the trials since then. The first term is the decrease that is expected of a
  /// search before it has begun.
  double steps_ = 0.02;
};

/// The state of one of several searches that share one budget of time.
struct SharedSearch {
  GainCurve curve;
  double total_ns = 0;      ///< the best latency of the search, times its weight
  double trials_per_s = 0;  ///< trials made in each second that is spent on the search
  double committed = 0;     ///< number of trials under way, whose results are not in `curve`
};

/// Returns the index of the search that reduces the sum of total_ns the most if it gets the next
/// `seconds`; nullopt if no search is expected to save anything.
std::optional<size_t> most_promising(const std::vector<SharedSearch>& searches, double seconds);

/// Returns the share, from 0 to 1, by which `seconds` are expected to reduce the sum of total_ns
/// over the searches. The time is divided into 16 parts, or not divided if there is one search.
/// Each part is given to the search that then saves the most.
double expected_improvement(std::vector<SharedSearch> searches, double seconds);

}  // namespace tw::tuner

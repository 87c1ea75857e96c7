// SPDX-License-Identifier: Apache-2.0
#pragma once
// The improvement to be expected of more trials, told from the trials so far.
//
// The best of n trials improves by steps that become rarer and smaller. On recorded searches,
// guided and random ones, what a doubling of the trials brings falls to a quarter with each
// doubling, down to a tail of about 0.08 % a doubling that lasts. So the logarithm of the latency
// falls in k trials after n by
//
//   tail * log2((n + k) / n) + rate * (1 - (n / (n + k))^2) / ln 4
//
// where the rate, per doubling at n, is the mean over the doublings so far, each step scaled down
// by what has passed since.
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
  /// One more trial; 0: it is not valid.
  void add(double latency_ns);
  /// So many more trials, none of which is faster than the best one so far.
  void add_in_vain(int64_t trials);
  int64_t trials() const { return trials_; }
  /// By what share `more` trials are expected to shorten the best latency, 0 to 1. Before the first
  /// valid trial, as if every doubling halved it.
  double next(double more) const;

 private:
  int64_t trials_ = 0;
  double best_ns_ = 0;
  double steps_ =
      0.02;  ///< log-improvements, each scaled down since; first what is expected of one
};

/// One of several searches that share their time.
struct SharedSearch {
  GainCurve curve;
  double total_ns = 0;      ///< its best latency, times how often that counts
  double trials_per_s = 0;  ///< trials that a second of its time makes
  double committed = 0;     ///< trials under way
};

/// The search in which the next `seconds` save most of the sum of total_ns; nothing where all save
/// nothing.
std::optional<size_t> most_promising(const std::vector<SharedSearch>& searches, double seconds);

/// Expected improvement: the share by which so many seconds, each spent where it saves most,
/// shorten the sum of total_ns.
double expected_improvement(std::vector<SharedSearch> searches, double seconds);

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Describes the convergence of searches: the trace of the best latency of each search, and
// statistics of the traces that show how soon the searches find fast kernels.
//
// Each search measures latencies itself, by its own clock. These claimed latencies cannot be
// compared with those of another search. So the best kernel of each search, its winner, is timed
// again, by turns with the other winners. Then all latencies of the search are multiplied by the
// ratio of the winner's new time to its claimed time, which gives latencies on a common scale. For
// example, a search claims 100 us and later 80 us for its winner. If the winner's new time is 88
// us, the search found 110 us and later 88 us on the common scale. Plain data and pure functions;
// thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/agreement.h"

namespace tw::bench {

/// A point of a trace: after this number of trials and of seconds, the best latency of the search
/// is `ns`.
struct Moment {
  double seconds = 0;
  int64_t trials = 0;
  double ns = 0;
};

/// One search on one workload.
struct Trace {
  std::string strategy;
  std::string error;  ///< reason why the search has no figures; empty: it has figures
  /// Every improvement of the best latency, in order, with the latencies that the search claimed.
  std::vector<Moment> claims;
  Moment end;            ///< end of the search, with the claimed latency of the winner
  double final_ns = 0;   ///< the winner's latency in ns, timed by turns with the other winners
  bool alone = false;    ///< true if final_ns was measured in a separate process
  std::string schedule;  ///< the winner's schedule, if it has a text

  /// Returns the best latency on the common scale after this number of trials or seconds; nullopt
  /// if there was no valid candidate by then.
  std::optional<double> ns_after_trials(int64_t trials) const;
  std::optional<double> ns_after_seconds(double seconds) const;
  /// Returns the first moment whose latency on the common scale is at most `ns`; nullopt if there
  /// is none.
  std::optional<Moment> reach(double ns) const;
  /// Returns the claim with its latency on the common scale.
  Moment scaled(const Moment& claim) const;
};

/// All searches on one workload with one number of threads.
struct SearchRow {
  std::string name, workload;
  int threads = 1;
  std::string error;  ///< reason why winners were not timed; empty: they were timed
  std::vector<Trace> traces;
  /// Time in ns of the best kernel in the database of --known, which the searches do not know; 0 if
  /// there is none.
  double known_ns = 0;
  double onednn_ns = 0;  ///< time in ns of oneDNN's fastest form; 0: oneDNN has none
  std::string onednn;    ///< implementation and layouts of that form
  double flops = 0, peak_gflops = 0;
  Agreement agreement;  ///< largest differences of all winners
  /// The disturbance of the timing of the winners; empty: it was not disturbed.
  std::string disturbed;

  /// Returns the smallest of known_ns and the latencies of all winners. Requires: there is a known
  /// kernel or a trace without error.
  double best_ns() const;
};

/// Trials and seconds that the searches of one strategy needed to reach a latency.
struct Reached {
  int64_t reached = 0;  ///< number of workloads on which the target was reached
  /// Medians over all workloads. A workload on which the latency was not reached counts as
  /// infinite. So a median is nullopt if the latency was reached on half of the workloads or fewer.
  std::optional<double> trials, seconds;
};

/// The numbers of trials after which SearchSummary::shares are computed.
inline constexpr int64_t share_trials[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

/// The summary of one strategy with one number of threads, over all workloads.
struct SearchSummary {
  std::string strategy;
  int threads = 1;
  int64_t rows = 0, failed = 0;
  /// Geometric means over the workloads of best_ns() / latency. This is 1 if the search found the
  /// best kernel. `shares` has one element for each of share_trials, computed from the best latency
  /// after this number of trials. `first` is computed from the first valid candidate, and `winner`
  /// from the winner. An element is nullopt if some workload has no valid candidate by then.
  std::vector<std::optional<double>> shares;
  std::optional<double> first, winner;
  Reached to_95, to_98, to_onednn;
};
/// Returns one summary for each pair of number of threads and strategy, in the order in which the
/// pairs first occur in the rows.
std::vector<SearchSummary> summarize(const std::vector<SearchRow>& rows);

}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Convergence of searches: the trace of the best latency of each search, and statistics of the
// traces that show how soon the searches find fast kernels.
//
// A search reports its best latency by its own clock and measurements, its claim. To make searches
// comparable, the winners of all searches are timed once more, interleaved, and each trace is
// scaled by the ratio of the winner's new time to its claimed time. These scaled latencies are
// called the common scale below. Plain data and pure functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/agreement.h"

namespace tw::bench {

/// A point of a trace: the best latency of a search after this number of trials and seconds.
struct Moment {
  double seconds = 0;
  int64_t trials = 0;
  double ns = 0;
};

/// One search on one workload.
struct Trace {
  std::string strategy;
  std::string error;  ///< why the search has no figures; empty: it has figures
  /// Each improvement in order, with the latency that the search claimed.
  std::vector<Moment> claims;
  Moment end;            ///< end of the search, with the claimed latency of the winner
  double final_ns = 0;   ///< the winner's latency, timed interleaved with the other winners
  bool alone = false;    ///< final_ns was measured in a separate process
  std::string schedule;  ///< the winner's schedule, if it has a text

  /// The best latency on the common scale after this number of trials or seconds; nullopt before
  /// the first valid candidate.
  std::optional<double> ns_after_trials(int64_t trials) const;
  std::optional<double> ns_after_seconds(double seconds) const;
  /// The first moment whose latency on the common scale is at most `ns`; nullopt if there is none.
  std::optional<Moment> reach(double ns) const;
  /// The claim with its latency on the common scale.
  Moment scaled(const Moment& claim) const;
};

/// All searches on one workload with one number of threads.
struct SearchRow {
  std::string name, workload;
  int threads = 1;
  std::string error;  ///< why winners were not timed; empty: they were timed
  std::vector<Trace> traces;
  /// Time of the best kernel in the database, which the searches do not know; 0: none.
  double known_ns = 0;
  double onednn_ns = 0;  ///< time of oneDNN's fastest form; 0: oneDNN has none
  std::string onednn;    ///< implementation and layouts of that form
  double flops = 0, peak_gflops = 0;
  Agreement agreement;    ///< largest differences of all winners
  std::string disturbed;  ///< what disturbed the timing of the winners; empty: nothing

  /// Latency of the fastest kernel among all winners and the known kernel. Requires: a trace
  /// without error.
  double best_ns() const;
};

/// Trials and seconds that the searches of one strategy took to reach a target latency.
struct Reached {
  int64_t reached = 0;  ///< number of workloads on which the target was reached
  /// Medians over all workloads; nullopt unless the target was reached on more than half of them.
  std::optional<double> trials, seconds;
};

/// Numbers of trials for which shares are reported.
inline constexpr int64_t share_trials[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

/// Summary over the workloads of one strategy with one number of threads.
struct SearchSummary {
  std::string strategy;
  int threads = 1;
  int64_t rows = 0, failed = 0;
  /// Geometric means over the workloads of the ratio best_ns() / latency: after each number of
  /// share_trials, of the first valid candidate, and of the winner. nullopt if a workload has no
  /// valid candidate by then.
  std::vector<std::optional<double>> shares;
  std::optional<double> first, winner;
  Reached to_95, to_98, to_onednn;
};
/// Summaries ordered by threads, then by strategy in the order of the first row.
std::vector<SearchSummary> summarize(const std::vector<SearchRow>& rows);

}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Convergence of searches: the trace of the best latency of each search, and statistics of the
// traces that show how soon the searches find fast kernels.
//
// A search reports its best latency by its own clock and measurements. To make searches comparable,
// the winners of all searches are timed once more, interleaved, and each trace is scaled by the
// ratio of the winner's new time to the time that its search claimed. Plain data and pure
// functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/agreement.h"

namespace tw::bench {

/// The best latency of a search after so many trials and seconds.
struct Moment {
  double seconds = 0;
  int64_t trials = 0;
  double ns = 0;
};

/// One search on one workload.
struct Trace {
  std::string strategy;
  std::string error;           ///< why the search has no figures; empty: it has
  std::vector<Moment> claims;  ///< improvements in order, with the search's own latencies
  Moment end;                  ///< end of the search; its latency is the winner's claimed one
  double final_ns = 0;         ///< the winner's latency, interleaved with the others
  bool alone = false;          ///< final_ns was measured in a process of its own
  std::string schedule;        ///< the winner's schedule, if it has a text

  /// The best latency after so many trials or seconds, on the common scale; nullopt before the
  /// first valid candidate.
  std::optional<double> ns_after_trials(int64_t trials) const;
  std::optional<double> ns_after_seconds(double seconds) const;
  /// The first moment with at most `ns` on the common scale.
  std::optional<Moment> reach(double ns) const;
  /// The claim with its latency on the common scale.
  Moment scaled(const Moment& claim) const;
};

/// All searches on one workload with one number of threads.
struct SearchRow {
  std::string name, workload;
  int threads = 1;
  std::string error;  ///< why winners were not timed; empty: they were
  std::vector<Trace> traces;
  double known_ns = 0;   ///< the database's best kernel, unknown to the searches; 0: none
  double onednn_ns = 0;  ///< oneDNN's fastest form; 0: it has none
  std::string onednn;    ///< implementation and layouts of that form
  double flops = 0, peak_gflops = 0;
  Agreement agreement;    ///< largest differences of all winners
  std::string disturbed;  ///< what disturbed the timing of the winners; empty: nothing

  /// Latency of the fastest of all winners and the known kernel. Requires: a trace without error.
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
  /// Geometric means of best known / latency: at share_trials, of the first valid candidate and of
  /// the winner. nullopt if not every workload has a valid candidate by then.
  std::vector<std::optional<double>> shares;
  std::optional<double> first, winner;
  Reached to_95, to_98, to_onednn;
};
/// Summaries ordered by threads, then by strategy in the order of the first row.
std::vector<SearchSummary> summarize(const std::vector<SearchRow>& rows);

}  // namespace tw::bench

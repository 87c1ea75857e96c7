// SPDX-License-Identifier: Apache-2.0
#pragma once
// How soon searches find fast kernels: what was seen of each, and the figures drawn from it.
//
// A search tells of its best latency by its own clock and measurements. So that searches can be
// compared, their winners are timed once more, in turn, and a trace is scaled by what its winner
// then took over what the search had claimed for it. Plain data and pure functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/agreement.h"

namespace tw::bench {

/// The best that a search had after so many trials and seconds.
struct Moment {
  double seconds = 0;
  int64_t trials = 0;
  double ns = 0;
};

/// One search on one workload.
struct Trace {
  std::string strategy;
  std::string error;           ///< why there are no figures; empty: there are
  std::vector<Moment> claims;  ///< each better than the one before, the search's own latencies
  Moment end;                  ///< of the search; its latency is what is claimed for the winner
  double final_ns = 0;         ///< of the winner, in turn with the others
  bool alone = false;          ///< ... but timed in a process of its own
  std::string schedule;        ///< of the winner, where it can be written down

  /// The best after so much, on the common scale; nothing before the first valid candidate.
  std::optional<double> ns_after_trials(int64_t trials) const;
  std::optional<double> ns_after_seconds(double seconds) const;
  /// The first moment with at most `ns` on the common scale.
  std::optional<Moment> reach(double ns) const;
  /// Latencies on the common scale.
  Moment scaled(const Moment& claim) const;
};

/// All searches on one workload with one number of threads.
struct SearchRow {
  std::string name, workload;
  int threads = 1;
  std::string error;  ///< why winners were not timed; empty: they were
  std::vector<Trace> traces;
  double known_ns = 0;   ///< of the database's own best kernel, that no search was shown; 0: none
  double onednn_ns = 0;  ///< of its fastest form
  std::string onednn;    ///< implementation and layouts of that
  double flops = 0, peak_gflops = 0;
  Agreement agreement;    ///< largest differences of all winners
  std::string disturbed;  ///< by what the timing of the winners was; empty: it was not

  /// The fastest of all winners and of what was known. Requires: a trace without error.
  double best_ns() const;
};

/// When a goal was reached, over the workloads of one strategy.
struct Reached {
  int64_t reached = 0;                    ///< workloads
  std::optional<double> trials, seconds;  ///< medians; none where fewer than half reached it
};

/// Numbers of trials for which shares are reported.
inline constexpr int64_t share_trials[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

/// Over the workloads of one strategy with one number of threads.
struct SearchSummary {
  std::string strategy;
  int threads = 1;
  int64_t rows = 0, failed = 0;
  /// Geometric means of best known / latency: at share_trials, of the first valid candidate and of
  /// the winner. None where not every workload has a valid candidate by then.
  std::vector<std::optional<double>> shares;
  std::optional<double> first, winner;
  Reached to_95, to_98, to_onednn;
};
/// By threads, then by strategy in the order of the first row.
std::vector<SearchSummary> summarize(const std::vector<SearchRow>& rows);

}  // namespace tw::bench

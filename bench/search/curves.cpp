// SPDX-License-Identifier: Apache-2.0
#include "bench/search/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/result.h"

namespace tw::bench {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

template <typename Before>
std::optional<double> last_claim(const Trace& trace, Before before) {
  std::optional<double> ns;
  for (const Moment& claim : trace.claims)
    if (before(claim)) ns = trace.scaled(claim).ns;
  return ns;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double middle = (values[(n - 1) / 2] + values[n / 2]) / 2;
  return std::isfinite(middle) ? std::optional(middle) : std::nullopt;
}

/// A trace and its row.
struct Run {
  const SearchRow* row;
  const Trace* trace;
};

/// Returns the geometric mean over the runs of best_ns() / latency(trace); nullopt if a latency is
/// nullopt.
template <typename Latency>
std::optional<double> mean_share(const std::vector<Run>& runs, Latency latency) {
  double sum = 0;
  for (const Run& run : runs) {
    const std::optional<double> ns = latency(*run.trace);
    if (!ns) return std::nullopt;
    sum += std::log(run.row->best_ns() / *ns);
  }
  if (runs.empty()) return std::nullopt;
  return std::exp(sum / static_cast<double>(runs.size()));
}

/// Returns the trials and seconds until the runs reach the latency `target(row)`.
template <typename TargetLatency>
Reached when(const std::vector<Run>& runs, TargetLatency target) {
  Reached result;
  std::vector<double> trials, seconds;
  for (const Run& run : runs) {
    const std::optional<Moment> moment = run.trace->reach(target(*run.row));
    if (moment) ++result.reached;
    trials.push_back(moment ? static_cast<double>(moment->trials) : never);
    seconds.push_back(moment ? moment->seconds : never);
  }
  result.trials = median(std::move(trials));
  result.seconds = median(std::move(seconds));
  return result;
}

SearchSummary summarize_runs(const std::string& strategy, int threads,
                             const std::vector<SearchRow>& rows) {
  SearchSummary summary;
  summary.strategy = strategy;
  summary.threads = threads;
  std::vector<Run> runs;
  for (const SearchRow& row : rows)
    for (const Trace& trace : row.traces) {
      if (row.threads != threads || trace.strategy != strategy) continue;
      const bool failed = !row.error.empty() || !trace.error.empty();
      if (failed) ++summary.failed;
      if (!failed) runs.push_back({&row, &trace});
    }
  summary.rows = static_cast<int64_t>(runs.size());
  for (const int64_t trials : share_trials)
    summary.shares.push_back(
        mean_share(runs, [&](const Trace& t) { return t.ns_after_trials(trials); }));
  summary.first = mean_share(runs, [](const Trace& t) -> std::optional<double> {
    return t.claims.empty() ? std::nullopt : std::optional(t.scaled(t.claims.front()).ns);
  });
  summary.winner = mean_share(runs, [](const Trace& t) { return std::optional(t.final_ns); });
  summary.to_95 = when(runs, [](const SearchRow& row) { return row.best_ns() / 0.95; });
  summary.to_98 = when(runs, [](const SearchRow& row) { return row.best_ns() / 0.98; });
  std::erase_if(runs, [](const Run& run) { return run.row->onednn_ns <= 0; });
  summary.to_onednn = when(runs, [](const SearchRow& row) { return row.onednn_ns; });
  return summary;
}

}  // namespace

Moment Trace::scaled(const Moment& claim) const {
  return {claim.seconds, claim.trials, claim.ns * final_ns / end.ns};
}

std::optional<double> Trace::ns_after_trials(int64_t trials) const {
  return last_claim(*this, [&](const Moment& claim) { return claim.trials <= trials; });
}

std::optional<double> Trace::ns_after_seconds(double seconds) const {
  return last_claim(*this, [&](const Moment& claim) { return claim.seconds <= seconds; });
}

std::optional<Moment> Trace::reach(double ns) const {
  for (const Moment& claim : claims)
    if (const Moment moment = scaled(claim); moment.ns <= ns) return moment;
  return std::nullopt;
}

double SearchRow::best_ns() const {
  double best = known_ns > 0 ? known_ns : never;
  for (const Trace& trace : traces)
    if (trace.error.empty()) best = std::min(best, trace.final_ns);
  TW_CHECK(std::isfinite(best));
  return best;
}

std::vector<SearchSummary> summarize(const std::vector<SearchRow>& rows) {
  std::vector<SearchSummary> summaries;
  for (const SearchRow& row : rows)
    for (const Trace& trace : row.traces) {
      const bool is_new =
          std::none_of(summaries.begin(), summaries.end(), [&](const SearchSummary& s) {
            return s.threads == row.threads && s.strategy == trace.strategy;
          });
      if (is_new) summaries.push_back(summarize_runs(trace.strategy, row.threads, rows));
    }
  return summaries;
}

}  // namespace tw::bench

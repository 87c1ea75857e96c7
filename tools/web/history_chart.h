// SPDX-License-Identifier: Apache-2.0
#pragma once
// Draws the trials of a workload over time as SVG: a dot for each timed trial, and for each series
// a line of the best latency up to each time. No script is used; the site's style sheet sets the
// colours. Free functions; thread-safe.

#include <span>
#include <string>
#include <vector>

#include "db/overview.h"
#include "tools/web/html.h"

namespace tw::tools::web {

/// Trials whose times can be compared: they have the same class of devices, target and number of
/// threads.
struct Series {
  std::string name;                      ///< "AMD EPYC 9R45, 2 threads"
  std::vector<db::TrialSummary> trials;  ///< timed trials, sorted by their date
  /// Indices of the leading trials: believed trials whose counted_ns (db::TrialSummary) is less
  /// than that of all earlier trials of the series. The last leading trial has the schedule of the
  /// answer.
  std::vector<size_t> leads;
};

/// Groups the timed trials into series. The series with the most trials comes first.
std::vector<Series> series_of(std::span<const db::TrialSummary> trials);

/// Number of series with a colour of their own. All further series share one colour and have no
/// line.
inline constexpr size_t most_colours = 6;

/// Returns the picture with a caption; empty if there are no series. Trials that are more than 30
/// times slower than the best trial are left out. If there are 3000 trials or more, only every n-th
/// trial and the leading trials are drawn. The caption says what is left out.
Html history_chart(std::span<const Series> series);

/// Returns a time, in ms since 1970, as a text in UTC: "2026-11-22 23:15:04". Returns "-" for 0,
/// negative times and times after the year 2099.
std::string moment(int64_t milliseconds);

}  // namespace tw::tools::web

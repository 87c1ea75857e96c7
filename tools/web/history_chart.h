// SPDX-License-Identifier: Apache-2.0
#pragma once
// Draws the trials of a workload over time as SVG: a dot for each timed trial, and for each series
// a line of the best latency so far. No script is used; the site's style sheet sets the colours.
// Free functions; thread-safe.

#include <span>
#include <string>
#include <vector>

#include "db/overview.h"
#include "tools/web/html.h"

namespace tw::tools::web {

/// Trials whose times can be compared: those of one class of devices, one target and one number of
/// threads.
struct Series {
  std::string name;                      ///< "AMD EPYC 9R45, 2 threads"
  std::vector<db::TrialSummary> trials;  ///< timed trials, sorted by their date
  /// Indices of the trusted trials whose counted_ns is less than that of all earlier trials. The
  /// last of these trials has the schedule of the answer.
  std::vector<size_t> leads;
};

/// Groups the timed trials into series; the series with the most trials comes first.
std::vector<Series> series_of(std::span<const db::TrialSummary> trials);

/// Number of series with a colour of their own. All further series share one colour and have no
/// line.
inline constexpr size_t most_colours = 6;

/// The picture with a caption; empty if there is no timed trial. Trials that are much slower than
/// the best one are left out, and if there are more than a few thousand dots, only every n-th one
/// is drawn. The caption says so.
Html history_chart(std::span<const Series> series);

/// A time as "2026-11-22 23:15:04", in UTC; "-" for a time out of range.
std::string moment(int64_t milliseconds);

}  // namespace tw::tools::web

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trials of a workload over the time at which they were made, as a picture in SVG: a dot for
// each timed trial, and for each device the line of its best latency so far. No script draws it;
// the style sheet of the site gives the colours. Free functions; thread-safe.

#include <span>
#include <string>
#include <vector>

#include "db/overview.h"
#include "tools/web/html.h"

namespace tw::tools::web {

/// The trials that compare with each other: of one class of devices, one target and one number of
/// threads.
struct Series {
  std::string name;                      ///< "AMD EPYC 9R45, 2 threads"
  std::vector<db::TrialSummary> trials;  ///< timed ones, by time
  /// Indices of the believed trials with a smaller counted_ns than all trials before; the last one
  /// has the schedule of the answer.
  std::vector<size_t> leads;
};

/// Timed trials by series; the one with the most trials first.
std::vector<Series> series_of(std::span<const db::TrialSummary> trials);

/// Series after the first few have one colour and no line.
inline constexpr size_t most_colours = 6;

/// The picture, or nothing where no trial is timed. Trials that are much slower than the best are
/// left out, and of more than a few thousand dots only every so many; the caption says so.
Html history_chart(std::span<const Series> series);

/// "2026-11-22 23:15:04", in UTC; a moment that cannot be is "-".
std::string moment(int64_t milliseconds);

}  // namespace tw::tools::web

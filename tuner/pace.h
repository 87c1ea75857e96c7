// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tracks the present speed of the machine by the times of the incumbent, the fastest kernel so far,
// which the runner times beside candidates that look slow.
//
// A disturbance of half a second by another process passes, and timings taken during it do not
// count. A machine that stays slower for longer than 30 s, as under a lower clock, is taken to be a
// slower machine: from then on candidates are judged by its present speed. Noise only adds time, so
// an incumbent that is faster than expected shows at once that the machine is faster again.
//
//   pace.note(reply, now_s);
//   job.incumbent_ns = pace.factor() / incumbent.pace * incumbent.latency_ns;
//
// A value; not thread-safe.

#include <optional>

#include "tuner/workers/jobs.h"

namespace tw::tuner {

class Pace {
 public:
  /// Takes note of the reply to a candidate at a time in seconds.
  void note(const MeasureReply& reply, double now_s);
  /// Time that a kernel takes at present, relative to the time that it took when the machine was at
  /// its fastest; at least 1.
  double factor() const { return factor_; }
  /// True if the machine was disturbed while the latest candidate was measured.
  bool is_disturbed() const { return is_disturbed_; }

 private:
  double factor_ = 1;
  bool is_disturbed_ = false;
  /// Time at which the incumbent became slower than expected; empty while it is not known to be
  /// slower.
  std::optional<double> slower_since_s_;
};

}  // namespace tw::tuner

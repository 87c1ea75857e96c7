// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tracks the present speed of the machine by the times of the incumbent, which is the fastest
// kernel so far. If a candidate looks slow, the runner times the incumbent again and reports how
// long the incumbent took.
//
// A disturbance by another process passes within about half a second, and timings taken during it
// do not count. If the machine stays slower for more than 30 s, for instance because its clock rate
// is lower, its present speed is used to judge candidates from then on. Noise can only add time. So
// if the incumbent is faster than expected even once, the machine is faster again.
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
  /// Takes note of the runner's reply for a candidate. `now_s` is the time of the reply in seconds.
  void note(const MeasureReply& reply, double now_s);
  /// The time that a kernel takes at present, divided by the time that it took when the machine was
  /// fastest. At least 1.
  double factor() const { return factor_; }
  /// True if the machine was disturbed while the latest candidate was measured.
  bool is_disturbed() const { return is_disturbed_; }

 private:
  double factor_ = 1;
  bool is_disturbed_ = false;
  /// Time at which the incumbent was first slower than expected; nullopt while it is as fast as
  /// expected.
  std::optional<double> slower_since_s_;
};

}  // namespace tw::tuner

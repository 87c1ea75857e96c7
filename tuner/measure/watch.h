// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which timings count, by readings taken right before and after each of them.
//
// Two things slow a kernel on a shared machine. A process on the same core takes the core away for
// milliseconds; the system counts an involuntary context switch. A neighbour on the core's sibling
// thread, often another guest of the same host, slows the kernel too, but the system reports
// neither load nor switches: kernels were seen to take 1.43 times as long for 0.1 to 0.5 s at a
// time. Such a neighbour also slows a loop of known speed (peak.h), so the loop is timed right
// before and right after each timing.
//
//   watch.begin();
//   const int64_t elapsed_ns = timer(calls);
//   const Moment moment = watch.end();
//   if (watch.objection(moment)) { watch.rest(); ... }   // time it again
//
// Call objection() when the latency is needed, and not only when the timing is taken: if the
// machine later turns out to be faster than was known, earlier timings did not have its full speed,
// and the watch objects to them. Used by one thread at a time.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tuner/measure/peak.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// The readings at a begin() and at the end() after it, for the timing in between.
struct Moment {
  double speed = 0;      ///< the lower of the speeds before and after the timing, in GFLOP/s
  int64_t switches = 0;  ///< involuntary context switches of this process during the timing
};

class Watch {
 public:
  virtual ~Watch() = default;
  virtual void begin() = 0;
  virtual Moment end() = 0;
  /// Returns a text that says why a timing of that moment does not count, judged by what the watch
  /// knows now; nullopt if the timing counts.
  virtual std::optional<std::string> objection(const Moment& moment) const = 0;
  /// Sleeps for a few milliseconds, so that a disturbance may pass. A thread that has slept also
  /// starts with a full time slice.
  virtual void rest() = 0;
};

/// A watch that never objects, for devices whose own clock counts only the time of our kernels.
class NoWatch : public Watch {
 public:
  void begin() override {}
  Moment end() override { return {}; }
  std::optional<std::string> objection(const Moment&) const override { return std::nullopt; }
  void rest() override {}
};

/// Returns a watch for kernels that run on the threads of the gauge. The gauge must outlive the
/// watch. The call warms up the cores.
std::unique_ptr<Watch> watch_processor(Gauge& gauge, Clock clock);

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which timings count, by evidence of the moment in which they were taken.
//
// Two things slow a kernel on a machine that others use too. A process that shares the core takes
// it away for milliseconds; the system counts that as an involuntary switch. A neighbour on the
// core's sibling thread, often another guest of the same host, shows as neither load nor switches:
// kernels were seen to take 1.43 times as long for 0.1 to 0.5 s at a time. It does slow a loop of
// known speed (peak.h), which is therefore read right before and right after each timing.
//
//   watch.begin();
//   const int64_t elapsed_ns = timer(calls);
//   const Moment moment = watch.end();
//   if (watch.objection(moment)) { watch.rest(); ... }   // time it again
//
// Ask for objections when the latency is needed, not when it is taken: once the machine has turned
// out to be faster than it was known to be, there is an objection to earlier timings. Used by one
// thread at a time.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tuner/measure/peak.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Evidence of the time between a begin() and its end().
struct Moment {
  double speed = 0;      ///< the lower of the readings before and after, in the gauge's unit
  int64_t switches = 0;  ///< involuntary context switches of this process
};

class Watch {
 public:
  virtual ~Watch() = default;
  virtual void begin() = 0;
  virtual Moment end() = 0;
  /// The reason why a timing of that moment does not count, by what is known now; nullopt: it
  /// counts.
  virtual std::optional<std::string> objection(const Moment& moment) const = 0;
  /// Sleeps for a few milliseconds; a thread that has slept also begins with a whole time slice.
  virtual void rest() = 0;
};

/// Objects to nothing; for devices whose own clock counts only the time of our kernels.
class NoWatch : public Watch {
 public:
  void begin() override {}
  Moment end() override { return {}; }
  std::optional<std::string> objection(const Moment&) const override { return std::nullopt; }
  void rest() override {}
};

/// A watch for kernels that run on the threads of the gauge, which must outlive it. Warms the cores
/// once.
std::unique_ptr<Watch> watch_processor(Gauge& gauge, Clock clock);

}  // namespace tw::tuner

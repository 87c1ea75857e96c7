// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long to wait for a worker or a device: until a moment on the clock, or until the user cancels
// what is waited for.
//
//   const Cancellation cancellation(&interrupts, clock);
//   Outcome outcome = worker.receive(cancellation.deadline(10, Needed::No));
//
// Values; copies of a Cancellation share its state. Thread-safe, as far as the clock is.

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/stop.h"
#include "tuner/clock.h"

namespace tw::tuner {

struct Deadline {
  int64_t at_ns = 0;    ///< on the clock of whoever waits
  StopToken stop = {};  ///< asked several times a second; ends the wait before the time has come
};

/// Whether the result of a run needs what is waited for.
enum class Needed { No, ForResult };

/// The user's wish to stop, a counter of interrupts. The first interrupt stops at once what the
/// result does not need, and after a grace of 1.3 s what it does; the second stops everything.
class Cancellation {
 public:
  /// `interrupts` may be null: nobody interrupts. It must outlive all copies and deadlines.
  Cancellation(const std::atomic<int>* interrupts, Clock clock);

  bool is_requested() const;
  StopToken token(Needed needed) const;
  /// A deadline `seconds` from now.
  Deadline deadline(double seconds, Needed needed) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tw::tuner

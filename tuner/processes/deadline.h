// SPDX-License-Identifier: Apache-2.0
#pragma once
// Limits a wait for a worker or a device, by a time on the clock and by a stop token, which the
// user or the end of a budget stops.
//
//   const Cancellation cancellation(&interrupts, clock);
//   Outcome outcome = worker.receive(cancellation.deadline(10, Needed::No));
//
// Values; copies of a Cancellation share its state. Thread-safe if the clock is.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/stop.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

struct Deadline {
  int64_t at_ns = 0;    ///< time at which the wait ends, on the clock of the code that waits
  StopToken stop = {};  ///< asked several times a second; a stop ends the wait before `at_ns`
  std::function<void()> tell = {};  ///< called several times a second during the wait; may be empty

  void tell_of_waiting() const {
    if (tell) tell();
  }
};

/// ForResult if the result of the run depends on the work that is waited for, otherwise No.
enum class Needed { No, ForResult };

/// The stops of all waits of a run: a counter of the user's interrupts, and a time at which all
/// waits end. The first interrupt stops work at once if the result does not need it, and after a
/// grace of 1.3 s if the result needs it. The second interrupt stops everything. A run and its
/// workers have copies of one Cancellation, so that a time set by the run holds for every wait of
/// its workers.
class Cancellation {
 public:
  /// `interrupts` must outlive all copies and deadlines. If it is null, nobody interrupts.
  Cancellation(const std::atomic<int>* interrupts, Clock clock);

  bool is_requested() const;
  /// A token that stops when the user interrupts, or at the time set by end_at(). It follows later
  /// calls of end_at(), as the next phase of a run may end later.
  StopToken token(Needed needed) const;
  /// Ends every wait, including those that have begun, at that time on the clock in ns. `never`
  /// sets no end.
  void end_at(int64_t at_ns) const;
  static constexpr int64_t never = INT64_MAX;
  /// Sets a function that every later wait calls several times a second, on the thread that waits.
  /// Requires: no other thread is waiting.
  void tell_while_waiting(std::function<void()> tell) const;
  /// A deadline `seconds` from now, which this Cancellation also stops.
  Deadline deadline(double seconds, Needed needed) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tw::tuner

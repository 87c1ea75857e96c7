// SPDX-License-Identifier: Apache-2.0
#pragma once
// Limits a wait for a worker or a device. The wait ends at a time on the clock, or when a stop
// token stops because of the user or the end of a budget.
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

/// ForResult if the result of the run depends on the work that is waited for, otherwise No. The
/// first interrupt stops work with No at once. Work with ForResult may continue for the grace of
/// Cancellation.
enum class Needed { No, ForResult };

/// Stops all waits of a run when the user interrupts (a counter counts the interrupts), and at a
/// time that the run sets. The first interrupt stops work with Needed::No at once, and work with
/// Needed::ForResult after a grace of 1.3 s. The second interrupt stops everything. A run and its
/// workers have copies of one Cancellation, so that a time set by the run holds for every wait of
/// its workers.
class Cancellation {
 public:
  /// `interrupts` counts the user's interrupts. The counter must outlive all copies and deadlines.
  /// If `interrupts` is null, nothing interrupts.
  Cancellation(const std::atomic<int>* interrupts, Clock clock);

  bool is_requested() const;
  /// Returns a token that stops when the user interrupts, or at the time set by end_at(). The token
  /// obeys later calls of end_at() too, as the next phase of a run may end later.
  StopToken token(Needed needed) const;
  /// Ends every wait at the time `at_ns` on the clock, including waits that have begun.
  /// end_at(never) removes this limit.
  void end_at(int64_t at_ns) const;
  static constexpr int64_t never = INT64_MAX;
  /// Sets a function that every later wait calls several times a second, on the thread that waits.
  /// Requires: no other thread is waiting.
  void tell_while_waiting(std::function<void()> tell) const;
  /// Returns a deadline for a wait. It ends the wait `seconds` from now, or earlier if this
  /// Cancellation stops work of the kind `needed`.
  Deadline deadline(double seconds, Needed needed) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tw::tuner

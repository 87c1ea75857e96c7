// SPDX-License-Identifier: Apache-2.0
#pragma once
// The end of a wait for a worker or a device: a moment on the clock, or a stop by the user or at
// the end of a budget.
//
//   const Cancellation cancellation(&interrupts, clock);
//   Outcome outcome = worker.receive(cancellation.deadline(10, Needed::No));
//
// Values; copies of a Cancellation share its state. Thread-safe, as far as the clock is.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/stop.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

struct Deadline {
  int64_t at_ns = 0;    ///< on the clock of the code that waits
  StopToken stop = {};  ///< asked several times a second; a stop ends the wait before `at_ns`
  std::function<void()> tell = {};  ///< called several times a second during the wait; may be empty

  void tell_of_waiting() const {
    if (tell) tell();
  }
};

/// Says if the result of a run depends on the work that is waited for.
enum class Needed { No, ForResult };

/// The stops of a run: a counter of the user's interrupts, and a time at which all waits end. The
/// first interrupt stops at once the work that the result does not need, and after a grace of 1.3 s
/// the work that it needs; the second interrupt stops everything. A run and its workers have copies
/// of one Cancellation, so that a time set by the run holds for every wait of its workers.
class Cancellation {
 public:
  /// `interrupts` may be null: nobody interrupts. It must outlive all copies and deadlines.
  Cancellation(const std::atomic<int>* interrupts, Clock clock);

  bool is_requested() const;
  /// A token that stops for the user's interrupts, or once the time of end_at() has come. The token
  /// follows later calls of end_at(), as the next phase of a run may have a later end.
  StopToken token(Needed needed) const;
  /// Ends every wait at that time on the clock in ns, also waits that have begun; never: no wait.
  void end_at(int64_t at_ns) const;
  static constexpr int64_t never = INT64_MAX;
  /// Sets a function that each later wait calls several times a second, on the thread that waits.
  /// Requires: no other thread waits.
  void tell_while_waiting(std::function<void()> tell) const;
  /// A deadline `seconds` from now.
  Deadline deadline(double seconds, Needed needed) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long to wait for a worker or a device: until a moment on the clock, or until the user or the
// end of a budget stops what is waited for.
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
#include "tuner/clock.h"

namespace tw::tuner {

struct Deadline {
  int64_t at_ns = 0;    ///< on the clock of whoever waits
  StopToken stop = {};  ///< asked several times a second; ends the wait before the time has come
  std::function<void()> tell = {};  ///< called as often while the wait lasts; empty: nobody listens

  void tell_of_waiting() const {
    if (tell) tell();
  }
};

/// Whether the result of a run needs what is waited for.
enum class Needed { No, ForResult };

/// The user's wish to stop, a counter of interrupts. The first interrupt stops at once what the
/// result does not need, and after a grace of 1.3 s what it does; the second stops everything. So
/// does a time at which all waits end. A run and its workers have copies of one Cancellation, so
/// that what the run sets holds for every wait of its workers.
class Cancellation {
 public:
  /// `interrupts` may be null: nobody interrupts. It must outlive all copies and deadlines.
  Cancellation(const std::atomic<int>* interrupts, Clock clock);

  bool is_requested() const;
  /// Stops for the user's wish, or because the time of end_at() has come, whatever it is by then:
  /// the next phase of a run may have a later end.
  StopToken token(Needed needed) const;
  /// Ends every wait at that time on the clock, also those that have begun. never: none of them.
  void end_at(int64_t at_ns) const;
  static constexpr int64_t never = INT64_MAX;
  /// Is called several times a second during each wait, on the thread that waits. Not to be set
  /// while another thread waits.
  void tell_while_waiting(std::function<void()> tell) const;
  /// A deadline `seconds` from now.
  Deadline deadline(double seconds, Needed needed) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tw::tuner

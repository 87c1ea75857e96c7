// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cancellation of long work. A function that may take long receives a StopToken, checks it
// regularly, and if it has stopped, returns an error with the reason. The result never depends on
// the moment of the stop: the function returns its complete result or an error.
//
//   std::atomic<int> interrupts = 0;
//   const StopToken stop =
//       any_of(stop_on_interrupt(&interrupts), stop_at(clock, clock() + second_ns));
//   for (const Stage& stage : compute.stages) {
//     TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
//     ...
//   }
//
// A default-constructed token never stops. Tokens are cheap to copy, all copies give the same
// answer, and any thread may ask them. No function here reads a clock by itself: stop_at() is given
// one.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace tw {

enum class StopReason {
  Interrupted,  ///< the user asked for the end
  OutOfTime,    ///< a budget is used up
};
std::string_view to_string(StopReason reason);

class StopToken {
 public:
  /// Returns the reason to stop, or nullopt to go on. Must be thread-safe. Once it has returned a
  /// reason, every later call must return a reason.
  using Question = std::function<std::optional<StopReason>()>;

  StopToken() = default;
  explicit StopToken(Question question);

  /// The reason why the work has to end; nullopt while the work may go on.
  std::optional<StopReason> reason() const { return question_ ? (*question_)() : std::nullopt; }
  bool is_stopped() const { return reason().has_value(); }

 private:
  std::shared_ptr<const Question> question_;  ///< null: never stops
};

/// Stops as soon as either token does. If both have stopped, the reason is that of `a`.
StopToken any_of(StopToken a, StopToken b);
/// Stops with OutOfTime as soon as the clock returns `at` or more; both are in the clock's unit.
/// The token is thread-safe if the clock is.
StopToken stop_at(std::function<int64_t()> clock, int64_t at);
/// Stops with Interrupted as soon as the counter is above 0. The counter must outlive the token and
/// its copies. If the pointer is null, the token never stops.
StopToken stop_on_interrupt(const std::atomic<int>* interrupts);

/// The error that stopped work returns: Interrupted for StopReason::Interrupted, TryLater for any
/// other reason.
tl::unexpected<Error> stopped(StopReason reason, std::string_view operation);
/// Returns stopped() with the token's reason if the token has stopped, else success.
Status check_not_stopped(const StopToken& stop, std::string_view operation);

}  // namespace tw

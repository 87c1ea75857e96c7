// SPDX-License-Identifier: Apache-2.0
#pragma once
// Cancellation of long work. A function that may take long receives a StopToken and checks it
// regularly. Once the token says to stop, the function returns an error with the reason. A function
// never returns part of a result: it returns either the complete result or an error.
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
// answer, and any thread may ask them. stop_at() reads the clock that its caller passes, so tests
// can use a clock of their own.

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

  /// Returns the reason why the work has to end, or nullopt if the work may go on.
  std::optional<StopReason> reason() const { return question_ ? (*question_)() : std::nullopt; }
  bool is_stopped() const { return reason().has_value(); }

 private:
  std::shared_ptr<const Question> question_;  ///< null: never stops
};

/// Returns a token that stops as soon as `a` or `b` does. If both have stopped, its reason is the
/// reason of `a`.
StopToken any_of(StopToken a, StopToken b);
/// Returns a token that stops with OutOfTime as soon as the clock returns `at` or more. The token
/// is thread-safe if the clock is.
StopToken stop_at(std::function<int64_t()> clock, int64_t at);
/// Returns a token that stops with Interrupted as soon as the counter is above 0. The counter must
/// outlive the token and its copies. If the pointer is null, the token never stops.
StopToken stop_on_interrupt(const std::atomic<int>* interrupts);

/// Returns the error for work that was stopped. Its code is Interrupted for StopReason::Interrupted
/// and TryLater for OutOfTime; its message begins with `operation`.
tl::unexpected<Error> stopped(StopReason reason, std::string_view operation);
/// Returns stopped() with the token's reason if the token has stopped, else success.
Status check_not_stopped(const StopToken& stop, std::string_view operation);

}  // namespace tw

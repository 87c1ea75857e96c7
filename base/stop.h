// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stopping as a value. Work that may take long is handed a StopToken, asks it now and then, and
// ends early with an error that has the reason. The result never depends on the moment of the stop:
// it is whole or absent.
//
//   std::atomic<int> interrupts = 0;
//   const StopToken stop =
//       any_of(stop_on_interrupt(&interrupts), stop_at(clock, clock() + second_ns));
//   for (const Stage& stage : compute.stages) {
//     TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
//     ...
//   }
//
// A default token never stops. Tokens are cheap to copy, copies give the same answer, and any
// thread may ask them. Nothing here reads a clock by itself.

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
  /// Thread-safe. Once it has given a reason, every later call gives a reason.
  using Question = std::function<std::optional<StopReason>()>;

  StopToken() = default;
  explicit StopToken(Question question);

  /// The reason for which the work has to end; nullopt while the work may go on.
  std::optional<StopReason> reason() const { return question_ ? (*question_)() : std::nullopt; }
  bool is_stopped() const { return reason().has_value(); }

 private:
  std::shared_ptr<const Question> question_;  ///< null: never stops
};

/// Stops as soon as either token does. Where both have stopped, the reason is that of `a`.
StopToken any_of(StopToken a, StopToken b);
/// Stops with OutOfTime once the clock, in its own unit, shows `at` or later. As thread-safe as the
/// clock.
StopToken stop_at(std::function<int64_t()> clock, int64_t at);
/// Stops with Interrupted once the counter is above 0. The counter must outlive the token and its
/// copies. For a null pointer the token never stops.
StopToken stop_on_interrupt(const std::atomic<int>* interrupts);

/// The error of work that was stopped: Interrupted for StopReason::Interrupted, else TryLater.
tl::unexpected<Error> stopped(StopReason reason, std::string_view operation);
/// Returns stopped() with the token's reason where the token has stopped, else success.
Status check_not_stopped(const StopToken& stop, std::string_view operation);

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stopping as a value. Work that may take long is handed a StopToken, asks it now and then, and
// ends early with an error that says why. What it computes never depends on when it is asked to
// stop: there is the whole result or none.
//
//   StopSource user;
//   const StopToken stop = any_of(user.token(), stop_at(clock, clock() + second_ns));
//   for (const Stage& stage : compute.stages) {
//     TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
//     ...
//   }
//
// A token without a source, the default, never stops. Tokens are cheap to copy, copies stand for
// the same wish, and any thread may ask them. Nothing here reads a clock by itself.

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
  NotNeeded,    ///< nobody waits for the result any more
};
std::string_view to_string(StopReason reason);

class StopToken {
 public:
  /// Thread-safe. Once it gives a reason, it goes on to give one.
  using Question = std::function<std::optional<StopReason>()>;

  StopToken() = default;
  explicit StopToken(Question question);

  /// Why the work is to end; nullopt as long as it is to go on.
  std::optional<StopReason> reason() const { return question_ ? (*question_)() : std::nullopt; }
  bool is_stopped() const { return reason().has_value(); }

 private:
  std::shared_ptr<const Question> question_;  ///< null: never stops
};

/// Stops as soon as either does. Where both do, the reason is that of the first.
StopToken any_of(StopToken a, StopToken b);
/// Stops, out of time, once the clock shows that time. As thread-safe as the clock.
StopToken stop_at(std::function<int64_t()> clock, int64_t at);
/// Stops, interrupted, once the counter is above 0. The counter must outlive the token and its
/// copies; without one the token never stops.
StopToken stop_on_interrupt(const std::atomic<int>* interrupts);

/// Where a stop is asked for. Its tokens may outlive it.
class StopSource {
 public:
  /// The first reason that is given stays.
  void request(StopReason reason);
  StopToken token() const;

 private:
  std::shared_ptr<std::atomic<int>> requested_ = std::make_shared<std::atomic<int>>(none);
  static constexpr int none = -1;
};

/// The error of work that was stopped: Interrupted for the user's wish, else TryLater.
tl::unexpected<Error> stopped(StopReason reason, std::string_view operation);
/// That error where the token has stopped.
Status check_not_stopped(const StopToken& stop, std::string_view operation);

}  // namespace tw

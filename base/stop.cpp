// SPDX-License-Identifier: Apache-2.0
#include "base/stop.h"

#include <fmt/format.h>

#include <utility>

namespace tw {

std::string_view to_string(StopReason reason) {
  return reason == StopReason::Interrupted ? "interrupted" : "out of time";
}

StopToken::StopToken(Question question)
    : question_(std::make_shared<const Question>(std::move(question))) {}

StopToken any_of(StopToken a, StopToken b) {
  return StopToken([a = std::move(a), b = std::move(b)] {
    const auto reason = a.reason();
    return reason ? reason : b.reason();
  });
}

StopToken stop_at(std::function<int64_t()> clock, int64_t at) {
  return StopToken([clock = std::move(clock), at] {
    return clock() >= at ? std::optional(StopReason::OutOfTime) : std::nullopt;
  });
}

StopToken stop_on_interrupt(const std::atomic<int>* interrupts) {
  if (interrupts == nullptr) return {};
  return StopToken([interrupts] {
    return interrupts->load() > 0 ? std::optional(StopReason::Interrupted) : std::nullopt;
  });
}

tl::unexpected<Error> stopped(StopReason reason, std::string_view operation) {
  const bool by_user = reason == StopReason::Interrupted;
  return fail(by_user ? ErrorCode::Interrupted : ErrorCode::TryLater,
              fmt::format("[{}] {} before it was done", operation, to_string(reason)));
}

Status check_not_stopped(const StopToken& stop, std::string_view operation) {
  if (const auto reason = stop.reason()) return stopped(*reason, operation);
  return {};
}

}  // namespace tw

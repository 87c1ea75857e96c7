// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/deadline.h"

#include <utility>

namespace tw::tuner {

struct Cancellation::State {
  // The program must answer within two seconds of an interrupt. The parent itself needs the rest of
  // this time.
  static constexpr int64_t grace_ns = 1'300'000'000;
  static constexpr int64_t not_noticed = INT64_MIN;

  const std::atomic<int>* interrupts;
  Clock clock;
  std::atomic<int64_t> noticed_ns = not_noticed;  ///< when the first interrupt was noticed
  std::atomic<int64_t> ends_ns = never;
  std::function<void()> tell = {};

  int count() const { return interrupts ? interrupts->load() : 0; }

  std::optional<StopReason> reason(Needed needed) {
    const int interrupts_so_far = count();
    const int64_t now_ns = clock();
    if (now_ns >= ends_ns)
      return interrupts_so_far > 0 ? StopReason::Interrupted : StopReason::OutOfTime;
    if (interrupts_so_far == 0) return std::nullopt;
    int64_t first_ns = not_noticed;
    if (noticed_ns.compare_exchange_strong(first_ns, now_ns)) first_ns = now_ns;
    const bool stops =
        interrupts_so_far > 1 || needed == Needed::No || now_ns - first_ns >= grace_ns;
    return stops ? std::optional(StopReason::Interrupted) : std::nullopt;
  }
};

Cancellation::Cancellation(const std::atomic<int>* interrupts, Clock clock)
    : state_(std::make_shared<State>(interrupts, std::move(clock))) {}

bool Cancellation::is_requested() const { return state_->count() > 0; }

StopToken Cancellation::token(Needed needed) const {
  return StopToken([state = state_, needed] { return state->reason(needed); });
}

void Cancellation::end_at(int64_t at_ns) const { state_->ends_ns = at_ns; }

void Cancellation::tell_while_waiting(std::function<void()> tell) const {
  state_->tell = std::move(tell);
}

Deadline Cancellation::deadline(double seconds, Needed needed) const {
  return {state_->clock() + static_cast<int64_t>(seconds * 1e9), token(needed), state_->tell};
}

}  // namespace tw::tuner

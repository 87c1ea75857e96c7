// SPDX-License-Identifier: Apache-2.0
#include "tuner/deadline.h"

#include <optional>
#include <utility>

namespace tw::tuner {

struct Cancellation::State {
  // The user is to have an answer within two seconds, some of which the parent itself takes.
  static constexpr int64_t grace_ns = 1'300'000'000;

  const std::atomic<int>* interrupts;
  Clock clock;
  std::optional<int64_t> noticed_ns = {};  ///< when the first interrupt was noticed

  int count() const { return interrupts ? interrupts->load() : 0; }

  bool cancels(Needed needed) {
    const int interrupts_so_far = count();
    if (interrupts_so_far == 0) return false;
    const int64_t now_ns = clock();
    if (!noticed_ns) noticed_ns = now_ns;
    return interrupts_so_far > 1 || needed == Needed::No || now_ns - *noticed_ns >= grace_ns;
  }
};

Cancellation::Cancellation(const std::atomic<int>* interrupts, Clock clock)
    : state_(std::make_shared<State>(State{interrupts, std::move(clock)})) {}

bool Cancellation::is_requested() const { return state_->count() > 0; }

Deadline Cancellation::deadline(double seconds, Needed needed) const {
  return {state_->clock() + static_cast<int64_t>(seconds * 1e9),
          [state = state_, needed] { return state->cancels(needed); }};
}

}  // namespace tw::tuner

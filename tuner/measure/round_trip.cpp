// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/round_trip.h"

#include <atomic>

#include "tuner/measure/crew.h"
#include "tuner/measure/sampling.h"

namespace tw::tuner {

Result<double> measure_round_trip_ns(const Clock& clock, int64_t budget_ns) {
  // Number of times that one step reads the counter. It is more than one, since calling a step
  // takes time too.
  constexpr int polls = 64;
  // Number of times that the cache line moves before the measurement. During these moves the system
  // puts the threads on different cores.
  constexpr int64_t warm_up = 10'000;
  struct alignas(128) Ball {
    std::atomic<int64_t> passes{0};
  } ball;
  const auto pass = [&](size_t thread) {
    for (int i = 0; i < polls; ++i) {
      const int64_t passes = ball.passes.load(std::memory_order_acquire);
      if (passes % 2 != static_cast<int64_t>(thread)) continue;
      return ball.passes.store(passes + 1, std::memory_order_release);
    }
  };
  Crew crew(2, pass);
  TW_RETURN_IF_ERROR(crew.start("cores"));
  const int64_t until_ns = clock() + budget_ns;
  while (ball.passes < warm_up && clock() < until_ns) pass(0);
  const auto passes = [&] { return ball.passes.load(std::memory_order_relaxed); };
  const double rate = median(crew.rates(passes, clock, budget_ns));
  if (rate > 0) return 2 / rate;
  return fail(ErrorCode::TryLater,
              "[cores] two threads did not run at the same time: the machine is busy");
}

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads that repeat a short step until they are stopped, to measure what all of them achieve
// together. A Crew belongs to one thread, which is thread 0 of the crew.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

class Crew {
 public:
  /// step(i) is one step of thread i. It must stay valid as long as the crew. Requires: threads >
  /// 0.
  Crew(int threads, std::function<void(size_t)> step);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Stops and joins the threads.
  ~Crew();

  /// Starts all threads but the calling one, which takes part in rates(). Environment if the system
  /// refuses a thread; the message begins with `[what]`.
  Status start(std::string_view what);

  /// Takes part for budget_ns by calls of step(0). Returns the growth of `done` per ns in each of
  /// ten windows of that time.
  std::vector<double> rates(const std::function<int64_t()>& done, const Clock& clock,
                            int64_t budget_ns) const;

 private:
  int count_;
  std::function<void(size_t)> step_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace tw::tuner

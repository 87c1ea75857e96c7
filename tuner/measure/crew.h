// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads that repeat a short step until they are stopped, for measuring what all of them do
// together. Belongs to one thread, which is thread 0 of the crew.

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
  /// step(i) is one step of thread i, and must stay valid as long as the crew. Requires threads >
  /// 0.
  Crew(int threads, std::function<void(size_t)> step);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Stops and joins the threads.
  ~Crew();

  /// Starts all threads but the calling one, which takes part by step(0). An Environment error that
  /// begins with `[what]` when the system refuses a thread.
  Status start(std::string_view what);

  /// Takes part for budget_ns; by how much `done` grew each ns, in each of ten windows.
  std::vector<double> rates(const std::function<int64_t()>& done, const Clock& clock,
                            int64_t budget_ns) const;

 private:
  int count_;
  std::function<void(size_t)> step_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace tw::tuner

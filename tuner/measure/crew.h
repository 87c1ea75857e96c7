// SPDX-License-Identifier: Apache-2.0
#pragma once
// A crew of threads that repeat a short step of work until they are stopped, by which the rate of
// all threads together is measured. A Crew belongs to the thread that made it, which is thread 0 of
// the crew.

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
  /// `threads` includes the calling thread. Thread i calls step(i) again and again. Objects to
  /// which `step` refers must outlive the crew. Requires: threads > 0.
  Crew(int threads, std::function<void(size_t)> step);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Stops and joins the threads.
  ~Crew();

  /// Starts all threads but the calling thread, which works only during rates(). Fails with
  /// Environment if the system refuses a thread; the message begins with `[what]`.
  Status start(std::string_view what);

  /// Calls step(0) again and again for budget_ns, while the other threads continue. `done` returns
  /// how much work all threads have done since they started, for instance in bytes. The time is
  /// divided into up to ten windows. Returns the increase of done() per ns in each window.
  std::vector<double> rates(const std::function<int64_t()>& done, const Clock& clock,
                            int64_t budget_ns) const;

 private:
  int count_;
  std::function<void(size_t)> step_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace tw::tuner

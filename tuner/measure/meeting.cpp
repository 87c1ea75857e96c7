// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/meeting.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace tw::tuner {
namespace {

/// Makes threads wait for each other until all of them run at the same time. Thread 0, which calls
/// gather(), ends the waiting at the time `until_ns`.
class Meeting {
 public:
  Meeting(int threads, const Clock& clock, int64_t until_ns)
      : clock_(clock), until_ns_(until_ns), cores_(static_cast<size_t>(threads)) {}

  int64_t until_ns() const { return until_ns_; }
  void open() {
    arrived_ = 0;
    is_over_ = false;
  }
  void attend(size_t thread) {
    cores_[thread] = sched_getcpu();
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    while (!is_complete() && !is_over_.load(std::memory_order_relaxed))
      if (thread == 0 && clock_() >= until_ns_) is_over_.store(true, std::memory_order_relaxed);
  }
  bool is_complete() const { return arrived_.load(std::memory_order_acquire) == cores_.size(); }

  /// True if another thread ran on the core of the calling thread in the last meeting.
  bool shares_core() const {
    return std::find(cores_.begin() + 1, cores_.end(), cores_[0]) != cores_.end();
  }
  /// Moves the calling thread to a core on which no thread of the last meeting ran. Returns false
  /// if the thread may use no such core. The system may move the thread again later.
  bool leave_core() const {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    cpu_set_t free = allowed;
    for (const int core : cores_) CPU_CLR(static_cast<size_t>(core), &free);
    return CPU_COUNT(&free) > 0 && sched_setaffinity(0, sizeof free, &free) == 0 &&
           sched_setaffinity(0, sizeof allowed, &allowed) == 0;
  }

 private:
  const Clock& clock_;
  int64_t until_ns_;
  std::vector<int> cores_;
  std::atomic<size_t> arrived_{0};
  std::atomic<bool> is_over_{false};
};

}  // namespace

void gather(runtime::ThreadPool& pool, int threads, const Clock& clock, int64_t patience_ns) {
  Meeting meeting(threads, clock, clock() + patience_ns);
  const auto attend = [](void* context, int32_t thread) noexcept -> int32_t {
    static_cast<Meeting*>(context)->attend(static_cast<size_t>(thread));
    return 0;
  };
  do {
    meeting.open();
    pool.parallel_for(threads, attend, &meeting, threads, runtime::Distribution::Static);
  } while (meeting.is_complete() && meeting.shares_core() && meeting.leave_core() &&
           clock() < meeting.until_ns());
}

}  // namespace tw::tuner

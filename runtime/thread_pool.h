// SPDX-License-Identifier: Apache-2.0
#pragma once
// The threads that run kernels. A pool has a fixed number of threads and keeps them between calls,
// so a parallel loop costs a few hundred nanoseconds instead of the creation of threads. The caller
// takes part as worker 0. Each other worker has its own slot, on its own cache line. A worker waits
// for work in its slot: at first by polling, then asleep in the system.
//
//     ThreadPool pool;  // as many threads as this process may use
//     int32_t failure = pool.parallel_for(tasks, run, &job);  // run(&job, task) for each task
//
// Thread-safe. The workers serve one caller at a time. Meanwhile any other caller runs its tasks
// alone on its own thread. So does a task that itself calls the pool. Therefore no call waits for
// another call, and nothing deadlocks. Several pools in one process are independent. After fork()
// the child's pool starts new workers when it is next used.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace tw::runtime {

/// A function that runs one task and returns 0 on success. Several threads may call it at once,
/// with different tasks.
using TaskFunction = int32_t (*)(void* context, int32_t task) noexcept;

enum class Distribution {
  /// A thread that is free runs the next task. Meant for tasks of unequal cost, and for cores that
  /// other programs use too.
  Dynamic,
  /// Each thread runs a contiguous share of the tasks. The share is the same in every call with
  /// equal numbers of tasks and threads, so its data stays in the thread's cache.
  Static,
};

struct PoolOptions {
  /// Number of threads, including the caller; 0: as many as affinity mask and cgroup quota allow.
  int threads = 0;
  /// True: each worker is pinned to a core of its own. Workers are not pinned if there are fewer
  /// cores than threads, or if a cgroup limits CPU time. If pinning fails, a warning is printed.
  bool pin = true;
  /// Number of polls after which a waiting thread sleeps. These polls together take about 20 to 100
  /// us. A pool with more threads than cores does not poll.
  int spins = 2000;
  /// Number of polls after which a waiting thread sleeps while an Awake exists. These polls
  /// together take 1 to 5 ms.
  int spins_awake = 100'000;
};

class ThreadPool {
 public:
  explicit ThreadPool(const PoolOptions& options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Calls function(context, task) for every task in [0, tasks), on at most `threads` threads (0:
  /// all of the pool), and returns when all calls have ended. Returns 0 if all tasks returned 0,
  /// else the result of a task that failed; after a failure, tasks that have not begun are skipped.
  /// Allocates nothing once the workers run. Requires: 0 <= tasks <= INT32_MAX.
  int32_t parallel_for(int64_t tasks, TaskFunction function, void* context, int threads = 0,
                       Distribution distribution = Distribution::Dynamic);

  /// While an Awake exists, waiting threads poll for longer before they sleep. Create an Awake for
  /// one piece of work, such as a call of a network, whose parallel calls have short serial parts
  /// between them. Without an Awake the threads fall asleep in these parts. Waking a thread takes
  /// 50 us and more, and then its core is slower for a millisecond or two. The pool must outlive
  /// the Awake. A child of fork() inherits the number of the parent's Awakes, so they have effect
  /// in the child too.
  class Awake {
   public:
    explicit Awake(ThreadPool& pool) : pool_(pool) { pool_.awake_.fetch_add(1, relaxed); }
    ~Awake() { pool_.awake_.fetch_sub(1, relaxed); }
    Awake(const Awake&) = delete;
    Awake& operator=(const Awake&) = delete;

   private:
    static constexpr auto relaxed = std::memory_order_relaxed;
    ThreadPool& pool_;
  };

  /// Number of workers pinned to a core, the caller not counted; 0 before the first parallel call.
  int pinned() const { return pinned_.load(std::memory_order_relaxed); }

 private:
  struct Slot;
  struct Job;
  struct Shared;
  friend struct ForkGuard;

  static void* work(void* slot);
  static int32_t run_alone(int64_t tasks, TaskFunction function, void* context);
  int start_workers(int wanted);  // returns the number of running workers
  void pin(int worker);
  void stop_workers();
  void forget_workers();  // called in the child of a fork, where the threads do not exist
  void run_together(int workers);

  int spins() const { return awake_.load(std::memory_order_relaxed) > 0 ? spins_awake_ : spins_; }
  uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old) const;

  int threads_;
  int spins_, spins_awake_;
  std::atomic<int> awake_{0};  ///< number of Awakes
  std::vector<int> cores_;     // cores to which workers are pinned, in order; empty: no pinning
  std::unique_ptr<Shared> shared_;
  std::atomic<int> pinned_{0};
};

}  // namespace tw::runtime

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The threads that run kernels: a fixed number, kept between calls, so that a parallel loop costs a
// few hundred nanoseconds instead of thread creation. The caller takes part as worker 0. Each other
// worker has its own slot on its own cache line, waits for it briefly on the core and then in the
// system.
//
//     ThreadPool pool;  // as many threads as this process may use
//     int32_t failure = pool.parallel_for(tasks, run, &job);  // run(&job, task) for each task
//
// Thread-safe. While one caller has the workers, another caller, or a task that calls back, runs
// its own tasks alone: nothing blocks and nothing deadlocks. Several pools in one process are
// independent. After fork the child's pool starts new workers when it is next used.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace tw::runtime {

/// Runs one task; 0 is success. May be called by several threads at once, with different tasks.
using TaskFunction = int32_t (*)(void* context, int32_t task) noexcept;

enum class Distribution {
  Dynamic,  ///< the next task to whoever is free: tasks of unequal cost, cores that others use too
  Static,  ///< a contiguous share for each thread, the same one every time: data stays in its cache
};

struct PoolOptions {
  int threads = 0;  ///< the caller included; 0: as many as affinity mask and cgroup quota allow
  bool pin = true;  ///< a worker to a core, where each has one; a failure is a warning
  /// Polls before a waiting thread sleeps, about 20 to 100 us; none where threads exceed cores.
  int spins = 2000;
  /// Polls before a waiting thread sleeps while an Awake exists, 1 to 5 ms.
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
  /// all of the pool), and returns when all have ended. Allocates nothing once the workers run.
  /// Returns 0, or what some failing task returned; after a failure tasks not yet begun are left
  /// out. Requires: 0 <= tasks <= INT32_MAX.
  int32_t parallel_for(int64_t tasks, TaskFunction function, void* context, int threads = 0,
                       Distribution distribution = Distribution::Dynamic);

  /// An Awake makes the waiting threads poll for longer before they sleep, as long as it exists. It
  /// bridges the serial parts of work that consists of several parallel calls, as a network is: a
  /// thread that sleeps takes 50 us and more to run again, and its core is then slower for a ms or
  /// two. The pool must outlive it. In the child of a fork those of the parent stay in force.
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
  std::vector<int> cores_;     // workers are pinned to these in order; empty: no pinning
  std::unique_ptr<Shared> shared_;
  std::atomic<int> pinned_{0};
};

}  // namespace tw::runtime

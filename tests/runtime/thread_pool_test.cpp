// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_pool.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/sanitizers.h"

namespace {
std::atomic<bool> pinning_fails{false};
}

// Stands before the C library's, so that a test can have it fail.
extern "C" int pthread_setaffinity_np(pthread_t thread, size_t size,
                                      const cpu_set_t* set) noexcept {
  static const auto real = reinterpret_cast<int (*)(pthread_t, size_t, const cpu_set_t*)>(
      ::dlsym(RTLD_NEXT, "pthread_setaffinity_np"));
  return pinning_fails ? EINVAL : real(thread, size, set);
}

namespace tw::runtime {
namespace {

/// Counts how often each task ran, and on which threads.
struct Counts {
  explicit Counts(int64_t tasks) : ran(static_cast<size_t>(tasks)), thread(ran.size()) {}
  static int32_t run(void* context, int32_t task) noexcept {
    auto& counts = *static_cast<Counts*>(context);
    counts.ran[static_cast<size_t>(task)].fetch_add(1, std::memory_order_relaxed);
    counts.thread[static_cast<size_t>(task)] = std::this_thread::get_id();
    return 0;
  }
  bool each_once() const {
    return std::all_of(ran.begin(), ran.end(), [](const auto& count) { return count == 1; });
  }
  size_t threads() const { return std::set(thread.begin(), thread.end()).size(); }
  std::vector<std::atomic<int>> ran;
  std::vector<std::thread::id> thread;
};

/// Plain memory, on purpose: what tasks wrote must be visible to the caller without atomics.
struct Squares {
  std::vector<int64_t> values;
  static int32_t run(void* context, int32_t task) noexcept {
    static_cast<Squares*>(context)->values[static_cast<size_t>(task)] = int64_t{task} * task;
    return 0;
  }
};

TEST(ThreadPool, RunsEachTaskOnce) {
  ThreadPool pool({.threads = 4});
  for (const auto distribution : {Distribution::Dynamic, Distribution::Static})
    for (const int64_t tasks : {0, 1, 2, 3, 4, 5, 63, 1000})
      for (const int threads : {0, 1, 2, 3, 4, 100}) {
        Counts counts(tasks);
        EXPECT_EQ(pool.parallel_for(tasks, &Counts::run, &counts, threads, distribution), 0);
        EXPECT_TRUE(counts.each_once()) << tasks << " tasks on " << threads;
        if (threads > 0) {
          EXPECT_LE(counts.threads(), static_cast<size_t>(threads));
        }
      }
}

/// Tasks that end only when all of them have begun: each needs a thread of its own.
struct Rendezvous {
  explicit Rendezvous(int tasks) : missing(tasks) {}
  static int32_t run(void* context, int32_t) noexcept {
    auto& missing = static_cast<Rendezvous*>(context)->missing;
    --missing;
    while (missing > 0) std::this_thread::yield();
    return 0;
  }
  std::atomic<int> missing;
};

TEST(ThreadPool, AllThreadsTakePart) {
  ThreadPool pool({.threads = 5});
  for (const auto distribution : {Distribution::Dynamic, Distribution::Static})
    for (const int threads : {2, 5}) {
      Rendezvous rendezvous(threads);
      EXPECT_EQ(pool.parallel_for(threads, &Rendezvous::run, &rendezvous, threads, distribution),
                0);
    }
}

/// Blocked signals of the threads that run the tasks: 1 for a blocked signal.
struct BlockedSignals : Rendezvous {
  using Rendezvous::Rendezvous;
  static int32_t run(void* context, int32_t task) noexcept {
    auto& signals = *static_cast<BlockedSignals*>(context);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (std::this_thread::get_id() != signals.caller) {
      signals.interrupt = sigismember(&blocked, SIGINT);
      signals.fault = sigismember(&blocked, SIGSEGV);
    }
    return Rendezvous::run(static_cast<Rendezvous*>(&signals), task);
  }
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> interrupt = -1, fault = -1;
};

TEST(ThreadPool, WorkersReceiveTheSignalsOfTheirFaultsAlone) {
  ThreadPool pool({.threads = 2});
  BlockedSignals signals(2);
  pool.parallel_for(2, &BlockedSignals::run, &signals, 2);
  EXPECT_EQ(signals.interrupt, 1);
  EXPECT_EQ(signals.fault, 0);
}

TEST(ThreadPool, StaticDistributionGivesContiguousShares) {
  ThreadPool pool({.threads = 3});
  for (int round = 0; round < 20; ++round) {
    Counts counts(9);
    pool.parallel_for(9, &Counts::run, &counts, 0, Distribution::Static);
    EXPECT_EQ(counts.thread[0], std::this_thread::get_id());
    for (size_t task = 0; task < 9; ++task)
      EXPECT_EQ(counts.thread[task], counts.thread[task / 3 * 3]);
  }
}

TEST(ThreadPool, PlainWritesOfTasksAreSeenByTheCaller) {
  ThreadPool pool({.threads = 4});
  for (int round = 0; round < 50; ++round) {
    Squares squares{std::vector<int64_t>(37)};
    pool.parallel_for(37, &Squares::run, &squares);
    for (size_t i = 0; i < 37; ++i) ASSERT_EQ(squares.values[i], static_cast<int64_t>(i * i));
  }
}

TEST(ThreadPool, AFailureIsReportedAndThePoolStaysUsable) {
  ThreadPool pool({.threads = 4});
  const auto fail_in_11 = [](void*, int32_t task) noexcept -> int32_t {
    return task == 11 ? -5 : 0;
  };
  for (const int threads : {1, 4})
    EXPECT_EQ(pool.parallel_for(64, fail_in_11, nullptr, threads), -5);
  Counts counts(64);
  EXPECT_EQ(pool.parallel_for(64, &Counts::run, &counts), 0);
  EXPECT_TRUE(counts.each_once());
}

TEST(ThreadPool, ThreadsThatAreKeptAwakeWorkAndSleepAfterwards) {
  ThreadPool pool({.threads = 3, .spins = 0});
  std::atomic<int> done = 0;
  const auto count = [](void* context, int32_t) noexcept -> int32_t {
    ++*static_cast<std::atomic<int>*>(context);
    return 0;
  };
  for (int i = 0; i < 20; ++i) {
    const ThreadPool::Awake awake(pool), nested(pool);
    EXPECT_EQ(pool.parallel_for(5, count, &done), 0);
    EXPECT_EQ(pool.parallel_for(5, count, &done), 0);
  }
  EXPECT_EQ(pool.parallel_for(5, count, &done), 0);
  EXPECT_EQ(done, 205);
}

TEST(ThreadPool, ACallFromATaskRunsWithoutDeadlock) {
  struct Nested {
    ThreadPool pool{{.threads = 3}};
    std::vector<Counts> inner;
    static int32_t run(void* context, int32_t task) noexcept {
      auto& nested = *static_cast<Nested*>(context);
      return nested.pool.parallel_for(5, &Counts::run, &nested.inner[static_cast<size_t>(task)]);
    }
  } nested;
  for (int i = 0; i < 6; ++i) nested.inner.emplace_back(5);
  EXPECT_EQ(nested.pool.parallel_for(6, &Nested::run, &nested), 0);
  for (const Counts& counts : nested.inner) EXPECT_TRUE(counts.each_once());
}

TEST(ThreadPool, Fault62_ManyMoreThreadsThanCores) {
  ThreadPool pool({.threads = 64});
  EXPECT_EQ(pool.threads(), 64);
  for (int round = 0; round < 20; ++round) {
    Counts counts(500);
    pool.parallel_for(500, &Counts::run, &counts);
    ASSERT_TRUE(counts.each_once());
  }
}

TEST(ThreadPool, Fault62_SeveralPoolsInOneProcess) {
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (int i = 0; i < 5; ++i)
    pools.push_back(std::make_unique<ThreadPool>(PoolOptions{.threads = 3}));
  for (int round = 0; round < 10; ++round)
    for (const auto& pool : pools) {
      Counts counts(20);
      pool->parallel_for(20, &Counts::run, &counts);
      ASSERT_TRUE(counts.each_once());
    }
}

TEST(ThreadPool, Fault64_ManyCallersOfOnePool) {
  ThreadPool pool({.threads = 4});
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 32; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        Squares squares{std::vector<int64_t>(17)};
        pool.parallel_for(17, &Squares::run, &squares);
        for (size_t i = 0; i < 17; ++i) wrong += squares.values[i] != static_cast<int64_t>(i * i);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, ComesAndGoesWithoutACall) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool unused({.threads = 8});
    ThreadPool used({.threads = 2});
    Counts counts(2);
    used.parallel_for(2, &Counts::run, &counts);
    ASSERT_TRUE(counts.each_once());
  }
}

/// Runs `body` with the calling thread's affinity mask reduced to its first core.
template <typename Body>
void on_one_core(const Body& body) {
  std::thread([&] {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    int core = 0;
    while (!CPU_ISSET(core, &all)) ++core;
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    body();
  }).join();
}

TEST(ThreadPool, Fault49_SizeFollowsTheAffinityMask) {
  on_one_core([] { EXPECT_EQ(ThreadPool().threads(), 1); });
}

TEST(ThreadPool, Fault49_MoreThreadsThanTheMaskAllowsAreNotPinned) {
  on_one_core([] {
    ThreadPool pool({.threads = 3});
    Counts counts(30);
    pool.parallel_for(30, &Counts::run, &counts);
    EXPECT_TRUE(counts.each_once());
    EXPECT_EQ(pool.pinned(), 0);
  });
}

TEST(ThreadPool, Fault49_APinThatFailsIsAWarning) {
  if (ThreadPool().threads() < 2) GTEST_SKIP() << "[SKIP] one processor: nothing is pinned";
  ThreadPool pool;
  Counts counts(30);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  pinning_fails = true;
  pool.parallel_for(30, &Counts::run, &counts);
  pinning_fails = false;
  EXPECT_TRUE(counts.each_once());
  EXPECT_EQ(pool.pinned(), 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cannot pin worker 1"), std::string::npos);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << "which is the application's";
}

TEST(ThreadPool, Fault49_WorkersStayInsideTheMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  ThreadPool pool;
  struct Cores {
    std::array<std::atomic<int>, CPU_SETSIZE> used{};
    static int32_t run(void* context, int32_t) noexcept {
      static_cast<Cores*>(context)->used[static_cast<size_t>(sched_getcpu())] = 1;
      return 0;
    }
  } cores;
  pool.parallel_for(100, &Cores::run, &cores, 0, Distribution::Static);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (cores.used[static_cast<size_t>(core)]) {
      EXPECT_TRUE(CPU_ISSET(core, &before)) << core;
    }
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after)) << "the caller's own mask is its own affair";
}

/// The exit status of `body` run in a forked child; -1 if it did not end by itself.
template <typename Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a hang ends as a failure
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ThreadPool, Fault63_WorksInAChildOfFork) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after such a fork";
  ThreadPool pool({.threads = 4});
  const auto works_on_four_threads = [&] {
    Counts counts(40);
    Rendezvous rendezvous(4);
    return pool.parallel_for(40, &Counts::run, &counts) == 0 && counts.each_once() &&
           pool.parallel_for(4, &Rendezvous::run, &rendezvous) == 0;
  };
  ASSERT_TRUE(works_on_four_threads());
  EXPECT_EQ(in_child([&] { return works_on_four_threads() ? 0 : 1; }), 0);
  EXPECT_TRUE(works_on_four_threads());
}

TEST(ThreadPool, Fault63_WorksInAChildWhileTheParentIsInACall) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after such a fork";
  ThreadPool pool({.threads = 3});
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      Counts counts(30);
      pool.parallel_for(30, &Counts::run, &counts);
    }
  });
  for (int round = 0; round < 10; ++round) {
    const int status = in_child([&] {
      Counts counts(30);
      pool.parallel_for(30, &Counts::run, &counts);
      return counts.each_once() ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

TEST(ThreadPool, Fault63_APoolOfTheParentMayBeDestroyedInTheChild) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after such a fork";
  auto pool = std::make_unique<ThreadPool>(PoolOptions{.threads = 3});
  Counts counts(30);
  pool->parallel_for(30, &Counts::run, &counts);
  EXPECT_EQ(in_child([&] {
              pool.reset();
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace tw::runtime

// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_pool.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>

#include "base/cores.h"
#include "base/target.h"

namespace tw::runtime {
namespace {

// Distance that keeps data of different threads apart. It is two lines of 64 bytes, because x86
// processors prefetch lines in pairs.
constexpr size_t kCacheLine = 128;
constexpr int kMaxThreads = 1024;

/// Writes to standard error, since standard output belongs to the application. If that fails, the
/// warning is lost.
void warn(const std::string& text) {
  (void)std::fputs(fmt::format("tilewright: [thread pool] {}\n", text).c_str(), stderr);
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// The job that all participants work on. The caller writes it before it posts to the slots; the
// workers read it after that.
struct ThreadPool::Job {
  TaskFunction function = nullptr;
  void* context = nullptr;
  int64_t tasks = 0;
  int participants = 0;
  Distribution distribution = Distribution::Dynamic;
};

// The single-place queue of one worker. The caller posts a share of the job, and the worker claims
// it. If the worker has not begun yet, for example because it waits for a core, the caller takes
// the share back and runs it. So a worker without a core does not delay the call.
//
//     Idle -> Posted -> Claimed -> Idle        Posted -> Idle (taken back)        Idle -> Stop
enum SlotState : uint32_t { Idle, Posted, Claimed, Stop };

struct alignas(kCacheLine) ThreadPool::Slot {
  std::atomic<uint32_t> state{Idle};
  ThreadPool* pool = nullptr;
  int worker = 0;
  pthread_t thread{};

  bool exchange(uint32_t from, uint32_t to) {
    return state.compare_exchange_strong(from, to, std::memory_order_acq_rel);
  }
  void post(uint32_t value) {
    state.store(value, std::memory_order_seq_cst);
    state.notify_one();
  }
};

struct ThreadPool::Shared {
  explicit Shared(int threads) : slots(static_cast<size_t>(threads)) {}

  void run_share(int worker);
  void run_task(int64_t task);

  alignas(kCacheLine) std::atomic<bool> busy{false};  // true while a caller uses the workers
  Job job;
  // Number of workers that exist; they have the slots 1 to `started`. Only the caller that has set
  // `busy` changes it.
  int started = 0;
  bool cannot_start = false;  // true after the system refused a thread; no more are started then
  alignas(kCacheLine) std::atomic<int64_t> next{0};
  alignas(kCacheLine) std::atomic<uint32_t> running{0};  // workers that have not finished the job
  alignas(kCacheLine) std::atomic<int32_t> failure{0};
  std::vector<Slot> slots;  // slot 0 is the caller's and stays unused
};

void ThreadPool::Shared::run_task(int64_t task) {
  const int32_t result = job.function(job.context, static_cast<int32_t>(task));
  int32_t none = 0;
  if (result != 0) failure.compare_exchange_strong(none, result, std::memory_order_relaxed);
}

void ThreadPool::Shared::run_share(int worker) {
  const auto failed = [&] { return failure.load(std::memory_order_relaxed) != 0; };
  if (job.distribution == Distribution::Static) {
    const int64_t end = job.tasks * (worker + 1) / job.participants;
    for (int64_t task = job.tasks * worker / job.participants; task < end && !failed(); ++task)
      run_task(task);
    return;
  }
  while (!failed()) {
    const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
    if (task >= job.tasks) return;
    run_task(task);
  }
}

// Lists every pool of the process, for the handlers of fork(). The lock is held across fork(), so
// the child sees a consistent list. In the child, each pool drops its workers, because fork() did
// not copy them.
struct ForkGuard {
  std::mutex mutex;
  std::vector<ThreadPool*> pools;

  static ForkGuard& instance() {
    static ForkGuard* const guard = [] {
      auto* created = new ForkGuard;  // never destroyed: fork may come after static destructors
      pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); },
                     [] {
                       for (ThreadPool* pool : instance().pools) pool->forget_workers();
                       instance().mutex.unlock();
                     });
      return created;
    }();
    return *guard;
  }
  void add(ThreadPool* pool) {
    const std::lock_guard lock(mutex);
    pools.push_back(pool);
  }
  void remove(ThreadPool* pool) {
    const std::lock_guard lock(mutex);
    std::erase(pools, pool);
  }
};

ThreadPool::ThreadPool(const PoolOptions& options)
    : spins_(std::max(0, options.spins)), spins_awake_(std::max(spins_, options.spins_awake)) {
  const std::vector<int> cores = allowed_cores();
  const int usable = host_target().machine.cores;
  threads_ = std::clamp(options.threads > 0 ? options.threads : usable, 1, kMaxThreads);
  if (threads_ > usable)
    spins_ = spins_awake_ = 0;  // a polling thread would occupy a core that another thread needs
  // A cgroup quota limits time and reserves no cores. If every container pinned its threads to the
  // first cores, they would all share these cores; so with a quota nothing is pinned.
  const bool quota = usable < static_cast<int>(cores.size());
  if (options.pin && !quota && threads_ <= usable) cores_ = cores;
  shared_ = std::make_unique<Shared>(threads_);
  ForkGuard::instance().add(this);
}

ThreadPool::~ThreadPool() {
  ForkGuard::instance().remove(this);
  stop_workers();
}

/// Waits until `word` differs from `old`, at first by polling, then asleep. Returns its new value.
uint32_t ThreadPool::wait_for_change(const std::atomic<uint32_t>& word, uint32_t old) const {
  for (int i = 0; i < spins(); ++i) {
    const uint32_t value = word.load(std::memory_order_acquire);
    if (value != old) return value;
    pause_core();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

void* ThreadPool::work(void* argument) {
  Slot& slot = *static_cast<Slot*>(argument);
  const ThreadPool& pool = *slot.pool;
  Shared& shared = *pool.shared_;
  while (pool.wait_for_change(slot.state, Idle) != Stop) {
    if (!slot.exchange(Posted, Claimed)) continue;
    shared.run_share(slot.worker);
    // The next line makes this visible to the caller.
    slot.state.store(Idle, std::memory_order_relaxed);
    if (shared.running.fetch_sub(1, std::memory_order_acq_rel) == 1) shared.running.notify_one();
  }
  return nullptr;
}

/// Returns the signals that the pool's threads block, so that the application's threads receive
/// them. They are those that a process sends. Signals that a thread raises itself, by a fault or by
/// abort(), are not among them: if a thread raises a signal that it blocks, the process may end
/// without a call of the application's handler.
sigset_t sent_signals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    sigdelset(&signals, fault);
  return signals;
}

int ThreadPool::start_workers(int wanted) {
  if (shared_->started >= wanted || shared_->cannot_start)
    return std::min(wanted, shared_->started);
  const sigset_t sent = sent_signals();
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &sent, &before);
  while (shared_->started < wanted && !shared_->cannot_start) {
    const int worker = shared_->started + 1;
    Slot& slot = shared_->slots[static_cast<size_t>(worker)];
    slot.pool = this;
    slot.worker = worker;
    slot.state.store(Idle, std::memory_order_relaxed);
    if (const int code = pthread_create(&slot.thread, nullptr, &work, &slot); code != 0) {
      warn(fmt::format("runs with {} of {} threads: {}", worker, threads_, std::strerror(code)));
      shared_->cannot_start = true;
      break;
    }
    shared_->started = worker;
    pin(worker);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::min(wanted, shared_->started);
}

void ThreadPool::pin(int worker) {
  if (static_cast<size_t>(worker) >= cores_.size()) return;
  const int core = cores_[static_cast<size_t>(worker)];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  const pthread_t thread = shared_->slots[static_cast<size_t>(worker)].thread;
  if (const int code = pthread_setaffinity_np(thread, sizeof set, &set); code != 0)
    warn(fmt::format("cannot pin worker {} to core {}: {}; it floats", worker, core,
                     std::strerror(code)));
  else
    pinned_.fetch_add(1, std::memory_order_relaxed);
}

void ThreadPool::stop_workers() {
  for (int worker = 1; worker <= shared_->started; ++worker)
    shared_->slots[static_cast<size_t>(worker)].post(Stop);
  for (int worker = 1; worker <= shared_->started; ++worker)
    pthread_join(shared_->slots[static_cast<size_t>(worker)].thread, nullptr);
}

// Resets the pool in the child of a fork, where its threads do not exist. There is nothing to join
// or to free.
void ThreadPool::forget_workers() {
  shared_->started = 0;
  shared_->cannot_start = false;
  shared_->running.store(0, std::memory_order_relaxed);
  shared_->busy.store(false, std::memory_order_relaxed);
  pinned_.store(0, std::memory_order_relaxed);
}

int32_t ThreadPool::parallel_for(int64_t tasks, TaskFunction function, void* context, int threads,
                                 Distribution distribution) {
  TW_CHECK(0 <= tasks && tasks <= std::numeric_limits<int32_t>::max());
  const int limit = threads > 0 ? std::min(threads, threads_) : threads_;
  const int participants = static_cast<int>(std::min<int64_t>(limit, tasks));
  if (participants <= 1 || shared_->busy.exchange(true, std::memory_order_acquire))
    return run_alone(tasks, function, context);
  const int workers = start_workers(participants - 1);
  shared_->job = {function, context, tasks, workers + 1, distribution};
  shared_->next.store(0, std::memory_order_relaxed);
  shared_->failure.store(0, std::memory_order_relaxed);
  run_together(workers);
  const int32_t failure = shared_->failure.load(std::memory_order_relaxed);
  shared_->busy.store(false, std::memory_order_release);
  return failure;
}

void ThreadPool::run_together(int workers) {
  shared_->running.store(static_cast<uint32_t>(workers), std::memory_order_relaxed);
  for (int worker = 1; worker <= workers; ++worker)
    shared_->slots[static_cast<size_t>(worker)].post(Posted);
  shared_->run_share(0);
  for (int worker = 1; worker <= workers; ++worker) {
    if (!shared_->slots[static_cast<size_t>(worker)].exchange(Posted, Idle)) continue;
    shared_->run_share(worker);
    shared_->running.fetch_sub(1, std::memory_order_acq_rel);
  }
  for (uint32_t left = shared_->running.load(std::memory_order_acquire); left != 0;)
    left = wait_for_change(shared_->running, left);
}

int32_t ThreadPool::run_alone(int64_t tasks, TaskFunction function, void* context) {
  for (int64_t task = 0; task < tasks; ++task)
    if (const int32_t result = function(context, static_cast<int32_t>(task)); result != 0)
      return result;
  return 0;
}

}  // namespace tw::runtime

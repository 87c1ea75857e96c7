// SPDX-License-Identifier: Apache-2.0
#pragma once
// An Executor loads and times kernels for a runner, on this processor or on a device. Executors and
// loaded kernels belong to a worker, which is single-threaded.

#include <functional>
#include <memory>

#include "base/target.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "runtime/device.h"
#include "runtime/thread_pool.h"
#include "tuner/measure/reference.h"
#include "tuner/measure/sampling.h"
#include "tuner/measure/verdict.h"
#include "tuner/measure/watch.h"

namespace tw::tuner {

/// A workload with what its kernels are verified against.
struct ReferencedWorkload {
  dsl::Workload workload;
  Reference reference;
};

/// A loaded kernel of a ReferencedWorkload.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  virtual Verdict verify() = 0;
  /// Times calls on the normal fill, with the caches in the state that the workload asks for;
  /// serves as long as the kernel lives.
  virtual Result<Timer> timer() = 0;
  /// Verifies the outputs that the timed calls left, which shows faults that are rare or late.
  virtual Verdict check_after_timing() = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  /// The workload must outlive the kernel. Invalid for an artifact of another machine.
  virtual Result<std::unique_ptr<LoadedKernel>> load(runtime::Artifact artifact,
                                                     const ReferencedWorkload& workload) = 0;
  /// Calls of an artifact for this machine, on logical arrays.
  virtual Result<PlainCall> plain_call(runtime::Artifact artifact,
                                       const dsl::Workload& workload) = 0;
  /// The target whose artifacts it runs.
  virtual Target target() const = 0;
  /// Drops all cached inputs, which refer to the arrays of workloads. Call it when a workload is
  /// destroyed, before the next kernel is loaded.
  virtual void forget_inputs() = 0;
  virtual Sampling fitted(Sampling options) const = 0;
  /// Decides which timings count. The result is valid while the number of threads stays.
  virtual Watch& watch() = 0;
  virtual Result<double> f32_peak_gflops() = 0;
  /// The highest speed that the watch has read lately, in GFLOP/s; 0 where it reads none.
  virtual double fastest_gflops() const { return 0; }
  virtual Result<runtime::DeviceFacts> facts() = 0;
};

/// The threads that kernels of the processor run on, started when they are first asked for.
struct Threads {
  int count = 1;
  std::unique_ptr<runtime::ThreadPool> started = nullptr;

  runtime::ThreadPool& pool() {
    if (!started) {
      runtime::PoolOptions options;
      options.threads = count;
      started = std::make_unique<runtime::ThreadPool>(options);
    }
    return *started;
  }
};

/// Borrows the threads.
std::unique_ptr<Executor> processor(Threads& threads, const Clock& clock);

/// The device of that index among those that the target's back end lists, opened when it is first
/// needed and kept.
std::unique_ptr<Executor> accelerator(const Target& target, int index, const Clock& clock);

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loads and times kernels for a runner, the worker that measures. There are two kinds of Executor:
// processor() runs kernels on this processor, accelerator() on a device. Executors and loaded
// kernels are used by one thread only.

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

/// A workload and the reference results with which its kernels are verified.
struct ReferencedWorkload {
  dsl::Workload workload;
  Reference reference;
};

/// A loaded kernel of a ReferencedWorkload.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  virtual Verdict verify() = 0;
  /// Returns a timer of calls on the inputs of Reference::normal, with the caches in the state that
  /// the workload asks for. The timer is valid as long as the kernel lives.
  virtual Result<Timer> timer() = 0;
  /// Verifies the outputs that the last timed call left. This finds faults that are rare or occur
  /// only after many calls.
  virtual Verdict check_after_timing() = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  /// Loads the kernel of an artifact. The workload must outlive the kernel. Fails with Invalid if
  /// the artifact is for another machine.
  virtual Result<std::unique_ptr<LoadedKernel>> load(runtime::Artifact artifact,
                                                     const ReferencedWorkload& workload) = 0;
  /// Loads an artifact, and returns a function that calls its kernel on arrays in logical layout.
  /// The workload must outlive the function.
  virtual Result<PlainCall> plain_call(runtime::Artifact artifact,
                                       const dsl::Workload& workload) = 0;
  /// The target whose artifacts this executor runs.
  virtual Target target() const = 0;
  /// Drops all cached inputs, because they refer to arrays of workloads. Call it after a workload
  /// was destroyed, before the next kernel is loaded.
  virtual void forget_inputs() = 0;
  /// Returns the options, adapted to the clock of the device.
  virtual Sampling fitted(Sampling options) const = 0;
  /// Returns the watch that decides which timings count (watch.h). It is valid until the number of
  /// threads changes.
  virtual Watch& watch() = 0;
  virtual Result<double> f32_peak_gflops() = 0;
  /// Returns the speed of the machine without disturbances in GFLOP/s, as the watch has measured it
  /// lately (Gauge::undisturbed()); 0 if the watch measures no speed or has not been used.
  virtual double fastest_gflops() const { return 0; }
  virtual Result<runtime::DeviceFacts> facts() = 0;
};

/// The threads on which kernels of the processor run. They are started when pool() is first called.
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

/// Returns an executor on this processor. It borrows the threads, which must outlive it.
std::unique_ptr<Executor> processor(Threads& threads, const Clock& clock);

/// Returns an executor on a device of the target's back end. `index` is the position of the device
/// in the back end's list of devices. The device is opened when it is first needed, and stays open.
std::unique_ptr<Executor> accelerator(const Target& target, int index, const Clock& clock);

}  // namespace tw::tuner

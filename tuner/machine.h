// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a runner measures kernels on: this processor, or a device. Values of a worker, which is
// single-threaded.

#include <functional>
#include <memory>
#include <string>

#include "base/target.h"
#include "dsl/workload.h"
#include "runtime/device.h"
#include "runtime/thread_pool.h"
#include "tuner/reference.h"
#include "tuner/sampling.h"
#include "tuner/verdict.h"
#include "tuner/watch.h"

namespace tw::tuner {

/// A workload that kernels can be measured of.
struct Task {
  dsl::Workload workload;
  Reference reference;
};

/// A kernel of a task, loaded.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Verdict verify() = 0;
  /// On the normal fill, with warm buffers; serves as long as the subject lives.
  virtual Result<Timer> timer() = 0;
  /// Whether what the timed calls left is right: a fault that is rare, or late, shows here.
  virtual Verdict left_behind() = 0;
};

class Machine {
 public:
  virtual ~Machine() = default;
  /// The task must outlive the subject.
  virtual Result<std::unique_ptr<Subject>> load(const std::string& path, const Task& task) = 0;
  /// Calls of an artifact for this machine, on logical arrays.
  virtual Result<PlainCall> plain_call(const std::string& path, const dsl::Workload& workload) = 0;
  /// Before a task goes.
  virtual void forget_inputs() = 0;
  virtual Sampling fitted(Sampling options) const = 0;
  /// Decides which timings count. The reference is valid while the number of threads stays.
  virtual Watch& watch() = 0;
  virtual Result<double> f32_peak_gflops() = 0;
  /// The highest speed that the watch has read lately, in GFLOP/s; 0 where it reads none.
  virtual double fastest_gflops() const { return 0; }
  virtual Result<runtime::DeviceFacts> facts() = 0;
};

/// The threads that kernels of the processor run on; started when they are first asked for.
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
std::unique_ptr<Machine> processor(Threads& threads, const Clock& clock);

/// The device of that index among those that the driver of the target lists, opened when it is
/// first needed and kept.
std::unique_ptr<Machine> accelerator(const Target& target, int index, const Clock& clock);

}  // namespace tw::tuner

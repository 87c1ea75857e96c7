// SPDX-License-Identifier: Apache-2.0
#pragma once
// Interfaces of the workers of a tuning run: a Builder compiles schedules, and a Runner verifies
// and measures the kernels. Both name kernels by the hash of their bytes in one ArtifactStore, so
// that they may work on other machines than the run: an implementation moves bytes between the
// store and the machine on which it works. start_workers() (worker_pool.h) implements both by
// processes of this machine. Tests implement them by tables.
//
//   TW_RETURN_IF_ERROR(workers.builder->begin({.kernels = {{key, schedule}}}));
//   const BuildOutcome built = workers.builder->finish()[0];
//   TW_RETURN_IF_ERROR(workers.runner->prepare(text, reference, Needed::No));
//   TW_TRY(const MeasureReply reply, workers.runner->measure({.artifact = built.artifact}));
//
// Not thread-safe.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "tuner/processes/deadline.h"
#include "tuner/workers/artifact_store.h"
#include "tuner/workers/jobs.h"

namespace tw::tuner {

/// Kernels to be compiled.
struct BuildRequest {
  std::vector<KernelSource> kernels = {};
  bool packs = false;          ///< with packing kernels, where trials go without
  Needed needed = Needed::No;  ///< what is not needed is given up at the first interrupt
  /// The kernel that others are compared with: it runs on the processor, whatever they run on, or,
  /// where the compiler for that is not installed, is the default schedule on the device.
  bool is_reference = false;
};

class Builder {
 public:
  virtual ~Builder() = default;
  /// Hands the kernels over and returns at once. Requests may follow each other before the first
  /// is finished: they are worked off in order. One that fails was not begun.
  virtual Status begin(const BuildRequest& request) = 0;
  /// Waits for the oldest request that was begun and not finished: one outcome a kernel, in
  /// order. Requires that there is one.
  virtual std::vector<BuildOutcome> finish() = 0;
  /// Name and version of the compiler of kernels for the target, as in records: "nvrtc-13.0". Empty
  /// before the first outcome, and if there is no compiler.
  virtual std::string toolchain() const = 0;
};

/// Builds one kernel. Requires one, and that all requests are finished. Fails where there is no
/// kernel: Invalid for a schedule that does not apply, TryLater where the builder was lost,
/// Environment for any other reason.
Result<BuildOutcome> build_one(Builder& builder, const BuildRequest& request);

/// The kernel that others are compared with.
struct ReferenceKernel {
  std::string artifact = {};  ///< name in the store; empty: none was built
  bool on_device = false;     ///< it is a kernel of the device, not of the processor
  friend bool operator==(const ReferenceKernel&, const ReferenceKernel&) = default;
};

class Runner {
 public:
  virtual ~Runner() = default;
  /// Readies the runner for kernels of a workload (its text) and returns how long one call of the
  /// reference takes, in ns. Costs nothing where the runner is ready for it, and little where it
  /// has been. A large reference takes its time: Interrupted when the user or the budget stops
  /// that, at once unless it is needed for a result.
  virtual Result<double> prepare(const std::string& workload, const ReferenceKernel& reference,
                                 Needed needed) = 0;
  /// Says which measurements will be asked for next, so that a runner with several devices can
  /// begin with all of them; what was said before is forgotten. measure() is called for each, or
  /// not.
  virtual Status begin(const std::vector<MeasureJob>& jobs);
  /// Verifies and times a kernel of the workload. A fault of the kernel is an answer, not an error,
  /// and so is Lost, where the worker was lost in this job and in its repetition.
  /// Interrupted when the user or the budget stops it.
  virtual Result<MeasureReply> measure(const MeasureJob& job) = 0;
  virtual Result<CompareReply> compare(const CompareJob& job) = 0;
  /// The target as the measuring machine is one: of a device, with what its driver says.
  /// Environment where there is none.
  virtual Result<Target> machine() = 0;
  /// Measures the processor for the target (measure/calibration.h). TryLater or Environment where
  /// that fails.
  virtual Result<Machine> calibrate(double budget_s) = 0;
  /// Peak of the machine on the kernel's threads, measured anew now and then, as clocks move by
  /// 30 % within minutes on some machines.
  virtual Result<double> peak_gflops() = 0;
  /// The reason why every further measurement fails; nullopt as long as kernels can be measured.
  virtual std::optional<Error> lost() const { return std::nullopt; }
};

/// Time in which workers were busy; overlap counts once.
class BusyTime {
 public:
  void add(int64_t from_ns, int64_t to_ns);
  double seconds() const { return seconds_; }

 private:
  int64_t until_ns_ = 0;
  double seconds_ = 0;
};

/// Everything that a run hands work to. Copies are the same workers, which end with the last one;
/// what they have prepared for a workload serves the next run with it.
struct Workers {
  std::shared_ptr<const ArtifactStore> artifacts;
  std::shared_ptr<Builder> builder;
  std::shared_ptr<Runner> runner;
  std::shared_ptr<const BusyTime> busy;
  /// The stops of their waits, whose end a run sets; nullopt for workers that never wait.
  std::optional<Cancellation> cancellation = {};
};

/// The error of a run that was stopped before there was anything to keep.
tl::unexpected<Error> interrupted_at_start();

}  // namespace tw::tuner

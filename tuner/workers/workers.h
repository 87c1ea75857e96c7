// SPDX-License-Identifier: Apache-2.0
#pragma once
// Interfaces of the workers of a tuning run: a Builder compiles schedules, and a Runner verifies
// and measures the kernels. Both name kernels by the hash of their bytes in one ArtifactStore. So
// they may work on other machines than the run, if they move the bytes between the store and their
// machine. start_workers() (worker_pool.h) implements both by processes of this machine. Tests
// implement them by tables.
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
  bool packs = false;          ///< build packing kernels too, even if trials do without
  Needed needed = Needed::No;  ///< kernels that are not needed are given up at the first interrupt
  /// True for the kernel with which others are compared. A reference is built for the processor,
  /// even if the candidates run on a device. If the compiler for the processor is not installed,
  /// the default schedule on the device is built instead.
  bool is_reference = false;
};

class Builder {
 public:
  virtual ~Builder() = default;
  /// Hands the kernels to the builder and returns at once. More requests may be begun before the
  /// first one is finished; they are built in order. If an error is returned, the request was not
  /// begun.
  virtual Status begin(const BuildRequest& request) = 0;
  /// Waits for the oldest request that is begun and not finished. Returns one outcome for each
  /// kernel, in order. Requires that there is such a request.
  virtual std::vector<BuildOutcome> finish() = 0;
  /// Name and version of the compiler of kernels for the target, as in records: "nvrtc-13.0". Empty
  /// before the first outcome, and if there is no compiler.
  virtual std::string toolchain() const = 0;
};

/// Builds one kernel and waits for it. Requires: the request has one kernel, and no other request
/// is unfinished. Errors: Invalid if the schedule does not apply; TryLater if the builder was lost;
/// Environment if the build failed for any other reason.
Result<BuildOutcome> build_one(Builder& builder, const BuildRequest& request);

/// The kernel with which the results of others are compared.
struct ReferenceKernel {
  std::string artifact = {};  ///< name in the store; empty: none was built
  bool on_device = false;     ///< true if it is a kernel of the device, false if of the processor
  friend bool operator==(const ReferenceKernel&, const ReferenceKernel&) = default;
};

class Runner {
 public:
  virtual ~Runner() = default;
  /// Prepares the runner for kernels of a workload, given as text, and returns the time of one call
  /// of the reference in ns. This costs nothing if the runner is prepared for the workload, and
  /// little if it was before; computing a large reference takes long. Interrupted if the user or
  /// the budget stops the call, which happens at once unless `needed` says that a result needs it.
  virtual Result<double> prepare(const std::string& workload, const ReferenceKernel& reference,
                                 Needed needed) = 0;
  /// Announces the measurements that are likely to follow, so that a runner with several devices
  /// can begin all of them. Replaces earlier announcements. The caller need not call measure() for
  /// each of them.
  virtual Status begin(const std::vector<MeasureJob>& jobs);
  /// Verifies and times a kernel of the workload. A fault of the kernel is a reply with that
  /// status, not an error. If the worker was lost both in this job and in its repetition, the reply
  /// has the status Lost. Interrupted if the user or the budget stops the call.
  virtual Result<MeasureReply> measure(const MeasureJob& job) = 0;
  virtual Result<CompareReply> compare(const CompareJob& job) = 0;
  /// The target with the measuring machine's numbers; for a device, as its driver reports them.
  /// Environment if there is no such device.
  virtual Result<Target> machine() = 0;
  /// Measures the processor for the target (measure/calibration.h). TryLater or Environment if the
  /// measurement fails.
  virtual Result<Machine> calibrate(double budget_s) = 0;
  /// Peak of the machine on the kernel's threads. It is measured again from time to time, because
  /// clock rates change by 30 % within minutes on some machines.
  virtual Result<double> peak_gflops() = 0;
  /// The reason why all further measurements fail; nullopt as long as kernels can be measured.
  virtual std::optional<Error> lost() const { return std::nullopt; }
};

/// Time in which at least one worker was busy.
class BusyTime {
 public:
  void add(int64_t from_ns, int64_t to_ns);
  double seconds() const { return seconds_; }

 private:
  int64_t until_ns_ = 0;
  double seconds_ = 0;
};

/// All workers of a run. Copies refer to the same workers, which end with the last copy. State that
/// the runner prepared for a workload serves the next run with that workload.
struct Workers {
  std::shared_ptr<const ArtifactStore> artifacts;
  std::shared_ptr<Builder> builder;
  std::shared_ptr<Runner> runner;
  std::shared_ptr<const BusyTime> busy;
  /// The times at which the workers' waits end, set by the run; nullopt for workers that never
  /// wait.
  std::optional<Cancellation> cancellation = {};
};

/// The error of a run that was stopped before it had any result.
tl::unexpected<Error> interrupted_at_start();

}  // namespace tw::tuner

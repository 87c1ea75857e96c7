// SPDX-License-Identifier: Apache-2.0
#pragma once
// Interfaces of the workers of a tuning run: a Builder compiles schedules, and a Runner verifies
// and measures the kernels. Both name kernels by the hash of their bytes in one ArtifactStore. So
// builders and runners may work on other machines than the run, if they copy the bytes between the
// store and their machine. start_workers() (worker_pool.h) implements both by processes of this
// machine. Tests implement them by tables.
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
  bool packs = false;          ///< build packing kernels even if kernels of trials need none
  Needed needed = Needed::No;  ///< kernels that are not needed are given up at the first interrupt
  /// True for the reference, the kernel with which the results of other kernels are compared. A
  /// reference is built for the processor, even if the candidates run on a device. If the compiler
  /// for the processor is not installed, the default schedule on the device is built instead.
  bool is_reference = false;
};

class Builder {
 public:
  virtual ~Builder() = default;
  /// Hands a request to the builder and returns at once. Several requests may be begun before the
  /// first one is finished; the builder works on them in order. If an error is returned, the
  /// request was not begun.
  virtual Status begin(const BuildRequest& request) = 0;
  /// Waits for the oldest request that is not finished. Returns one outcome for each of its
  /// kernels, in order. Requires: a request was begun and is not finished.
  virtual std::vector<BuildOutcome> finish() = 0;
  /// Name and version of the compiler for the target, as in records: "nvrtc-13.0". Empty before the
  /// first outcome, and if no compiler is installed.
  virtual std::string toolchain() const = 0;
};

/// Builds one kernel and waits for it. Requires: the request has one kernel, and no other request
/// is unfinished. Fails with Invalid if the schedule does not apply, with TryLater if the builder
/// was lost, and with Environment if the build failed for any other reason.
Result<BuildOutcome> build_one(Builder& builder, const BuildRequest& request);

/// The kernel with which the results of other kernels of the workload are compared.
struct ReferenceKernel {
  std::string artifact = {};  ///< name in the store; empty: none was built
  bool on_device = false;     ///< true if it is a kernel of the device, false if of the processor
  friend bool operator==(const ReferenceKernel&, const ReferenceKernel&) = default;
};

class Runner {
 public:
  virtual ~Runner() = default;
  /// Prepares the runner for kernels of a workload, given as text, and returns the time of one call
  /// of the reference in ns. The call costs nothing if the runner was prepared for this workload
  /// last, and little if it was prepared for it earlier. Otherwise the reference is computed, which
  /// takes long if it is large. Fails with Interrupted if the user or the budget stops the call,
  /// which happens at once with Needed::No, and after a grace with Needed::ForResult.
  virtual Result<double> prepare(const std::string& workload, const ReferenceKernel& reference,
                                 Needed needed) = 0;
  /// Announces jobs for which the caller is likely to call measure(), so that a runner with several
  /// devices can begin all of them. The caller need not call measure() for each job. A later call
  /// of begin() replaces the announcement.
  virtual Status begin(const std::vector<MeasureJob>& jobs);
  /// Verifies and times a kernel of the workload. A fault of the kernel is a status of the reply,
  /// not an error. If the worker was lost, the job is repeated; if the second worker is lost too,
  /// the reply has the status Lost. Fails with Interrupted if the user or the budget stops the
  /// call.
  virtual Result<MeasureReply> measure(const MeasureJob& job) = 0;
  virtual Result<CompareReply> compare(const CompareJob& job) = 0;
  /// Returns the target with the numbers of the machine that measures. A device's numbers are those
  /// that its driver reports. Fails with Environment if there is no device for the target.
  virtual Result<Target> machine() = 0;
  /// Measures the numbers of the processor, such as cache sizes and bandwidths, with the vectors of
  /// the target, in at most `budget_s` seconds (measure/calibration.h). Fails with TryLater or
  /// Environment if the measurement fails.
  virtual Result<Machine> calibrate(double budget_s) = 0;
  /// Returns the peak rate of the machine in GFLOP/s, on as many threads as the kernels use. The
  /// peak is measured again from time to time, because clock rates change by 30 % within minutes on
  /// some machines.
  virtual Result<double> peak_gflops() = 0;
  /// Returns the reason why all further measurements fail; nullopt as long as kernels can be
  /// measured.
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

/// All workers of a run. Copies refer to the same workers, which end with the last copy. A runner
/// keeps the state that it prepared for a workload, so the next run of the workload need not
/// prepare it.
struct Workers {
  std::shared_ptr<const ArtifactStore> artifacts;
  std::shared_ptr<Builder> builder;
  std::shared_ptr<Runner> runner;
  std::shared_ptr<const BusyTime> busy;
  /// Ends the waits of the workers, at a time that the run sets; nullopt for workers that never
  /// wait.
  std::optional<Cancellation> cancellation = {};
};

/// Returns the error of a run that was stopped before it had any result.
tl::unexpected<Error> interrupted_at_start();

}  // namespace tw::tuner

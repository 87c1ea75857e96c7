// SPDX-License-Identifier: Apache-2.0
#pragma once
// The workers of a run as processes of this machine, all sandboxed: several build and one measures.
// Each job has a deadline. If a worker dies, hangs or sends an invalid reply, it is replaced and
// its job is answered with a status. A worker is lost if a signal from outside or lack of memory
// ends it, or if its reply does not decode. A job with a candidate is then done once more, and has
// the status Lost if its second worker is lost too; other jobs are repeated up to three times.
// Workers measure on a device only while no other tuner does (device_lock.h). Kernels are files in
// a private directory to which only builders may write.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/processes/deadline.h"
#include "tuner/processes/process.h"
#include "tuner/processes/scratch.h"
#include "tuner/workers/device_lock.h"
#include "tuner/workers/environment.h"
#include "tuner/workers/workers.h"

namespace tw::tuner {

/// Says if kernels are timed while builders work. With BesideTiming they are, so builders get a
/// tenth of the usual scheduling weight. With Alone nothing is timed, so builders get the usual
/// weight.
enum class Building { BesideTiming, Alone };

/// Starts the workers of a run on this machine. The runner, for the processor or a device, starts
/// at once. Builders start with their first jobs. There is a builder for each core that a kernel on
/// `threads` threads leaves free, or for each core if it leaves none; at most four, or twelve for
/// CUDA. Verifying and measuring one candidate may take `timeout_s`. Fails with Environment if the
/// runner cannot be started.
Result<Workers> start_workers(const Target& target, int threads, const Environment& environment,
                              double timeout_s, Building building = Building::BesideTiming);

/// Builders that work at the same time, each on requests of its own, and the store that has the
/// kernels that they build.
struct Builders {
  std::shared_ptr<const ArtifactStore> artifacts;
  std::vector<std::unique_ptr<Builder>> each;
};
/// Makes a builder for each core, at most four, or twelve for CUDA. For a GPU it leaves one core
/// free. A builder starts with its first job. Requires that nothing is measured meanwhile. Building
/// the kernels of a request may take six times `timeout_s`. If building them together fails, the
/// kernels are built one by one, which may take the same time again.
Result<Builders> start_builders(const Target& target, const Environment& environment,
                                double timeout_s);

/// Returns the workers of a run whose kernels another machine measures: builders on all cores of
/// this machine, but at most four, or twelve for CUDA, and no runner. `processor` is the target of
/// the measuring machine's processor. The reference kernels, which verify results, are built for
/// it.
Result<Workers> start_builders_for(const Target& target, const Target& processor,
                                   const Environment& environment, double timeout_s);

/// Parameters and resources that the worker processes of a run share.
struct PoolContext {
  Target target;
  int threads = 1;
  double timeout_s = 10;
  Clock clock;
  Cancellation cancellation;
  std::shared_ptr<BusyTime> busy;
  std::shared_ptr<const ArtifactStore> artifacts;  ///< its directory is removed with the last owner
  /// Text of the target of the measuring machine's processor, for which references are built.
  std::string processor = host_target().to_string();
};

/// Compiles in several processes. Each process gets a share of every request, and builds its shares
/// in order. A reference that was built before is not built again.
class BuilderPool : public Builder {
 public:
  /// `program` is the command line of a builder. Up to `builders` processes are started when there
  /// is work.
  BuilderPool(PoolContext context, ProcessOptions program, size_t builders);

  Status begin(const BuildRequest& request) override;
  std::vector<BuildOutcome> finish() override;
  std::string toolchain() const override { return toolchain_; }

 private:
  /// Key of a reference that was built: the kernels of its request.
  using ReferenceKey = std::vector<KernelSource>;
  struct Member {
    std::optional<Process> process = {};
    std::deque<BuildJob> jobs = {};  ///< unfinished jobs, oldest first
    size_t sent = 0;                 ///< number of these jobs that the present process has
    int64_t idle_since_ns = 0;       ///< time when the job before these jobs was finished
  };
  /// A request that was begun and is not finished.
  struct Begun {
    Needed needed = Needed::No;
    int64_t started_ns = 0;
    std::optional<ReferenceKey> reference = {};  ///< nullopt: the request is for candidates
    std::vector<size_t> members = {};  ///< index of the member that has each share, in the order of
                                       ///< the kernels
  };
  /// The outcomes of a job. If `repeats` is true, the kernels that were not built are to be built
  /// once more, one by one.
  struct Attempt {
    std::vector<BuildOutcome> outcomes;
    bool repeats = false;
  };
  std::vector<size_t> least_busy() const;
  Status hand_over(Member& member, const BuildJob& job);
  Status start(Member& member);
  Status send_waiting(Member& member);
  static void stop(Member& member);
  void give_up(const Begun& begun);
  std::vector<BuildOutcome> finish_members(const Begun& begun);
  std::vector<BuildOutcome> finish(Member& member, const Begun& begun);
  /// Waits for the outcomes of a job that the member has. The job may take `limit_s`.
  Attempt attempt(Member& member, const BuildJob& job, const Begun& begun, double limit_s);
  BuildOutcome build_alone(Member& member, BuildJob job, const KernelSource& kernel,
                           const Begun& begun, double limit_s);

  PoolContext context_;
  ProcessOptions program_;
  std::vector<Member> members_;
  std::deque<Begun> begun_;  ///< oldest first
  /// Outcomes of the references that were built.
  std::map<ReferenceKey, std::vector<BuildOutcome>> references_;
  std::string toolchain_;
};

/// A runner that verifies and measures in a single process.
class RunnerProcess : public Runner {
 public:
  /// Starts the process. For a processor, `device_lock` and `driver_scratch` (the directory of the
  /// device's driver) are nullopt.
  static Result<std::unique_ptr<RunnerProcess>> start(PoolContext context, ProcessOptions program,
                                                      std::optional<DeviceLock> device_lock,
                                                      std::optional<Scratch> driver_scratch);

  Result<double> prepare(const std::string& workload, const ReferenceKernel& reference,
                         Needed needed) override;
  Result<MeasureReply> measure(const MeasureJob& job) override;
  Result<CompareReply> compare(const CompareJob& job) override;
  Result<Target> machine() override;
  Result<Machine> calibrate(double budget_s) override;
  Result<double> peak_gflops() override;

 private:
  /// The worker's reply. If there is none, a MeasureReply with the fault that ended the worker.
  template <typename Reply>
  using Answer = tl::expected<Reply, MeasureReply>;

  RunnerProcess(PoolContext context, Process process, std::optional<DeviceLock> device_lock,
                std::optional<Scratch> driver_scratch);
  /// Sends the job and waits for the reply. If the worker is lost, the job is repeated with a new
  /// worker: once if a candidate is measured in the job, otherwise up to three times. Jobs without
  /// any kernel are also repeated if the worker crashed.
  template <typename Reply>
  Result<Answer<Reply>> ask(const Job& job, double timeout_s, Needed needed);
  template <typename Reply>
  Result<Answer<Reply>> ask_once(const Job& job, double timeout_s, Needed needed);
  Result<DeviceTurn> wait_for_device(Needed needed);
  /// Restarts the process if it has ended, and prepares it for the present workload.
  Status ensure_running();
  Status load_reference(Needed needed);
  Result<double> measure_peak();

  PoolContext context_;
  Process process_;
  std::optional<DeviceLock> device_lock_;
  std::optional<Scratch> driver_scratch_;
  std::string workload_;       ///< workload for which the runner is prepared; empty: none
  ReferenceKernel reference_;  ///< reference of that workload
  double reference_ns_ = 0;
  double peak_gflops_ = 0;
  /// Number of kernels measured so far, and the number at which the peak is measured again.
  int64_t measured_ = 0, peak_due_ = 0;
};

}  // namespace tw::tuner

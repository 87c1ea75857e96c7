// SPDX-License-Identifier: Apache-2.0
#pragma once
// The workers of a run as processes of this machine: some build, one measures, all sandboxed. Each
// job has a deadline; a worker that dies, hangs or talks nonsense is replaced and its job answered
// with a status. A worker is lost where a signal from outside or want of memory ends it, or its
// reply does not decode; its job is then done once more, and a second loss is the status Lost. On a
// device they measure while no other tuner does (device_lock.h). Kernels are files in a private
// directory that only builders may write.

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
#include "tuner/workers/workers.h"

namespace tw::tuner {

/// Scheduling of builders. BesideTiming: kernels are timed while builders work, and builders have a
/// tenth of the usual scheduling weight. Alone: no kernels are timed meanwhile, and builders have
/// all of that weight.
enum class Building { BesideTiming, Alone };

/// Starts the runner, for the processor or for a device. Builders, at most four, start with their
/// first jobs, on the cores that the kernel leaves free or else on all of them. A candidate may
/// take `timeout_s` to be verified and measured. Environment when the runner cannot be started.
Result<Workers> start_workers(const Target& target, int threads, const Environment& environment,
                              double timeout_s, Building building = Building::BesideTiming);

/// Builders that work at the same time, each with a request of its own, and the store that they
/// leave kernels in.
struct Builders {
  std::shared_ptr<const ArtifactStore> artifacts;
  std::vector<std::unique_ptr<Builder>> each;
};
/// One builder a core, at most four; none of them is started before its first job. Nothing is
/// measured beside them. A kernel may take six times `timeout_s` to be built.
Result<Builders> start_builders(const Target& target, const Environment& environment,
                                double timeout_s);

/// Builders of this machine, on all of its cores, for kernels that another machine measures: with
/// the processor of that target, which references are built for. Without a runner.
Result<Workers> start_builders_for(const Target& target, const Target& processor,
                                   const Environment& environment, double timeout_s);

/// Parameters and resources that the processes of a run share.
struct PoolContext {
  Target target;
  int threads = 1;
  double timeout_s = 10;
  Clock clock;
  Cancellation cancellation;
  std::shared_ptr<BusyTime> busy;
  std::shared_ptr<const ArtifactStore> artifacts;  ///< its directory goes with the last owner
  /// Text of the target of the measuring machine's processor, which references are built for.
  std::string processor = host_target().to_string();
};

/// Compiles in up to four processes, each of which gets a share of a request, and works off its
/// shares in order. References that were built are not built again.
class BuilderPool : public Builder {
 public:
  /// `program` is the command line of a builder; so many are started when there is work.
  BuilderPool(PoolContext context, ProcessOptions program, size_t builders);

  Status begin(const BuildRequest& request) override;
  std::vector<BuildOutcome> finish() override;
  std::string toolchain() const override { return toolchain_; }

 private:
  /// The kernels of a request for references.
  using ReferenceKey = std::vector<KernelSource>;
  struct Member {
    std::optional<Process> process = {};
    std::deque<BuildJob> jobs = {};  ///< not finished, oldest first
    size_t sent = 0;                 ///< number of jobs that the present process has
    int64_t idle_since_ns = 0;       ///< when the job before these was finished
  };
  /// A request that was begun.
  struct Begun {
    Needed needed = Needed::No;
    int64_t started_ns = 0;
    std::optional<ReferenceKey> reference = {};  ///< nullopt: the request is for candidates
    std::vector<size_t> members = {};            ///< one a share, in the order of kernels
  };
  /// The outcomes of a job. `repeats`: those without a kernel are to be built once more, one by
  /// one.
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
  Attempt attempt(Member& member, const BuildJob& job, const Begun& begun);
  BuildOutcome build_alone(Member& member, BuildJob job, const KernelSource& kernel,
                           const Begun& begun);

  PoolContext context_;
  ProcessOptions program_;
  std::vector<Member> members_;
  std::deque<Begun> begun_;                                       ///< oldest first
  std::map<ReferenceKey, std::vector<BuildOutcome>> references_;  ///< those that were built
  std::string toolchain_;
};

/// Verifies and measures in one process.
class RunnerProcess : public Runner {
 public:
  /// The device's lock and the directory for its driver are absent for the processor.
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
  /// The worker's reply, or the fault with which it ended.
  template <typename Reply>
  using Answer = tl::expected<Reply, MeasureReply>;

  RunnerProcess(PoolContext context, Process process, std::optional<DeviceLock> device_lock,
                std::optional<Scratch> driver_scratch);
  /// Asks the worker, and repeats a job whose worker was lost with a new worker.
  template <typename Reply>
  Result<Answer<Reply>> ask(const Job& job, double timeout_s, Needed needed);
  template <typename Reply>
  Result<Answer<Reply>> ask_once(const Job& job, double timeout_s, Needed needed);
  Result<DeviceTurn> wait_for_device(Needed needed);
  /// Starts the process anew where it has ended, and readies it for the present workload.
  Status ensure_running();
  Status load_reference(Needed needed);
  Result<double> measure_peak();

  PoolContext context_;
  Process process_;
  std::optional<DeviceLock> device_lock_;
  std::optional<Scratch> driver_scratch_;
  std::string workload_;       ///< the workload that the runner is ready for; empty: none
  ReferenceKernel reference_;  ///< its reference
  double reference_ns_ = 0;
  double peak_gflops_ = 0;
  int64_t measured_ = 0, peak_due_ = 0;  ///< kernels so far, and at which the peak is due
};

}  // namespace tw::tuner

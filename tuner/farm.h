// SPDX-License-Identifier: Apache-2.0
#pragma once
// The workers of a tuning run, as the parent sees them: some build candidates, one runs them, of
// whatever workloads. Each job has a deadline; a worker that dies, hangs or talks nonsense is
// replaced and its job answered with a status. A device is measured on while no other tuner of the
// user does (device_lock.h). Not thread-safe.
//
//   TW_TRY(Farm farm, Farm::start(target, 1, 1, environment, 10));
//   TW_RETURN_IF_ERROR(farm.begin_build(workload, {schedule}, {}));
//   ... farm.finish_build()[0].path ...
//   TW_RETURN_IF_ERROR(farm.prepare(workload, reference));   // before the first measure(), and to
//   TW_TRY(MeasureReply reply, farm.measure({path}));        // go over to another workload

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "tuner/device_lock.h"
#include "tuner/jobs.h"
#include "tuner/process.h"
#include "tuner/scratch.h"
#include "tuner/tune.h"

namespace tw::tuner {

/// How schedules are to be built.
struct BuildUse {
  bool packs = false;   ///< with packing kernels, where trials go without
  bool needed = false;  ///< for a result: goes on a while after an interrupt
  /// What the others are compared with: it runs on the processor, whatever they run on, or, where
  /// the compiler for that is not installed, is the default schedule on the device.
  bool reference = false;
};

/// What the others are compared with, built: a kernel of the processor, or of the device itself
/// where no kernel of the processor can be built.
struct ReferenceKernel {
  ReferenceKernel(std::string artifact = {}, bool runs_on_device = false)
      : path(std::move(artifact)), on_device(runs_on_device) {}
  std::string path;
  bool on_device;
  friend bool operator==(const ReferenceKernel&, const ReferenceKernel&) = default;
};

/// Of a run that was stopped before there was anything to keep.
tl::unexpected<Error> interrupted_at_start();

class Farm {
 public:
  /// Starts the runner, for the processor or for a device, and makes a private directory for
  /// artifacts; builders, at most four, start with their first jobs, on the cores that the kernel
  /// leaves free or else on all of them. Environment when it cannot.
  static Result<Farm> start(const Target& target, int threads, uint64_t seed,
                            const Environment& environment, double timeout_s);
  Farm(Farm&&) = default;
  Farm& operator=(Farm&&) = default;
  ~Farm();

  /// Hands schedules of a workload (its key) to the builders and returns at once; finish_build()
  /// waits for the outcome. What is not needed is given up at the first interrupt.
  Status begin_build(const std::string& workload, const std::vector<std::string>& schedules,
                     const BuildUse& use);
  std::vector<BuildOutcome> finish_build();
  /// Both, of one schedule: the artifact's path.
  Result<std::string> build(const std::string& workload, const std::string& schedule,
                            const BuildUse& use);

  /// The reference kernel of a workload, of this schedule for the processor.
  Result<ReferenceKernel> build_reference(const std::string& workload, const std::string& schedule);

  /// Readies the runner for a workload, whose reference kernel was built at `reference`, and says
  /// how long one call of it takes, ns. Costs nothing where the runner is ready for it, and little
  /// where it has been. Interrupted when the user stops it, for a result (`needed`) after a while:
  /// a large reference takes its time.
  Result<double> prepare(const std::string& workload, const ReferenceKernel& reference,
                         bool needed = false);
  /// A candidate's fault is an answer, not an error.
  Result<MeasureReply> measure(const MeasureJob& job);
  Result<CompareReply> compare(const std::string& a, const std::string& b, int rounds);
  /// The target as the machine is that the runner measures on: of a device, what its driver says.
  /// Environment where there is none.
  Result<Target> machine();
  /// Measures the processor, in the runner (calibration.h). TryLater or Environment where that
  /// fails.
  Result<tw::Machine> calibrate(double budget_s);
  /// Of the machine, on the kernel's threads: measured now and then, as clocks move by 30 % within
  /// minutes on some machines.
  Result<double> peak_gflops();

  /// What compiles kernels for the target, by the latest word of a builder, as records say it:
  /// "nvrtc-13.0". Empty before the first word, and where there is no compiler.
  const std::string& toolchain() const { return toolchain_; }

  /// Seconds in which a worker was busy, overlap counted once; builders by their own account.
  double working_s() const { return working_s_; }

 private:
  Farm() = default;
  struct Builder {
    std::optional<Process> process = {};
    size_t building = 0;  ///< schedules that it has at present
    BuildJob job = {};    ///< the latest
  };
  Result<BuildOutcome> build_one(const std::string& workload, const std::string& schedule,
                                 const BuildUse& use);
  Status hand_over(Builder& builder, const BuildJob& job);
  std::vector<BuildOutcome> finish(Builder& builder, int64_t deadline_ns);
  std::vector<BuildOutcome> build_alone(Builder& builder);
  int64_t build_deadline_ns() const;
  void give_up_building();
  void busy(int64_t from_ns, int64_t to_ns);
  Result<std::string> ask_runner(const Job& job, double timeout_s, MeasureReply& fault);
  Result<DeviceTurn> wait_for_device();
  Status restart_runner();
  Status load_reference();
  Result<double> measure_peak();

  Target target_;
  std::string workload_;       ///< that the runner is ready for
  ReferenceKernel reference_;  ///< the same
  int threads_ = 1;
  uint64_t seed_ = 1;
  double timeout_s_ = 10;
  std::string code_generator_, toolchain_;
  std::vector<std::string> cuda_directories_;
  Clock clock_;
  /// Shared with the clock by which workers are waited for.
  struct Patience;
  std::shared_ptr<Patience> patience_;
  std::optional<Scratch> scratch_, driver_scratch_;
  std::optional<DeviceLock> device_lock_;
  ProcessOptions builder_program_;
  Clock waiting_clock_;
  std::vector<Builder> builders_;
  std::optional<Process> runner_;
  bool building_needed_ = false;
  int64_t next_artifact_ = 0;
  int64_t build_started_ns_ = 0, busy_until_ns_ = 0;
  double working_s_ = 0;
  double reference_ns_ = 0;
  double peak_gflops_ = 0;
  int64_t measured_ = 0, peak_due_ = 0;  ///< candidates so far, and at which the peak is due
};

}  // namespace tw::tuner

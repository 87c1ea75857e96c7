// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tuning on the machines of a farm: a Runner whose kernels are measured by members, and a Builder
// that hands schedules to those members that build. docs/farm.md says what crosses.
//
//   TW_TRY(const Farm farm, open_farm({.client = client, .label = "gpu:sm_90"}, environment, 10));
//   TW_TRY(Workers workers, start_workers(farm, threads, environment, 10));
//   tune_all(tasks, farm.target, options, store, environment, on_progress, workers);
//
// All measurements of a run are made on devices that records call the same. Where there are several
// of them, the kernels of a batch are measured side by side, one at a time on each. Not
// thread-safe.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "tuner/processes/deadline.h"
#include "tuner/workers/farm_link.h"
#include "tuner/workers/workers.h"

namespace tw::tuner {

/// Options of open_farm().
struct FarmOptions {
  std::vector<std::string> client;  ///< command line of the client (farm_link.h)
  std::string label = {};   ///< that members must have; empty: any, if all have the same device
  std::string target = {};  ///< text; empty: that of the members' device
};

/// A farm, and the device that a run measures on.
struct Farm {
  std::shared_ptr<FarmLink> link;
  std::string device;  ///< resource of the members that measure on such a device
  Target target;       ///< as the device is one
  Target processor;    ///< of the machine that has the device: references are built for it
  size_t devices = 0, builders = 0;  ///< numbers of members that measure on such a device, or build
};

/// Errors: Environment where the client cannot be started, or the members' device cannot run
/// kernels for the target; TryLater where the farm cannot be reached or no member has the label;
/// Usage where members have different devices and no label chooses.
Result<Farm> open_farm(const FarmOptions& options, const Environment& environment,
                       double timeout_s);

/// Workers of a run. The members measure, and build if any of them does; else builders of this
/// machine build. A candidate may take `timeout_s` to be verified and measured.
Result<Workers> start_workers(const Farm& farm, int threads, const Environment& environment,
                              double timeout_s);

/// Context that the jobs of a run share.
struct FarmRun {
  Farm farm;
  int threads = 1;
  double timeout_s = 10;
  Clock clock;
  Cancellation cancellation;
  std::shared_ptr<BusyTime> busy;
  std::shared_ptr<const ArtifactStore> artifacts;

  FarmJob job_of(Job job) const;
  /// Waits for the reply to a job that was sent at that time.
  Result<tl::expected<FarmReply, FarmFault>> wait(uint64_t number, double limit_s,
                                                  int64_t started_ns, Needed needed) const;
};

/// Schedules are shared out among the members that build.
class FarmBuilder : public Builder {
 public:
  explicit FarmBuilder(FarmRun run) : run_(std::move(run)) {}

  Status begin(const BuildRequest& request) override;
  std::vector<BuildOutcome> finish() override;
  std::string toolchain() const override { return toolchain_; }

 private:
  /// Schedules of a request, which one member builds.
  struct Share {
    uint64_t number = 0;
    size_t kernels = 0;
    FarmJob job = {};
  };
  /// A request that was begun.
  struct Begun {
    Needed needed = Needed::No;
    int64_t started_ns = 0;
    std::vector<Share> shares = {};
  };
  Result<Share> hand_over(FarmJob job) const;
  std::vector<BuildOutcome> finish(const Share& share, const Begun& begun);
  Result<std::vector<BuildOutcome>> outcomes_of(const Share& share, const Begun& begun);
  Result<std::vector<BuildOutcome>> built(const FarmReply& reply, size_t kernels);
  double limit_s(size_t kernels) const;

  FarmRun run_;
  std::deque<Begun> begun_;  ///< oldest first
  std::string toolchain_;
};

class FarmRunner : public Runner {
 public:
  explicit FarmRunner(FarmRun run) : run_(std::move(run)) {}

  Result<double> prepare(const std::string& workload, const ReferenceKernel& reference,
                         Needed needed) override;
  Status begin(const std::vector<MeasureJob>& jobs) override;
  Result<MeasureReply> measure(const MeasureJob& job) override;
  Result<CompareReply> compare(const CompareJob& job) override;
  Result<Target> machine() override { return run_.farm.target; }
  Result<Machine> calibrate(double budget_s) override;
  Result<double> peak_gflops() override;
  std::optional<Error> lost() const override { return run_.farm.link->lost(); }

 private:
  /// A job that was sent.
  struct Sent {
    uint64_t number = 0;
    double limit_s = 0;
    int64_t started_ns = 0;
  };
  Result<Sent> send(Job job, double seconds, const std::vector<std::string>& kernels);
  Result<tl::expected<FarmReply, FarmFault>> receive(const Sent& sent, Needed needed);
  /// Sends the job and decodes the reply, and repeats that once where the reply does not decode.
  /// TryLater where the second reply does not decode; a fault of the job is an Environment error.
  template <typename Answer>
  Result<Answer> ask(const Job& job, double seconds, const std::vector<std::string>& kernels,
                     Needed needed);
  template <typename Answer>
  Result<tl::expected<Answer, FarmFault>> ask_once(const Job& job, double seconds,
                                                   const std::vector<std::string>& kernels,
                                                   Needed needed);
  Result<Sent> send_measurement(const MeasureJob& job);
  Result<MeasureReply> measured(const Sent& sent);

  FarmRun run_;
  PrepareJob prepared_;  ///< what the runner is ready for; a workload without text: nothing
  double reference_ns_ = 0;
  std::map<std::string, Sent> begun_;  ///< measurements under way, by the name of their kernel
  double peak_gflops_ = 0;
  int64_t measured_ = 0, peak_due_ = 0;  ///< kernels so far, and at which the peak is due
};

}  // namespace tw::tuner

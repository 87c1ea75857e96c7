// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tunes on the machines of a farm. A member of the farm is a process on one of these machines that
// measures on a device, that builds, or both. Here the Runner sends its kernels to members that
// measure, and the Builder its schedules to members that build. docs/farm.md describes the
// messages.
//
//   TW_TRY(const Farm farm, open_farm({.client = client, .label = "gpu:sm_90"}, environment, 10));
//   TW_TRY(Workers workers, start_workers(farm, threads, environment, 10));
//   tune_all(tasks, farm.target, options, store, environment, on_progress, workers);
//
// All measurements of a run are made on devices that have the same name in records. If several
// members have such devices, the kernels of a batch are measured side by side, one at a time on
// each device. Not thread-safe.

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
  /// Label of the members on which the run measures. If the label is empty, all members must have
  /// the same device.
  std::string label = {};
  std::string target = {};  ///< text of a target; empty: the target of the members' device
};

/// A farm, and the kind of device on which a run measures.
struct Farm {
  std::shared_ptr<FarmLink> link;
  std::string device;  ///< resource that all members with a device of this kind offer
  Target target;       ///< target with the numbers of the device
  Target processor;  ///< processor of the machine that has the device; references are built for it
  /// Number of members that measure on a device of this kind, and number of members that build.
  size_t devices = 0, builders = 0;
};

/// Connects to a farm and chooses a device. Fails with Environment if the client cannot be started,
/// if all members have other versions of the program, or if the members' device cannot run kernels
/// for the target. Fails with TryLater if the farm cannot be reached or no member that measures has
/// the label, and with Usage if members have different devices and no label chooses among them.
Result<Farm> open_farm(const FarmOptions& options, const Environment& environment,
                       double timeout_s);

/// Returns the workers of a run. Members of the farm measure. If any member can build, members also
/// build; otherwise builders of this machine build. Verifying and measuring one candidate may take
/// `timeout_s`.
Result<Workers> start_workers(const Farm& farm, int threads, const Environment& environment,
                              double timeout_s);

/// Values that all jobs of a run on a farm share.
struct FarmRun {
  Farm farm;
  int threads = 1;
  double timeout_s = 10;
  Clock clock;
  Cancellation cancellation;
  std::shared_ptr<BusyTime> busy;
  std::shared_ptr<const ArtifactStore> artifacts;

  FarmJob job_of(Job job) const;
  /// Waits for the reply to the job `number`, which was sent at `started_ns` and may take
  /// `limit_s`. Returns the reply, or the fault of the job. Fails with the errors of
  /// FarmLink::wait().
  Result<tl::expected<FarmReply, FarmFault>> wait(uint64_t number, double limit_s,
                                                  int64_t started_ns, Needed needed) const;
};

/// Distributes schedules over the members that build.
class FarmBuilder : public Builder {
 public:
  explicit FarmBuilder(FarmRun run) : run_(std::move(run)) {}

  Status begin(const BuildRequest& request) override;
  std::vector<BuildOutcome> finish() override;
  std::string toolchain() const override { return toolchain_; }

 private:
  /// The part of a request that one member builds.
  struct Share {
    uint64_t number = 0;
    size_t kernels = 0;
    FarmJob job = {};
  };
  /// A request that was begun and is not finished.
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
  /// A job that was sent and not answered yet.
  struct Sent {
    uint64_t number = 0;
    double limit_s = 0;
    int64_t started_ns = 0;
  };
  Result<Sent> send(Job job, double seconds, const std::vector<std::string>& kernels);
  Result<tl::expected<FarmReply, FarmFault>> receive(const Sent& sent, Needed needed);
  /// Sends the job and decodes the reply. If the reply does not decode, sends the job once more.
  /// Returns the answer, or the fault of the job.
  template <typename Answer>
  Result<tl::expected<Answer, FarmFault>> ask_twice(const Job& job, double seconds,
                                                    const std::vector<std::string>& kernels,
                                                    Needed needed);
  /// As ask_twice(), for a job without whose answer the run cannot continue, so a fault of the job
  /// is an error: TryLater if the second reply does not decode either, and Environment for any
  /// other fault.
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
  PrepareJob prepared_;  ///< state of the runner; nothing is prepared if the workload is empty
  double reference_ns_ = 0;
  std::map<std::string, Sent> begun_;  ///< measurements under way, by the name of the kernel
  double peak_gflops_ = 0;
  /// Number of kernels measured so far, and the number at which the peak is measured again.
  int64_t measured_ = 0, peak_due_ = 0;
};

}  // namespace tw::tuner

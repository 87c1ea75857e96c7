// SPDX-License-Identifier: Apache-2.0
#pragma once
// The workers of a tuning run, as the parent sees them: some build candidates, one runs them. Each
// job has a deadline; a worker that dies, hangs or talks nonsense is replaced and its job answered
// with a status. Not thread-safe.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "tuner/jobs.h"
#include "tuner/process.h"
#include "tuner/scratch.h"
#include "tuner/tune.h"

namespace tw::tuner {

class Farm {
 public:
  /// Starts the runner and makes a private directory for artifacts; builders, at most four, start
  /// with their first jobs, on the cores that the kernel leaves free or else on all of them.
  /// Environment when it cannot.
  static Result<Farm> start(const dsl::Workload& workload, const Target& target, int threads,
                            uint64_t seed, const Environment& environment, double timeout_s);
  Farm(Farm&&) = default;
  Farm& operator=(Farm&&) = default;
  ~Farm();

  /// Hands schedules to the builders and returns at once; finish_build() waits for the outcome.
  /// Those without `packs` are trials, which are given up at the first interrupt.
  Status begin_build(const std::vector<std::string>& schedules, bool packs = false);
  std::vector<BuildOutcome> finish_build();

  /// Builds the reference kernel from `schedule` and readies the runner; needed once before
  /// measure(). Interrupted when the user stops it: a large reference takes its time.
  Status prepare(const std::string& schedule);
  /// Of one call of the reference kernel.
  double reference_ns() const { return reference_ns_; }
  /// A candidate's fault is an answer, not an error.
  Result<MeasureReply> measure(const MeasureJob& job);
  Result<CompareReply> compare(const std::string& a, const std::string& b, int rounds);
  Result<double> peak_gflops();

  /// Seconds in which a worker was busy, overlap counted once; builders by their own account.
  double working_s() const { return working_s_; }

 private:
  Farm() = default;
  struct Builder {
    std::optional<Process> process = {};
    size_t building = 0;  ///< schedules that it has at present
  };
  Status hand_over(Builder& builder, const BuildJob& job);
  std::vector<BuildOutcome> finish(Builder& builder, int64_t deadline_ns);
  void give_up_building();
  void busy(int64_t from_ns, int64_t to_ns);
  Result<std::string> ask_runner(const Job& job, double timeout_s, MeasureReply& fault);
  Status restart_runner();
  Status build_and_load_reference(const std::string& schedule);
  Status load_reference();

  std::string workload_, target_, reference_;
  int threads_ = 1;
  uint64_t seed_ = 1;
  double timeout_s_ = 10;
  std::string code_generator_;
  Clock clock_;
  /// Shared with the clock by which workers are waited for.
  struct Patience;
  std::shared_ptr<Patience> patience_;
  std::optional<Scratch> scratch_;
  ProcessOptions builder_program_;
  Clock waiting_clock_;
  std::vector<Builder> builders_;
  std::optional<Process> runner_;
  bool building_trials_ = false;
  int64_t next_artifact_ = 0;
  int64_t build_started_ns_ = 0, busy_until_ns_ = 0;
  double working_s_ = 0;
  double reference_ns_ = 0;
};

}  // namespace tw::tuner

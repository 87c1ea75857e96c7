// SPDX-License-Identifier: Apache-2.0
#pragma once
// Works off demand (db/demand.h): tunes the kernels of which better ones are expected to save the
// most, for everybody who left a demand on a device like this one.
//
//   TW_TRY(DemandRun run, tune_demand(target, options, store, environment, progress, tune_all));
//   run.before, run.after;    // the same demands, with what the trials said before and say now
//
// Kernels are tuned in waves. Each wave has the kernels that are expected to save most by then,
// also of demands that were left meanwhile. Not thread-safe.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "db/demand.h"
#include "db/store.h"
#include "tuner/tune.h"
#include "tuner/workers/environment.h"

namespace tw::tuner {

/// A demand of this device without a source and kernels.
db::Demand demand_at(const Target& target, int threads, int64_t now_ms);

/// The demand of one operator, whose present kernel is `used`; null: it has none.
db::Demand demand_of(const dsl::Workload& workload, const Target& target, int threads,
                     const db::Record* used, int64_t now_ms);

/// The demand that a run for one operator leaves, by its result: where it has no kernel of this
/// device, or was cut short while another minute was expected to gain more than
/// least_gain(Effort::Normal). nullopt where it lacks nothing.
std::optional<db::Demand> demand_left(const dsl::Workload& workload, const Target& target,
                                      int threads, const Result<Tuned>& result, int64_t now_ms);

/// The time of a call of what left the demand, in ns.
struct DemandTimes {
  /// With the kernels that it used when it left the demand, and with the best ones that are known:
  /// measured on the device where that was done, else as they were expected to be.
  double used_ns = 0, best_ns = 0;
  /// Share of used_ns that is of kernels of which both times are measured.
  double measured_share = 0;
};
DemandTimes times_of(const db::Demand& demand);

/// The share of a call of the demand that another minute of tuning this kernel is expected to save,
/// 0 to 1.
double expected_saving(const db::WantedKernel& kernel, const db::Demand& demand);
/// The sum over its kernels.
double expected_saving(const db::Demand& demand);

/// A kernel that demands of one device want, as a task, whose weight counts a call of each demand
/// once, however long it takes: nobody knows how often each is called.
struct WantedTask {
  TaskSpec spec;
  int threads = 1;
  double saving = 0;  ///< sum of expected_saving()
};
/// The kernels of the demands, those that are expected to save most first. Kernels that this
/// program cannot parse are left out.
std::vector<WantedTask> tasks_of(const std::vector<db::Demand>& demands);

struct DemandRun {
  std::vector<db::Demand> before, after;
  size_t tuned = 0;  ///< number of kernels that were tuned
  size_t waves = 0;
  std::map<std::string, std::vector<std::string>> failures;  ///< texts of workloads by the reason
  Ended ended = Ended::Plateau;
  double seconds = 0;
  std::optional<Error> unstored = {};  ///< Tuned::unstored of a kernel
};

/// Works off the demands for the target on devices with this machine's device_text(), on at most as
/// many threads as it has cores. Ends when the budget does, or when the sum of expected_saving()
/// over the demands is less than their number times least_gain() of the effort. Errors: Usage for
/// Effort::None; as db::demands(); as tune_all() where workers cannot be started.
Result<DemandRun> tune_demand(const Target& target, const TuneOptions& options, db::Store& store,
                              const Environment& environment, const OnProgress& on_progress,
                              const TuneAll& tune_all);

}  // namespace tw::tuner

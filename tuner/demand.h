// SPDX-License-Identifier: Apache-2.0
#pragma once
// Works off demand (db/demand.h): tunes the kernels that are expected to save the most time for all
// networks and operators with a demand for a device like this one.
//
//   TW_TRY(DemandRun run, tune_demand(target, options, store, environment, progress, tune_all));
//   run.before, run.after;    // the same demands, with the trials known before and after the run
//
// Kernels are tuned in waves; a wave is one call of tune_all(). Before each wave the demands are
// read again, so that a wave also sees demands that other runs have stored meanwhile. A wave tunes
// the kernels that are expected to save the most at that time. Not thread-safe.

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

/// A demand for the device of the target, made at the time `now_ms`. Its source, name and kernels
/// are empty; the caller sets them.
db::Demand demand_at(const Target& target, int threads, int64_t now_ms);

/// The demand of one operator. `used` is the record of the kernel that the operator uses at
/// present, or null if it uses no kernel of the database.
db::Demand demand_of(const dsl::Workload& workload, const Target& target, int threads,
                     const db::Record* used, int64_t now_ms);

/// The demand that a run for one operator leaves in the database, so that the operator is tuned
/// later. `result` is the result of the run. A demand is left if the run found no kernel for this
/// device, or if it was cut short while another minute was expected to gain more than
/// least_gain(Effort::Normal). Returns nullopt in all other cases.
std::optional<db::Demand> demand_left(const dsl::Workload& workload, const Target& target,
                                      int threads, const Result<Tuned>& result, int64_t now_ms);

/// The time in ns of one call of the network or operator that a demand is for.
struct DemandTimes {
  /// `used_ns` is the time with the kernels in use when the demand was stored, `best_ns` with the
  /// best kernels known now. Each kernel counts with its time measured on the device, or with its
  /// predicted time if none was measured.
  double used_ns = 0, best_ns = 0;
  /// Share of used_ns, from 0 to 1, of the kernels with two measured times: the time that counts in
  /// used_ns and the time that counts in best_ns.
  double measured_share = 0;
};
DemandTimes times_of(const db::Demand& demand);

/// The share of the demand's call time that another minute of tuning this kernel is expected to
/// save, from 0 to 1.
double expected_saving(const db::WantedKernel& kernel, const db::Demand& demand);
/// The sum of expected_saving() over the kernels of the demand, at most 1.
double expected_saving(const db::Demand& demand);

/// A kernel that demands of one device ask for, as a tuning task. The weight of the task is the sum
/// of (runs of the kernel in a call / time of the call) over the demands. A kernel that runs 3
/// times in a call of 6 ms and, in another network, once in a call of 2 ms has the weight 3/6 + 1/2
/// = 1 per ms. So every demand counts alike, because it is not known how often each network is
/// called.
struct WantedTask {
  TaskSpec spec;
  int threads = 1;
  double saving = 0;  ///< sum of expected_saving() over the demands for the kernel
};
/// The kernels of all demands as tasks, the largest expected saving first. A kernel that several
/// demands ask for is one task. Kernels whose workload this program cannot parse are left out.
std::vector<WantedTask> tasks_of(const std::vector<db::Demand>& demands);

struct DemandRun {
  std::vector<db::Demand> before, after;
  size_t tuned = 0;  ///< number of kernels that were tuned
  size_t waves = 0;
  /// Texts of the workloads for which no kernel was found, grouped by the reason of the failure.
  std::map<std::string, std::vector<std::string>> failures;
  Ended ended = Ended::Plateau;
  double seconds = 0;
  /// Tuned::unstored of a kernel; nullopt if all records were stored.
  std::optional<Error> unstored = {};
};

/// Tunes the kernels of the demands that are for this target, for devices with the same
/// device_text() as this machine, and for at most as many threads as this machine has cores. The
/// run ends with the budget, or when the savings that are still expected, divided by the number of
/// demands, fall below least_gain() of the effort. Errors: Usage for Effort::None; as
/// db::demands(); as tune_all() if workers cannot be started.
Result<DemandRun> tune_demand(const Target& target, const TuneOptions& options, db::Store& store,
                              const Environment& environment, const OnProgress& on_progress,
                              const TuneAll& tune_all);

}  // namespace tw::tuner

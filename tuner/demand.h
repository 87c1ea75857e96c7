// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tunes the kernels that demands ask for. A demand (db/demand.h) is a stored list of the kernels
// that a network or an operator uses on a class of devices. The kernels that are expected to save
// the most time, over all demands for a device like this one, are tuned first.
//
//   TW_TRY(DemandRun run, tune_demand(target, options, store, environment, progress, tune_all));
//   run.before, run.after;    // the same demands, with the trials known before and after the run
//
// Kernels are tuned in waves; a wave is one call of tune_all(). The demands are read again before
// each wave, so that demands which other runs have stored meanwhile are included. Each wave tunes
// the kernels that are then expected to save the most. Not thread-safe.

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

/// Returns a demand for the device of the target, made at the wall-clock time `now_ms`. Its source,
/// name and kernels are empty; the caller sets them.
db::Demand demand_at(const Target& target, int threads, int64_t now_ms);

/// Returns the demand of one operator. `used` is the record of the kernel that the operator uses at
/// present, or null if it uses no kernel of the database.
db::Demand demand_of(const dsl::Workload& workload, const Target& target, int threads,
                     const db::Record* used, int64_t now_ms);

/// Returns the demand that is to be stored after a tuning run for one operator, so that the
/// operator is tuned further later. `result` is the result of the run. There is a demand in two
/// cases: the run found no kernel for this device; or the budget or the user ended the run,
/// although another minute was expected to gain at least least_gain(Effort::Normal). Returns
/// nullopt in all other cases.
std::optional<db::Demand> demand_left(const dsl::Workload& workload, const Target& target,
                                      int threads, const Result<Tuned>& result, int64_t now_ms);

/// Times in ns of one call of the network or operator that a demand is for.
struct DemandTimes {
  /// `used_ns` is the time with the kernels that were used when the demand was stored. `best_ns` is
  /// the time with the best kernels that the database has now. Each kernel counts with its time
  /// measured on the device, or with its predicted time if it was not measured.
  double used_ns = 0, best_ns = 0;
  /// Share of used_ns, from 0 to 1, that comes from kernels for which both the time in used_ns and
  /// the time in best_ns were measured.
  double measured_share = 0;
};
DemandTimes times_of(const db::Demand& demand);

/// Returns the share, from 0 to 1, of the time of a call that another minute of tuning this kernel
/// is expected to save.
double expected_saving(const db::WantedKernel& kernel, const db::Demand& demand);
/// Returns the sum of expected_saving() over the kernels of the demand, at most 1.
double expected_saving(const db::Demand& demand);

/// A kernel that demands ask for, as a tuning task. The weight of the task is a sum over the
/// demands: the runs of the kernel in a call divided by the time of the call. For example, a kernel
/// that runs 3 times in a call of 6 ms of one network, and once in a call of 2 ms of another
/// network, has the weight 3/6 + 1/2 = 1 per ms. So every demand counts alike, because it is not
/// known how often each network is called.
struct WantedTask {
  TaskSpec spec;
  int threads = 1;
  double saving = 0;  ///< sum of expected_saving() of this kernel over the demands
};
/// Returns the kernels of all demands as tasks, the largest expected saving first. A kernel that
/// several demands ask for with the same number of threads is one task. Kernels whose workload this
/// program cannot parse are left out.
std::vector<WantedTask> tasks_of(const std::vector<db::Demand>& demands);

struct DemandRun {
  std::vector<db::Demand> before, after;
  size_t tuned = 0;  ///< number of kernels that were tuned
  size_t waves = 0;
  /// Texts of the workloads for which no kernel was found, grouped by the reason of the failure.
  std::map<std::string, std::vector<std::string>> failures;
  Ended ended = Ended::Plateau;
  double seconds = 0;
  /// The value of Tuned::unstored of a tuned kernel; nullopt if all records were stored.
  std::optional<Error> unstored = {};
};

/// Tunes the kernels of all demands that meet three conditions: the demand names this target; its
/// device has the same device_text() as the target; and it asks for at most as many threads as the
/// target's processor has cores, or for one thread if the target is a GPU. The run ends when the
/// budget is spent, when the user interrupts, or when the expected savings that are left, divided
/// by the number of demands, are below least_gain() of the effort. Fails with Usage if the effort
/// is None or an option is out of range, with the errors of db::demands(), and with those of
/// tune_all() if workers cannot be started.
Result<DemandRun> tune_demand(const Target& target, const TuneOptions& options, db::Store& store,
                              const Environment& environment, const OnProgress& on_progress,
                              const TuneAll& tune_all);

}  // namespace tw::tuner

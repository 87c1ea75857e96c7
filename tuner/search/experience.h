// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads from a database what helps a new run. Trials of the same workload with the same layouts on
// the same device are not repeated, and the best of them are parents of the search. Other trials
// train the cost model, and their fastest schedules are tried here: those of similar workloads, and
// those with other layouts, on other devices or for other instruction sets. Not thread-safe.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/stop.h"
#include "base/target.h"
#include "cost_model/cost_model.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "schedules/space/space.h"
#include "tuner/search/search.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

struct Question {
  const dsl::Workload* workload;
  const schedules::Space* space;  ///< of the workload
  Target target;                  ///< with the facts of the device that measures
  int threads = 1;
  /// Hashes of the records that a model has already learned from. These records give no samples,
  /// and the records that do give samples are added to the set.
  std::set<std::string>* learned = nullptr;
  StopToken stop = {};  ///< once stopped, only what was read until then is returned
  /// Most schedules that are turned into points or samples, fastest first.
  size_t most_schedules = SIZE_MAX;
  /// The host of the run (Environment::host). A schedule that was found wrong by only one session,
  /// on another host, is tried again here. Empty: schedules found wrong are never tried again.
  std::string host = {};
  Notes* notes = nullptr;  ///< gets a note if reading fails; may be null
  /// TaskSpec::most_error. Trials with larger errors are neither parents nor in latencies_ns.
  double most_error = std::numeric_limits<double>::infinity();
};

struct Experience {
  /// Number of schedules of this workload on this device that the database has, including those
  /// that could not be timed undisturbed.
  int64_t known = 0;
  std::set<std::string> tried;  ///< db::schedule_key() of the schedules that need no other trial
  std::vector<Tried> parents;   ///< the fastest of these schedules, as points
  /// Latencies of the trials of this workload, oldest first. It begins with a 0 for each trial that
  /// was not read. Trials that prove nothing are left out; a trial that could not be the result
  /// counts as 0.
  std::vector<double> latencies_ns;
  /// Points that were fast for the most similar other workloads, or for this workload on another
  /// device, with other layouts or in another state of the caches. The nearest come first.
  std::vector<schedules::Point> seeds;
  /// Samples for the cost model, those that matter most last: trials of this workload here come
  /// after all others, nearer workloads after farther ones, and the fast trials of a workload after
  /// its slow ones.
  std::vector<cost_model::Sample> samples;
  size_t schedules = 0;  ///< number of schedules that were turned into points or samples
};

/// Reads the experience. Records that cannot be read are left out and noted, so that a damaged
/// database does not end the run.
Experience warm_start(db::Store& store, const Question& question);

/// A trial that another run of the same workload, on a device of the same class, has made.
struct TrialOfOthers {
  /// nullopt if the schedule is no point of the question's space.
  std::optional<schedules::Point> point;
  std::optional<cost_model::Sample> sample;
};
/// Turns a trial of another run into a point and a sample. Requires: the trial proves something.
TrialOfOthers trial_of_others(const Question& question, const db::Record& trial);

/// The number that warm_start() returns as Experience::known. Errors of reading the database.
Result<int64_t> count_known(db::Store& store, const dsl::Workload& workload, const Target& target,
                            int threads);

/// Distance between two workloads of one operator: the sum of |log2((1 + a) / (1 + b))| over the
/// values of their attributes. Infinite for different operators or element types, for expressions,
/// and if `b` lacks an attribute of `a`.
double distance(const dsl::Workload& a, const dsl::Workload& b);

/// Number of the group of trials whose latencies can be compared: trials of one workload with the
/// same layouts, in the same state of the caches, on one device and for one instruction set.
size_t ranking_group(const dsl::Workload& workload, const Target& target);

/// The cost model's sample of a record that was measured on `target`, whose machine description it
/// uses. nullopt if the schedule does not apply to the workload, or if it was never timed
/// undisturbed.
std::optional<cost_model::Sample> sample_of(const dsl::Workload& workload, const db::Record& record,
                                            const Target& target, int threads);

}  // namespace tw::tuner

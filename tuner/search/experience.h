// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads from a database what helps a new run. Trials of the same workload, under the same layouts
// and on the same device, are not tried again, and the best of them are parents of the search.
// Trials of similar workloads, and those under other layouts, on other devices or for other
// instruction sets, train the cost model, and their fastest schedules are tried here. Not
// thread-safe.

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
  Target target;                  ///< with the facts of the device that the run measures on
  int threads = 1;
  /// Hashes of records that a model has learned from: they give no samples, and those that do are
  /// added.
  std::set<std::string>* learned = nullptr;
  StopToken stop = {};  ///< once stopped, the answer has only a part of the knowledge
  /// Most schedules that are turned into points or samples, the fastest first.
  size_t most_schedules = SIZE_MAX;
  /// The host of the run (Environment::host). A schedule that one session of another host alone
  /// proves wrong is tried here again. Empty: schedules that are proven wrong are not tried.
  std::string host = {};
  Notes* notes = nullptr;  ///< gets a note where reading fails; may be null
  /// TaskSpec::most_error: trials with larger errors are no parents and no latencies to be beaten.
  double most_error = std::numeric_limits<double>::infinity();
};

struct Experience {
  /// Number of schedules of this workload on this device that the database has, also of those that
  /// could not be timed undisturbed.
  int64_t known = 0;
  std::set<std::string> tried;  ///< those that need no other trial, by db::schedule_key()
  std::vector<Tried> parents;   ///< the fastest of them, as points
  /// First a 0 for each trial that was not read, then the latencies of the others that prove
  /// something, oldest first; 0: not valid.
  std::vector<double> latencies_ns;
  /// Points that were fast for the nearest other workloads, or for this one on another device,
  /// under other layouts or in another state of the caches, nearest first.
  std::vector<schedules::Point> seeds;
  /// Those that matter most come last: trials of the workload here after others, nearer workloads
  /// after farther ones, and of one workload fast trials after slow ones.
  std::vector<cost_model::Sample> samples;
  size_t schedules = 0;  ///< number of schedules that were turned into points or samples
};

/// Reads the experience. Records that cannot be read are left out and noted, as a damaged database
/// must not end the run.
Experience warm_start(db::Store& store, const Question& question);

/// A trial that another run of the same workload, on a device of the same class, has made.
struct TrialOfOthers {
  std::optional<schedules::Point> point;  ///< in the question's space
  std::optional<cost_model::Sample> sample;
};
/// Requires: the trial proves something.
TrialOfOthers trial_of_others(const Question& question, const db::Record& trial);

/// The number that warm_start() returns as Experience::known. Returns errors of reading the
/// database.
Result<int64_t> count_known(db::Store& store, const dsl::Workload& workload, const Target& target,
                            int threads);

/// Distance between two workloads of an operator: the sum of |log2((1 + a) / (1 + b))| over the
/// values of their attributes. Infinite for different operators or types of elements, for
/// expressions, and if `b` lacks an attribute of `a`.
double distance(const dsl::Workload& a, const dsl::Workload& b);

/// Group of trials whose latencies can be compared: those of one workload under the same layouts
/// in the same state of the caches on one device for one instruction set.
size_t ranking_group(const dsl::Workload& workload, const Target& target);

/// The model's sample of a record, which `target` measured, with its machine; nullopt where its
/// schedule does not apply to the workload, or where it could not be timed undisturbed.
std::optional<cost_model::Sample> sample_of(const dsl::Workload& workload, const db::Record& record,
                                            const Target& target, int threads);

}  // namespace tw::tuner

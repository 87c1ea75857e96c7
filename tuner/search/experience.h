// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads from a database the trials that help a new run. Schedules with trials of the same workload,
// with the same layouts and on the same device, are not tried again, and the fastest of them are
// parents of the search. Two kinds of other trials train the cost model: trials of similar
// workloads, and trials of the same workload with other layouts, on other devices or for other
// instruction sets. Their fastest schedules are among the first to be tried. Not thread-safe.

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
  const schedules::Space* space;  ///< search space of the workload
  Target target;                  ///< target with the facts of the device that measures
  int threads = 1;
  /// Hashes of the records that the cost model has learned from. These records are skipped, and the
  /// hash of each record that becomes a sample is added. If null, no record is skipped.
  std::set<std::string>* learned = nullptr;
  StopToken stop = {};  ///< ends the reading; what was read until then is returned
  /// Most schedules that are turned into points or samples. Faster schedules are used first.
  size_t most_schedules = SIZE_MAX;
  /// The host of the run (Environment::host). A schedule that only one session on another host
  /// found wrong is tried again on this host. If `host` is empty, schedules that were found wrong
  /// are never tried again.
  std::string host = {};
  Notes* notes = nullptr;  ///< gets a note if reading fails; may be null
  /// TaskSpec::most_error: largest error that a kernel may have. Trials with larger errors are no
  /// parents, and count as failed in latencies_ns.
  double most_error = std::numeric_limits<double>::infinity();
};

struct Experience {
  /// Number of schedules of this workload on this device that have trials in the database,
  /// including those whose timings were all disturbed.
  int64_t known = 0;
  std::set<std::string> tried;  ///< db::schedule_key() of the schedules that are not tried again
  std::vector<Tried> parents;   ///< points of the fastest schedules in `tried`
  /// Latencies of the trials of this workload, oldest first; 0 for a trial that could not be the
  /// result of the run. Trials that prove nothing (db::proves_nothing()) are left out. If only a
  /// part of the trials was read, the vector begins with a 0 for each trial that was not.
  std::vector<double> latencies_ns;
  /// Points that were fast elsewhere: for the most similar workloads, or for this workload on
  /// another device, with other layouts or in another state of the caches. Those of the most
  /// similar trials come first.
  std::vector<schedules::Point> seeds;
  /// Samples for the cost model, the most important last. Trials of this workload on this device
  /// come after all others, more similar workloads after less similar ones, and the fast trials of
  /// a workload after its slow ones.
  std::vector<cost_model::Sample> samples;
  size_t schedules = 0;  ///< number of schedules that were turned into points or samples
};

/// Reads the experience. Records that cannot be read are left out, with a note, so that a damaged
/// database does not end the run.
Experience warm_start(db::Store& store, const Question& question);

/// A trial that another run of the same workload, on a device of the same model, has made.
struct TrialOfOthers {
  /// nullopt if the schedule is no point of the question's space.
  std::optional<schedules::Point> point;
  std::optional<cost_model::Sample> sample;
};
/// Turns a trial of another run into a point and a sample. Requires: the trial proves something,
/// that is, !db::proves_nothing().
TrialOfOthers trial_of_others(const Question& question, const db::Record& trial);

/// Returns the number that warm_start() returns as Experience::known, without reading anything
/// else. Fails if the database cannot be read.
Result<int64_t> count_known(db::Store& store, const dsl::Workload& workload, const Target& target,
                            int threads);

/// Returns the distance between two workloads of one operator: the sum of |log2((1 + a) / (1 + b))|
/// over their attributes, where a and b are the values of an attribute. For example, workloads that
/// differ only in a number of channels, which is 64 or 128, have the distance log2(129 / 65) =
/// 0.99. Infinite for different operators or element types, for workloads that are expressions, and
/// if `b` lacks an attribute of `a`.
double distance(const dsl::Workload& a, const dsl::Workload& b);

/// Returns a number that is equal for trials whose latencies the cost model may compare: trials of
/// one workload with the same layouts, in the same state of the caches, on one device and for one
/// instruction set.
size_t ranking_group(const dsl::Workload& workload, const Target& target);

/// Returns the cost model's sample of a record that was measured on `target`. Its features are
/// computed with the target's machine description. Returns nullopt if the schedule does not apply
/// to the workload, or if the trial proves nothing about the schedule, for instance because it was
/// lost. A failed trial gives a sample that is marked as not valid.
std::optional<cost_model::Sample> sample_of(const dsl::Workload& workload, const db::Record& record,
                                            const Target& target, int threads);

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// State that the tasks of a run share: workers, the budget, the database, and one cost model, which
// learns from the trials of all tasks. Private to the run (tune.cpp).

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/stop.h"
#include "db/recorder.h"
#include "tuner/search/learner.h"
#include "tuner/tune.h"
#include "tuner/workers/notes.h"
#include "tuner/workers/workers.h"

namespace tw::tuner {

class Task;

/// The time of a run. A part of it is reserved for the finals of all tasks. A part of that reserve
/// is for the batches that are under way when the search ends.
class Budget {
 public:
  Budget(double total_s, Clock clock);
  void reserve(double finals_s, double drain_s);
  double total_s() const { return total_s_; }
  /// The time on the clock, in ns, at which `seconds` of the search budget are left. Negative
  /// seconds give a time after the end of the search budget.
  int64_t when_left_ns(double seconds) const;
  double drain_s() const { return drain_s_; }
  double finals_s() const { return finals_s_; }
  double elapsed_s() const;
  /// Seconds of the search budget left, excluding the time reserved for the finals.
  double left_s() const { return total_s_ - finals_s_ - elapsed_s(); }
  /// True if the search budget and the time reserved for batches under way at its end have passed.
  bool is_overdue() const { return left_s() + drain_s_ <= 0; }
  /// True if the whole budget has passed, including the time reserved for the finals.
  bool is_over() const { return elapsed_s() >= total_s_; }

 private:
  double total_s_;
  Clock clock_;
  int64_t started_ns_;
  double finals_s_ = 0, drain_s_ = 0;
};

struct TuningRun {
  /// Starts the run with these workers. The store must outlive the run. Environment if the device
  /// does not answer.
  static Result<std::unique_ptr<TuningRun>> start(const TuneOptions& options, db::Store& store,
                                                  const Environment& environment,
                                                  const OnProgress& on_progress, Workers workers);

  bool interrupted() const;
  /// A token that stops when the user interrupts, or when the budget ends the present phase. A wait
  /// for work that the result needs (Needed::ForResult) ends later than this token.
  StopToken stop() const { return any_of(environment.stop(), waits().token(Needed::No)); }
  /// True if the error is that of work which was stopped, and no fault of the work itself.
  bool is_of_stop(const Error& error) const {
    return (error.code == ErrorCode::Interrupted || error.code == ErrorCode::TryLater) &&
           stop().is_stopped();
  }

  /// The phases after the first valid kernel, in order. Each comment says when waits in the phase
  /// end; before the first valid kernel they end 1 s after the budget.
  enum class Phase {
    SearchingWithResult,  ///< at the end of the search budget
    Comparing,            ///< the finals: 1 s after the budget
    BuildingWinner,       ///< 1.6 s after the budget, or `least_s` after it if that is later
  };
  void enter(Phase phase, double least_s = 0) const;
  const Cancellation& waits() const { return *workers.cancellation; }

  /// Reports progress. While the run waits, the same report is repeated with the elapsed time
  /// updated.
  void report(const Progress& progress);
  ~TuningRun();
  /// The error of a task whose budget ended before anything was built.
  Error no_candidate_in_time() const;
  /// Stores a sealed record, at once or with the next batch. If the database cannot be written, the
  /// run keeps its records in memory, and `unstored` has the reason.
  void store_record(const db::Record& record);
  /// Stores the records that are in memory, and sets or clears `unstored`.
  void store_all();
  /// Notes the records that the database has quarantined since the last call.
  void tell_refused();
  /// The share by which another `seconds` of search are expected to shorten the weighted sum of the
  /// latencies of all tasks that have begun.
  double expected_gain(double seconds) const;
  /// As tuner::best_known(); nullopt while the database is on a server that cannot be reached.
  Result<std::optional<db::Record>> best_known(const TaskSpec& task) const;

  /// The fastest record of another host for this device that still has to be confirmed here
  /// (db::Doubt); nullopt if there is none.
  Result<std::optional<db::Record>> unconfirmed(const dsl::Workload& workload) const;

  Target target;  ///< target of the measuring machine, with its machine description
  TuneOptions options;
  db::Store* store;
  Environment environment;
  OnProgress on_progress;
  Workers workers;
  db::Recorder recorder;
  Budget budget;
  Learner learner = {};
  std::vector<const Task*> begun = {};  ///< tasks that have begun
  std::string machine_note = {};        ///< HostMachine::note
  std::optional<Error> unstored = {};   ///< reason why the latest records are in memory only
  int64_t refused = 0;                  ///< quarantined records that a note has reported
  size_t tasks = 1, finished = 0;       ///< number of tasks, and of those whose finals are over
  Progress shown = {};                  ///< the latest report
};

}  // namespace tw::tuner

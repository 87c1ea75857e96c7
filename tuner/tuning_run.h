// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state that the tasks of a run share: workers, the budget, the database, and one cost model,
// which learns from the trials of all tasks. Private to the run (tune.cpp).

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

/// The time of a run. It is divided into the search budget and a reserve. The reserve is for the
/// finals, in which the fastest kernels of each task are compared, and for the batches that are
/// under way when the search budget ends.
class Budget {
 public:
  Budget(double total_s, Clock clock);
  /// Sets the length of the reserve to finals_s. Its first drain_s seconds are for batches under
  /// way.
  void reserve(double finals_s, double drain_s);
  double total_s() const { return total_s_; }
  /// Returns the time on the clock, in ns, at which `seconds` of the search budget are left. If
  /// `seconds` is negative, this time lies after the end of the search budget.
  int64_t when_left_ns(double seconds) const;
  double drain_s() const { return drain_s_; }
  double finals_s() const { return finals_s_; }
  double elapsed_s() const;
  /// Seconds of the search budget that are left; negative after its end.
  double left_s() const { return total_s_ - finals_s_ - elapsed_s(); }
  /// True if the search budget and the time for batches under way are both used.
  bool is_overdue() const { return left_s() + drain_s_ <= 0; }
  /// True if the whole time of the run has passed, including the reserve.
  bool is_over() const { return elapsed_s() >= total_s_; }

 private:
  double total_s_;
  Clock clock_;
  int64_t started_ns_;
  double finals_s_ = 0, drain_s_ = 0;
};

struct TuningRun {
  /// Starts a run with these workers, and calibrates the machine if that is needed. The store must
  /// outlive the run. Fails with Environment if the device does not answer.
  static Result<std::unique_ptr<TuningRun>> start(const TuneOptions& options, db::Store& store,
                                                  const Environment& environment,
                                                  const OnProgress& on_progress, Workers workers);

  bool interrupted() const;
  /// Returns a token that stops when the user interrupts the run, or when the time of the present
  /// phase ends (enter()). Work that the result needs (Needed::ForResult) goes on for a while after
  /// an interrupt.
  StopToken stop() const { return any_of(environment.stop(), waits().token(Needed::No)); }
  /// True if the error comes from stopping the work, and not from a fault of the work.
  bool is_of_stop(const Error& error) const {
    return (error.code == ErrorCode::Interrupted || error.code == ErrorCode::TryLater) &&
           stop().is_stopped();
  }

  /// The phases of a run after its first valid kernel, in order. The comment of each phase says
  /// until when the run waits for its workers in that phase. Before the first valid kernel, it
  /// waits until 1 s after the budget.
  enum class Phase {
    /// Until the end of the search budget and of the time for batches under way.
    SearchingWithResult,
    Comparing,  ///< comparing the fastest kernels: until 1 s after the budget
    /// Until 1.6 s after the budget, or until `least_s` after it if that is later.
    BuildingWinner,
  };
  void enter(Phase phase, double least_s = 0) const;
  const Cancellation& waits() const { return *workers.cancellation; }

  /// Reports progress to the caller. As long as the run waits for workers, the report is repeated
  /// with a new elapsed time.
  void report(const Progress& progress);
  ~TuningRun();
  /// Returns the error for a task if the budget ended before any of its candidates was built.
  Error no_candidate_in_time() const;
  /// Stores a sealed record, at once or together with later records. If records can be stored
  /// neither in the database nor in its spool, they stay in memory, and `unstored` is set to the
  /// error.
  void store_record(const db::Record& record);
  /// Stores the records that are still in memory. Sets `unstored` to the error if this fails, or to
  /// nullopt if it succeeds.
  void store_all();
  /// Adds a note for each record that the database has quarantined since the previous call. Such a
  /// record is kept aside, because its latency is impossible.
  void tell_refused();
  /// Returns the share, from 0 to 1, by which another `seconds` of search are expected to shorten
  /// the weighted sum of the latencies of all tasks that have begun.
  double expected_gain(double seconds) const;
  /// As tuner::best_known(), but returns nullopt if the database is on a server that cannot be
  /// reached.
  Result<std::optional<db::Record>> best_known(const TaskSpec& task) const;

  /// Returns the fastest record of another host for this device that no second host has confirmed
  /// yet (db::Doubt::Unconfirmed). Returns nullopt if there is none, or if the database server
  /// cannot be reached.
  Result<std::optional<db::Record>> unconfirmed(const dsl::Workload& workload) const;

  Target target;  ///< target of the measuring machine, with its machine description
  TuneOptions options;
  int batch = usual_batch_size;  ///< candidates of one round
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
  /// Number of quarantined records for which a note was added.
  int64_t refused = 0;
  size_t tasks = 1, finished = 0;  ///< number of tasks, and number of tasks that have ended
  Progress shown = {};             ///< the latest report
};

}  // namespace tw::tuner

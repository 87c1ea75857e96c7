// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which of the tasks of a run gets the next batch, and when each has ended. Private to
// tune.cpp; not thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tuner/task.h"

namespace tw::tuner {

class TaskScheduler {
 public:
  /// The specs and the run must outlive it.
  static Result<TaskScheduler> open(const std::vector<TaskSpec>& specs, TuningRun& run);

  /// The task that gets the next batch: first the reference and two batches of each task, tasks
  /// with the fewest batches first and among these those without a kernel in the database; then the
  /// task that saves most. Null when the budget is spent or all tasks have ended.
  Task* next();
  /// Says that the task has nothing more to propose.
  void exhaust(const Task& task);
  /// Hands the batch to the builder; false where nobody wants it any more, or it cannot be.
  bool begin_build(const Batch& batch);
  /// Does some work of the task, unless it has failed before. An error ends the task.
  void attempt(const Task& task, const std::function<Status()>& work);
  /// Charges the time since the last charge to the tasks of these batches, by their numbers of
  /// candidates. The part of a reference, which counts as one, is charged to nobody.
  void charge(const std::vector<Share>& shares);
  /// The finals of all tasks, in the order of the specs.
  std::vector<Result<Tuned>> finish();
  /// True if the task of this spec was not begun because the run ended before its turn, as when the
  /// budget was spent; false if an interrupt ended the run.
  bool never_began(size_t spec) const;

 private:
  /// A spec and how far its task is.
  struct Entry {
    const TaskSpec* spec;
    bool is_known = false;            ///< the database has a kernel for it
    std::unique_ptr<Task> task = {};  ///< null before its turn
    std::optional<Ended> ended = {};
    std::optional<Error> failure = {};
  };
  explicit TaskScheduler(TuningRun& run);
  Entry& entry_of(const Task& task);
  void note_failure(Entry& entry, const Error& error);
  bool none_began() const;
  bool is_open(Entry& entry);
  bool is_wanted(const Entry& entry) const;
  std::optional<size_t> choose();
  double share_of_first_batch();
  Result<Tuned> finish(Entry& entry, double seconds);

  TuningRun* run_;
  std::vector<Entry> entries_;
  double charged_until_s_ = 0;
};

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which task of a run gets the next batch, and when each task has ended. Private to
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
  /// Makes a scheduler with a task for each spec. A task is opened at its first turn. The specs and
  /// the run must outlive the scheduler.
  static Result<TaskScheduler> open(const std::vector<TaskSpec>& specs, TuningRun& run);

  /// Returns the task that gets the next batch; null if the budget is used or all tasks have ended.
  /// At first the tasks take turns until each has its reference kernel and two batches. Among tasks
  /// with equally many batches, those without a kernel in the database have the first turns. After
  /// that, next() returns the task that is expected to save the most time.
  Task* next();
  /// Ends the task, because its search proposes nothing more.
  void exhaust(const Task& task);
  /// Hands the batch to the builder. Returns false if the task of the batch has ended meanwhile, or
  /// if the build could not be started.
  bool begin_build(const Batch& batch);
  /// Calls `work`, unless the task has failed before. An error of `work` becomes the failure of the
  /// task.
  void attempt(const Task& task, const std::function<Status()>& work);
  /// Charges the time since the last charge() to the tasks of these batches, in proportion to their
  /// numbers of candidates. A reference kernel counts as one candidate, but no task is charged for
  /// its part of the time.
  void charge(const std::vector<Share>& shares);
  /// Ends all tasks (Task::finish()), and returns their results in the order of the specs.
  std::vector<Result<Tuned>> finish();
  /// True if the task of this spec was never opened because the run ended before its turn, for
  /// instance when the budget was used. False if an interrupt ended the run, or if the task could
  /// not be opened.
  bool never_began(size_t spec) const;

 private:
  /// A spec and the state of its task.
  struct Entry {
    const TaskSpec* spec;
    bool is_known = false;            ///< true if the database has a kernel for the task
    std::unique_ptr<Task> task = {};  ///< null until its first turn
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

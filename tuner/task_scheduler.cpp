// SPDX-License-Identifier: Apache-2.0
#include "tuner/task_scheduler.h"

#include <algorithm>
#include <utility>

namespace tw::tuner {
namespace {

// Number of batches that every task gets before any task gets more. The first batch shows which
// latency the task reaches, and the second how much the latency falls.
constexpr int64_t first_batches = 2;
// Seconds over which the expected gains of tasks are compared: about the time of one batch.
constexpr double slice_s = 0.5;
// Limits of the seconds that are reserved for the finals of each task, in which its fastest kernels
// are compared. Finals take 2.5 s for slow kernels and at least half a second for fast ones, and
// should take at most a fourth of the time.
constexpr double most_finals_s = 2.5, least_finals_s = 0.6;
// Limit of the seconds that are reserved for the batches under way when the search ends.
constexpr double most_drain_s = 0.5;

double finals_of_each(double share_s) {
  return std::min(std::max(0.1 * share_s, std::min(least_finals_s, 0.25 * share_s)), most_finals_s);
}

}  // namespace

TaskScheduler::TaskScheduler(TuningRun& run)
    : run_(&run), charged_until_s_(run.budget.elapsed_s()) {}

Result<TaskScheduler> TaskScheduler::open(const std::vector<TaskSpec>& specs, TuningRun& run) {
  TaskScheduler scheduler(run);
  for (const TaskSpec& spec : specs) {
    TW_TRY(const auto known, run.best_known(spec));
    scheduler.entries_.push_back({&spec, known.has_value()});
  }
  const auto count = static_cast<double>(specs.size());
  const double budget_s = run.options.budget_s;
  const double drain_s = std::min(most_drain_s, 0.05 * budget_s);
  run.budget.reserve(count * finals_of_each(budget_s / count) + drain_s, drain_s);
  run.tasks = specs.size();
  return scheduler;
}

TaskScheduler::Entry& TaskScheduler::entry_of(const Task& task) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.task.get() == &task; });
  TW_CHECK(found != entries_.end());
  return *found;
}

bool TaskScheduler::none_began() const {
  return std::none_of(entries_.begin(), entries_.end(),
                      [](const Entry& entry) { return entry.task || entry.failure; });
}

/// True if more candidates of the task may be proposed. Updates `entry.ended`. A task that was
/// opened gets its first batch even if its preparation took the whole budget. A task that ended
/// because it gained too little is opened again if batches that were under way raise its expected
/// gain.
bool TaskScheduler::is_open(Entry& entry) {
  if (entry.failure || (entry.ended && entry.ended != Ended::Plateau)) return false;
  if (!entry.task)
    return !run_->interrupted() && !run_->unstored && (none_began() || run_->budget.left_s() > 0);
  entry.ended = entry.task->ended();
  if (entry.ended == Ended::Budget && entry.task->batches().turns() == 0) entry.ended.reset();
  return !entry.ended;
}

std::optional<size_t> TaskScheduler::choose() {
  std::vector<size_t> open;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (is_open(entry) && !(entry.task && entry.task->waits_for_trials())) open.push_back(i);
  }
  const auto turns = [&](size_t i) {
    return entries_[i].task ? entries_[i].task->batches().turns() : 0;
  };
  const auto fewest = std::min_element(open.begin(), open.end(), [&](size_t a, size_t b) {
    return std::pair(turns(a), entries_[a].is_known) < std::pair(turns(b), entries_[b].is_known);
  });
  if (fewest == open.end()) return std::nullopt;
  if (turns(*fewest) < first_batches) return *fewest;
  std::vector<SharedSearch> searches;
  for (const size_t i : open)
    searches.push_back(entries_[i].task->state(entries_[i].task->batches().under_way));
  const auto best = most_promising(searches, slice_s);
  return best ? open[*best] : *fewest;
}

/// Returns the remaining time divided by the number of tasks that have had no batch yet, in
/// seconds, so that every task gets a batch.
double TaskScheduler::share_of_first_batch() {
  const auto waits = [&](Entry& entry) {
    return is_open(entry) && (!entry.task || entry.task->batches().proposed == 0);
  };
  const auto waiting = static_cast<double>(std::ranges::count_if(entries_, waits));
  return run_->budget.left_s() / std::max(waiting, 1.0);
}

Task* TaskScheduler::next() {
  while (const auto chosen = choose()) {
    Entry& entry = entries_[*chosen];
    if (!entry.task) {
      auto task = Task::open(*entry.spec, *run_);
      if (!task) {
        note_failure(entry, task.error());
        continue;
      }
      entry.task = std::move(*task);
      run_->begun.push_back(entry.task.get());
    }
    if (entry.task->batches().proposed == 0) entry.task->limit_first_batch(share_of_first_batch());
    return entry.task.get();
  }
  return nullptr;
}

void TaskScheduler::exhaust(const Task& task) {
  const auto reason = run_->stop().reason();
  entry_of(task).ended = !reason                              ? Ended::Trials
                         : *reason == StopReason::Interrupted ? Ended::Interrupted
                                                              : Ended::Budget;
}

bool TaskScheduler::is_wanted(const Entry& entry) const {
  if (entry.failure || run_->interrupted() || run_->unstored) return false;
  return entry.task->batches().proposed <= 1 || run_->budget.left_s() > 0;
}

bool TaskScheduler::begin_build(const Batch& batch) {
  Entry& entry = entry_of(*batch.task);
  if (!is_wanted(entry)) return false;
  bool has_begun = false;
  attempt(*batch.task, [&]() -> Status {
    TW_RETURN_IF_ERROR(batch.task->begin_build(batch));
    has_begun = true;
    return {};
  });
  return has_begun;
}

/// Notes a failure of the task. An error that comes from an interrupt or from the end of the budget
/// is not a failure: the task then ends with its results so far.
void TaskScheduler::note_failure(Entry& entry, const Error& error) {
  if (run_->interrupted()) return;
  if (!run_->is_of_stop(error))
    entry.failure = error;
  else if (!entry.task)
    entry.failure = run_->no_candidate_in_time();
}

void TaskScheduler::attempt(const Task& task, const std::function<Status()>& work) {
  Entry& entry = entry_of(task);
  if (entry.failure) return;
  const Status status = work();
  if (!status) note_failure(entry, status.error());
}

void TaskScheduler::charge(const std::vector<Share>& shares) {
  if (shares.empty()) return;
  const double now_s = run_->budget.elapsed_s();
  const double taken_s = now_s - std::exchange(charged_until_s_, now_s);
  double count = 0;
  for (const Share& share : shares)
    count += static_cast<double>(std::max<size_t>(share.candidates, 1));
  for (const Share& share : shares)
    if (share.candidates > 0)
      share.task->charge(taken_s * static_cast<double>(share.candidates) / count);
}

Result<Tuned> TaskScheduler::finish(Entry& entry, double seconds) {
  if (entry.failure) {
    run_->store_all();
    return tl::unexpected<Error>(*entry.failure);
  }
  if (entry.task) {
    const auto ended = entry.ended ? entry.ended : entry.task->ended();
    return entry.task->finish(ended.value_or(Ended::Budget), seconds);
  }
  return run_->interrupted()
             ? interrupted_at_start()
             : fail(ErrorCode::NoCandidate,
                    "[tune] the budget ended before its turn: give more time (--budget)");
}

bool TaskScheduler::never_began(size_t spec) const {
  const Entry& entry = entries_[spec];
  return !entry.task && !entry.failure && !run_->interrupted();
}

std::vector<Result<Tuned>> TaskScheduler::finish() {
  std::vector<Result<Tuned>> results;
  for (Entry& entry : entries_) {
    const double left_s = run_->options.budget_s - run_->budget.elapsed_s();
    results.push_back(
        finish(entry, left_s / static_cast<double>(entries_.size() - run_->finished)));
    ++run_->finished;
  }
  return results;
}

}  // namespace tw::tuner

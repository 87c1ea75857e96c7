// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/isa.h"
#include "codegen/backend.h"
#include "tuner/build_queue.h"
#include "tuner/task_scheduler.h"
#include "tuner/tuned.h"
#include "tuner/tuning_run.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {

namespace {

// Largest number of batches in the BuildQueue. If a single task had more batches there, some would
// be proposed without the measurements that are made meanwhile. With several tasks there are more
// batches, so that a task's first batch can directly follow the batch with its reference kernel.
constexpr size_t batches_of_one_task = 2, batches_of_many_tasks = 4;

/// True if candidates can be built while others are measured, without disturbing these
/// measurements.
bool builds_beside_measuring(const Target& target, int threads) {
  return target.is_gpu() ? codegen::backend_of(target).leaves_processor_idle
                         : threads < target.machine.cores;
}

/// Runs the loop: propose -> predict -> choose -> build -> verify -> measure -> record -> learn ->
/// stop? The queue overlaps building with the other steps, and the scheduler chooses the task of
/// each batch.
void search(TaskScheduler& scheduler, BuildQueue& queue) {
  for (;;) {
    while (queue.has_room()) {
      Task* const task = scheduler.next();  // stop?
      if (task == nullptr) break;
      if (task->needs_reference()) {
        queue.push(task->reference_batch());
        continue;
      }
      const auto predict = [&](const auto& points) { return task->predict(points); };
      Batch batch = task->choose(task->propose(predict));
      if (!batch.candidates.empty())
        queue.push(std::move(batch));
      else if (!batch.was_refused)
        scheduler.exhaust(*task);
      else if (!queue.is_empty())
        break;  // first the batches in the queue are measured
      else
        task->learn();
    }
    if (queue.is_empty()) return;

    const Batch built = queue.pop();
    scheduler.charge(queue.waited_for());
    Task& task = *built.task;
    scheduler.attempt(task, [&]() -> Status {
      if (built.is_reference()) return task.prepare(built);
      TW_RETURN_IF_ERROR(task.begin_measuring(built));
      while (const Trial* trial = task.next_trial()) {
        TW_TRY(const MeasureReply reply, task.measure(*trial));  // verifies it first
        TW_RETURN_IF_ERROR(task.record(reply));
      }
      return {};
    });
    task.learn();
    scheduler.charge({share_of(built)});
    queue.resume();
  }
}

using Results = std::vector<Result<Tuned>>;

Results all_from_database(const std::vector<TaskSpec>& tasks, const Target& target,
                          const TuneOptions& options, db::Store& store,
                          const Environment& environment) {
  Results known;
  for (const TaskSpec& task : tasks)
    known.push_back(from_database(task, target, options, store, environment));
  return known;
}

Status check_option(bool is_right, std::string_view name, double value, std::string_view expected) {
  if (is_right) return {};
  return fail(ErrorCode::Usage,
              fmt::format("[tune] {} is {}; {} was expected", name, value, expected));
}

}  // namespace

Status check_for_gpu(const Target& target, int64_t threads, const dsl::Workload& workload) {
  if (!target.is_gpu()) return {};
  const std::string gpu = target.to_string();
  if (threads != 1)
    return fail(ErrorCode::Usage,
                fmt::format("[target] --threads {}: only processors have several threads, and {} "
                            "is a GPU: leave it out",
                            threads, gpu));
  if (workload.state != dsl::CacheState::Hot)
    return fail(ErrorCode::Usage,
                fmt::format("[target] {}: kernels of {} are only timed hot; leave the state of the "
                            "caches out",
                            workload.text(), gpu));
  return {};
}

Status check(const TuneOptions& options) {
  TW_RETURN_IF_ERROR(check_option(std::isfinite(options.budget_s) && options.budget_s >= 0,
                                  "budget", options.budget_s, "a number of seconds from 0 on"));
  TW_RETURN_IF_ERROR(check_option(options.trials >= 0, "trials",
                                  static_cast<double>(options.trials), "a whole number from 0 on"));
  TW_RETURN_IF_ERROR(check_option(std::isfinite(options.timeout_s) && options.timeout_s > 0,
                                  "timeout", options.timeout_s, "a positive number of seconds"));
  return check_option(options.threads >= 1 && options.threads <= most_kernel_threads, "threads",
                      options.threads,
                      fmt::format("a whole number from 1 to {}", most_kernel_threads));
}

Result<Results> tune_all(const std::vector<TaskSpec>& tasks, const Target& target,
                         const TuneOptions& options, db::Store& store,
                         const Environment& environment, const OnProgress& on_progress,
                         Workers workers) {
  TW_TRY(const std::unique_ptr<TuningRun> run,
         TuningRun::start(options, store, environment, on_progress, std::move(workers)));
  TW_TRY(TaskScheduler scheduler, TaskScheduler::open(tasks, *run));
  BuildQueue queue(*run->workers.builder, builds_beside_measuring(target, options.threads),
                   tasks.size() == 1 ? batches_of_one_task : batches_of_many_tasks,
                   [&](const Batch& batch) { return scheduler.begin_build(batch); });
  search(scheduler, queue);
  Results results = scheduler.finish();
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!scheduler.never_began(i)) continue;
    auto known = from_database(tasks[i], target, options, store, environment);
    if (known) results[i] = std::move(known);
  }
  return results;
}

Result<Results> tune_all(const std::vector<TaskSpec>& tasks, const Target& target,
                         const TuneOptions& options, db::Store& store,
                         const Environment& environment, const OnProgress& on_progress) {
  TW_RETURN_IF_ERROR(check(options));
  for (const TaskSpec& task : tasks)
    TW_RETURN_IF_ERROR(check_for_gpu(target, options.threads, task.workload));
  if (options.effort == Effort::None)
    return all_from_database(tasks, target, options, store, environment);
  TW_RETURN_IF_ERROR(check_max_isa());
  TW_TRY(Workers workers, start_workers(target, options.threads, environment, options.timeout_s));
  return tune_all(tasks, target, options, store, environment, on_progress, std::move(workers));
}

Result<Tuned> tune(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
                   db::Store& store, const Environment& environment,
                   const OnProgress& on_progress) {
  TW_TRY(Results results, tune_all({{workload}}, target, options, store, environment, on_progress));
  return std::move(results[0]);
}

}  // namespace tw::tuner

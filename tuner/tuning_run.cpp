// SPDX-License-Identifier: Apache-2.0
#include "tuner/tuning_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "db/answers.h"
#include "tuner/host_machine.h"
#include "tuner/measure/calibration.h"
#include "tuner/task.h"
#include "tuner/tuned.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

/// Turns the error TryLater, which means that the database server cannot be reached, into an empty
/// result. The run then goes on without the records of the server, and its own records wait in the
/// spool.
template <typename T>
Result<std::optional<T>> unless_away(Result<std::optional<T>> known) {
  if (!known && known.error().code == ErrorCode::TryLater) return std::optional<T>();
  return known;
}

// Seconds by which a run may exceed its budget: the first to get its first kernel or to compare
// kernels, the second to build and verify the winner.
constexpr double first_kernel_grace_s = 1, winner_grace_s = 1.6;
// Seconds between two reports of progress during a wait.
constexpr double between_reports_s = 0.5;

}  // namespace

Budget::Budget(double total_s, Clock clock)
    : total_s_(total_s), clock_(std::move(clock)), started_ns_(clock_()) {}

void Budget::reserve(double finals_s, double drain_s) {
  finals_s_ = finals_s;
  drain_s_ = drain_s;
}

int64_t Budget::when_left_ns(double seconds) const {
  return started_ns_ + static_cast<int64_t>((total_s_ - finals_s_ - seconds) * 1e9);
}

double Budget::elapsed_s() const { return static_cast<double>(clock_() - started_ns_) * 1e-9; }

Result<std::unique_ptr<TuningRun>> TuningRun::start(const TuneOptions& options, db::Store& store,
                                                    const Environment& environment,
                                                    const OnProgress& on_progress,
                                                    Workers workers) {
  Budget budget(options.budget_s, environment.clock);
  if (!workers.cancellation)
    workers.cancellation.emplace(environment.interrupts, environment.clock);
  workers.cancellation->end_at(budget.when_left_ns(-first_kernel_grace_s));
  TW_TRY(const Target target, workers.runner->machine());
  const int batch = options.batch.value_or(batch_size_for(target));
  const double calibration_s =
      std::min(static_cast<double>(calibration_budget_ns) * 1e-9, options.budget_s / 2);
  HostMachine host =
      choose_machine(store, target, [&] { return workers.runner->calibrate(calibration_s); },
                     {environment.program_version, environment.now_ms()});
  db::Recorder recorder(store, db::Spool(store.spool_path()),
                        {.batch = static_cast<size_t>(batch),
                         .on_message = [notes = environment.notes](std::string_view text) {
                           note(notes, NoteKind::RecordsSpooled, text);
                         }});
  std::unique_ptr<TuningRun> run(new TuningRun{.target = std::move(host.target),
                                               .options = options,
                                               .batch = batch,
                                               .store = &store,
                                               .environment = environment,
                                               .on_progress = on_progress,
                                               .workers = std::move(workers),
                                               .recorder = std::move(recorder),
                                               .budget = std::move(budget),
                                               .machine_note = std::move(host.note)});
  run->waits().tell_while_waiting([run = run.get()] {
    if (run->shown.budget_s > 0 &&
        run->budget.elapsed_s() >= run->shown.elapsed_s + between_reports_s)
      run->report(run->shown);
  });
  return run;
}

TuningRun::~TuningRun() {
  if (!workers.cancellation) return;
  waits().end_at(Cancellation::never);
  waits().tell_while_waiting({});
}

void TuningRun::enter(Phase phase, double least_s) const {
  const auto end_after_budget = [this](double seconds) {
    waits().end_at(budget.when_left_ns(-budget.finals_s() - seconds));
  };
  switch (phase) {
    case Phase::Comparing:
      return end_after_budget(first_kernel_grace_s);
    case Phase::SearchingWithResult:
      return waits().end_at(budget.when_left_ns(-budget.drain_s()));
    case Phase::BuildingWinner:
      return end_after_budget(std::max(winner_grace_s, least_s));
  }
}

void TuningRun::report(const Progress& progress) {
  shown = progress;
  shown.elapsed_s = budget.elapsed_s();
  if (on_progress) on_progress(shown);
}

bool TuningRun::interrupted() const { return environment.interrupted(); }

Error TuningRun::no_candidate_in_time() const {
  // The budget of a round of a network is a part of the whole budget, and not a round number.
  const double budget_s = options.budget_s;
  return {ErrorCode::NoCandidate,
          fmt::format(
              "[tune] no candidate was built within the budget of {} s; give more time "
              "(--budget)",
              budget_s < 1000 ? fmt::format("{:.3g}", budget_s) : fmt::format("{:.0f}", budget_s))};
}

void TuningRun::store_record(const db::Record& record) {
  if (const Status status = recorder.add(record); !status) unstored = status.error();
  tell_refused();
}

void TuningRun::store_all() {
  const Status status = recorder.flush();
  unstored = status ? std::optional<Error>() : status.error();
  tell_refused();
}

void TuningRun::tell_refused() {
  for (; refused < recorder.stored().quarantined; ++refused)
    note(environment.notes, NoteKind::RecordRefused, "a trial exceeds what the machine can reach");
}

double TuningRun::expected_gain(double seconds) const {
  std::vector<SharedSearch> searches;
  for (const Task* task : begun) searches.push_back(task->state());
  return expected_improvement(std::move(searches), seconds);
}

Result<std::optional<db::Record>> TuningRun::best_known(const TaskSpec& task) const {
  return unless_away(
      tuner::best_known(*store, task.workload, target, options.threads, task.most_error));
}

Result<std::optional<db::Record>> TuningRun::unconfirmed(const dsl::Workload& workload) const {
  TW_TRY(const std::optional<db::Explanation> known,
         unless_away(db::explain(*store, database_key(workload, target, options.threads))));
  if (!known || known->likeness != db::Likeness::Exact || !known->layer.empty())
    return std::optional<db::Record>();
  for (const db::Doubted& other : known->not_used)
    if (other.doubt == db::Doubt::Unconfirmed && other.record.host != environment.host)
      return std::optional(other.record);
  return std::optional<db::Record>();
}

}  // namespace tw::tuner

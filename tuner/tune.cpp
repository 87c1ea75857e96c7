// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "codegen/abi.h"
#include "schedules/schedule.h"
#include "tuner/device.h"
#include "tuner/farm.h"
#include "tuner/session.h"
#include "tuner/trial_record.h"

namespace tw::tuner {

// Propose -> predict -> choose -> build -> verify -> measure -> record -> learn -> stop?
//
// Builders work on one batch while the runner measures the batch before and the next one is thought
// out: with one core for the kernel and one for a builder nothing waits. A kernel that uses every
// core is measured alone.
Result<Tuned> tune(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
                   db::Store& store, const Environment& environment,
                   const OnProgress& on_progress) {
  if (options.effort == Effort::None) {
    TW_TRY(const auto known, best_known(store, workload, target, options.threads));
    if (!known)
      return fail(ErrorCode::NoCandidate,
                  fmt::format("[tune] the database has no kernel of '{}' for this "
                              "target and {} threads: tune without --effort none",
                              workload.key(), options.threads));
    TW_TRY(runtime::Artifact artifact,
           build_schedule(workload, known->schedule, target, options.threads, false, environment));
    Tuned tuned{*known, std::move(artifact), {}, Ended::FromDatabase, 0, {}};
    tuned.progress.best_ns = known->latency_ns;
    tuned.progress.flops = known->flops;
    tuned.progress.peak_gflops = known->peak_gflops;
    return tuned;
  }
  const bool overlaps = options.threads < target.cores;
  TW_TRY(Session session,
         Session::open(workload, target, options, store, environment, on_progress));
  TW_RETURN_IF_ERROR(session.prepare());

  std::vector<Candidate> building, proposed = session.propose();
  // The first batch is measured even where preparing took the whole budget.
  std::optional<Ended> ended;
  const auto build_proposed = [&]() -> Status {
    if (ended || proposed.empty()) return {};
    building = std::exchange(proposed, {});
    return session.begin_build(building);
  };
  TW_RETURN_IF_ERROR(build_proposed());
  ended = session.ended();
  if (!ended) proposed = session.propose();
  while (!building.empty()) {
    const std::vector<BuildOutcome> built = session.finish_build();
    const std::vector<Candidate> batch = std::exchange(building, {});
    if (overlaps) TW_RETURN_IF_ERROR(build_proposed());
    TW_RETURN_IF_ERROR(session.measure(batch, built));
    session.learn();
    if (!ended) ended = session.ended();
    if (building.empty()) TW_RETURN_IF_ERROR(build_proposed());
    if (!ended) proposed = session.propose();
    if (building.empty()) TW_RETURN_IF_ERROR(build_proposed());
  }
  return session.finish(ended.value_or(Ended::Trials));
}

double least_gain(Effort effort) {
  switch (effort) {
    case Effort::Quick:
      return 0.01;
    case Effort::Normal:
      return 0.001;
    case Effort::None:
    case Effort::Full:
      return 0;
  }
  return 0;
}

std::string_view to_string(Ended ended) {
  constexpr std::array<std::string_view, 5> texts = {"from the database", "budget used",
                                                     "trials done", "plateau", "interrupted"};
  return texts[static_cast<size_t>(ended)];
}

Result<std::optional<db::Record>> best_known(db::Store& store, const dsl::Workload& workload,
                                             const Target& target, int threads) {
  db::Key key;
  key.workload = workload.key();
  key.target = target.to_string();
  key.device = device_text(target);
  key.threads = threads;
  key.codegen_abi = codegen::codegen_abi;
  return store.best(key);
}

namespace {

/// A farm with the schedule built, and prepared to run it when `verify` is asked for.
struct Built {
  Farm farm;
  std::string path;
};

Result<Built> build_in_farm(const dsl::Workload& workload, std::string_view schedule,
                            const Target& target, int threads, bool verify,
                            const Environment& environment) {
  TW_TRY(Farm farm, Farm::start(workload, target, threads, 1, environment, 60));
  TW_RETURN_IF_ERROR(farm.begin_build({std::string(schedule)}, true));
  const auto outcomes = farm.finish_build();
  if (outcomes[0].path.empty())
    return fail(outcomes[0].status == "illegal" ? ErrorCode::Invalid : ErrorCode::Environment,
                fmt::format("[compile] {}: {}", outcomes[0].status, outcomes[0].reason));
  if (verify) TW_RETURN_IF_ERROR(farm.prepare(schedules::Schedule(workload.compute).to_string()));
  return Built{std::move(farm), outcomes[0].path};
}

}  // namespace

Result<runtime::Artifact> build_schedule(const dsl::Workload& workload, std::string_view schedule,
                                         const Target& target, int threads, bool verify,
                                         const Environment& environment) {
  TW_TRY(Built built, build_in_farm(workload, schedule, target, threads, verify, environment));
  if (verify) {
    TW_TRY(const MeasureReply reply, built.farm.measure({built.path, 0, true}));
    if (reply.status != "ok")
      return fail(ErrorCode::Invalid, fmt::format("[verify] {}: {}", reply.status, reply.reason));
  }
  return runtime::read_artifact(built.path, runtime::Trust::Own, target);
}

Result<db::Record> measure_schedule(const dsl::Workload& workload, std::string_view schedule,
                                    const Target& target, int threads,
                                    const Environment& environment) {
  TW_TRY(Built built, build_in_farm(workload, schedule, target, threads, true, environment));
  TW_TRY(const MeasureReply reply, built.farm.measure({built.path, 0, false}));
  if (reply.status != "ok")
    return fail(ErrorCode::Invalid, fmt::format("[replay] {}: {}", reply.status, reply.reason));
  TW_TRY(const double peak, built.farm.peak_gflops());
  db::Record record = trial_record(workload, target, threads, schedule, reply, peak);
  record.created_ms = environment.now_ms();
  return db::seal(std::move(record));
}

}  // namespace tw::tuner

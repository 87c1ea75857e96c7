// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "codegen/abi.h"
#include "schedules/schedule.h"
#include "tuner/device.h"
#include "tuner/experience.h"
#include "tuner/farm.h"
#include "tuner/reference.h"
#include "tuner/suite.h"
#include "tuner/trial_record.h"

namespace tw::tuner {

namespace {

Result<Tuned> from_database(const dsl::Workload& workload, const Target& target, int threads,
                            db::Store& store, const Environment& environment) {
  TW_TRY(const auto known, best_known(store, workload, target, threads));
  if (!known)
    return fail(ErrorCode::NoCandidate,
                fmt::format("[tune] the database has no kernel of '{}' for this "
                            "target and {} thread{}: tune without --effort none",
                            workload.key(), threads, threads == 1 ? "" : "s"));
  Tuned tuned;
  TW_TRY(tuned.artifact,
         build_schedule(workload, known->schedule, target, threads, false, environment));
  tuned.best = *known;
  tuned.ended = Ended::FromDatabase;
  TW_TRY(tuned.progress.known_trials, count_known(store, workload, target, threads));
  tuned.progress.best_ns = known->latency_ns;
  tuned.progress.flops = known->flops;
  tuned.progress.bytes = dsl::compulsory_traffic(workload.compute).bytes();
  tuned.progress.peak_gflops = known->peak_gflops;
  return tuned;
}

}  // namespace

// Which workload? -> propose -> predict -> choose -> build -> verify -> measure -> record -> learn
//
// Builders work on one batch while the runner measures the batch before and the next one is thought
// out: with one core for the kernel and one for a builder nothing waits. A kernel that uses every
// core is measured alone.
Result<std::vector<Result<Tuned>>> tune_all(const std::vector<Goal>& goals, const Target& target,
                                            const TuneOptions& options, db::Store& store,
                                            const Environment& environment,
                                            const OnProgress& on_progress) {
  if (options.effort == Effort::None) {
    std::vector<Result<Tuned>> known;
    for (const Goal& goal : goals)
      known.push_back(from_database(goal.workload, target, options.threads, store, environment));
    return known;
  }
  const bool overlaps = target.is_gpu() ? target.architecture == Architecture::Cuda
                                        : options.threads < target.machine.cores;
  TW_TRY(Suite suite, Suite::open(goals, target, options, store, environment, on_progress));

  std::optional<Work> proposed = suite.next(), building;
  const auto build_proposed = [&] {
    while (proposed && !building) {
      if (suite.begin_build(*proposed))
        building = std::exchange(proposed, std::nullopt);
      else
        proposed = suite.next();
    }
  };
  build_proposed();
  proposed = suite.next();
  while (building) {
    const std::vector<BuildOutcome> built = suite.finish_build();
    const Work work = *std::exchange(building, std::nullopt);
    if (overlaps) build_proposed();
    suite.measure(work, built);
    build_proposed();
    if (!proposed) proposed = suite.next();
    build_proposed();
  }
  std::vector<Result<Tuned>> results = suite.finish();
  for (size_t i = 0; i < goals.size(); ++i) {
    if (!suite.never_began(i)) continue;
    auto known = from_database(goals[i].workload, target, options.threads, store, environment);
    if (known) results[i] = std::move(known);
  }
  return results;
}

Result<Tuned> tune(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
                   db::Store& store, const Environment& environment,
                   const OnProgress& on_progress) {
  TW_TRY(std::vector<Result<Tuned>> results,
         tune_all({{workload}}, target, options, store, environment, on_progress));
  return std::move(results[0]);
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

// A kernel measured alone has time for stretches that span more than a busy neighbour's episode of
// half a second.
constexpr int64_t replay_stretches = 5;
constexpr double replay_pause_s = 0.25, replay_patience_s = 3;

/// A farm with the schedule built, and prepared to run it when `verify` is asked for.
struct Built {
  Farm farm;
  std::string path;
};

Result<Built> build_in_farm(const dsl::Workload& workload, std::string_view schedule,
                            const Target& target, int threads, bool verify,
                            const Environment& environment) {
  if (verify) TW_RETURN_IF_ERROR(check_fits_memory(workload, target));
  TW_TRY(Farm farm, Farm::start(target, threads, 1, environment, 60));
  const auto built = farm.build(workload.key(), std::string(schedule), {.packs = true});
  if (!built) return fail(built.error().code, "[compile] " + built.error().message);
  if (!verify) return Built{std::move(farm), *built};
  const auto reference =
      farm.build_reference(workload.key(), schedules::Schedule(workload.compute).to_string());
  if (!reference)
    return fail(ErrorCode::Environment,
                "[tune] the reference kernel cannot be built: " + reference.error().message);
  TW_RETURN_IF_ERROR(farm.prepare(workload.key(), *reference));
  return Built{std::move(farm), *built};
}

}  // namespace

Result<runtime::Artifact> build_schedule(const dsl::Workload& workload, std::string_view schedule,
                                         const Target& target, int threads, bool verify,
                                         const Environment& environment) {
  TW_TRY(Built built, build_in_farm(workload, schedule, target, threads, verify, environment));
  if (verify) {
    TW_TRY(const MeasureReply reply, built.farm.measure({.path = built.path, .verify_only = true}));
    if (reply.status != "ok")
      return fail(ErrorCode::Invalid, fmt::format("[verify] {}: {}", reply.status, reply.reason));
  }
  return runtime::read_artifact(built.path, runtime::Trust::Own, target);
}

Result<db::Record> measure_schedule(const dsl::Workload& workload, std::string_view schedule,
                                    const Target& target, int threads,
                                    const Environment& environment) {
  TW_TRY(Built built, build_in_farm(workload, schedule, target, threads, true, environment));
  TW_TRY(const double peak, built.farm.peak_gflops());
  TW_TRY(const MeasureReply reply, built.farm.measure({.path = built.path,
                                                       .stretches = replay_stretches,
                                                       .pause_s = replay_pause_s,
                                                       .patience_s = replay_patience_s}));
  if (reply.status != "ok")
    return fail(ErrorCode::Invalid, fmt::format("[replay] {}: {}", reply.status, reply.reason));
  TW_TRY(const Target machine, built.farm.machine());
  db::Record record = trial_record(workload, machine, threads, built.farm.toolchain(), schedule,
                                   reply, std::max(peak, reply.peak_gflops));
  record.created_ms = environment.now_ms();
  return db::seal(std::move(record));
}

}  // namespace tw::tuner

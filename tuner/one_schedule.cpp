// SPDX-License-Identifier: Apache-2.0
// Builds and measures one schedule, without a search.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedules/schedule.h"
#include "tuner/measure/reference.h"
#include "tuner/trial_record.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {
namespace {

// Number of stretches in which a kernel is measured if it is measured alone. All stretches together
// last longer than a disturbance of half a second by another process.
constexpr int64_t replay_stretches = 5;
constexpr double replay_pause_s = 0.25, replay_patience_s = 3;

/// Returns the error code for a reply whose status is not Ok. It is TryLater if the runner was lost
/// or the candidate is not to blame, for instance because memory was short, since the kernel may
/// succeed later. Otherwise it is Invalid.
ErrorCode code_of(const MeasureReply& reply) {
  const bool may_succeed = reply.blameless || reply.status == db::TrialStatus::Lost;
  return may_succeed ? ErrorCode::TryLater : ErrorCode::Invalid;
}

/// The workers that have built a schedule. If the kernel is to be verified, they have also prepared
/// the reference kernel.
struct BuiltSchedule {
  Workers workers;
  std::string artifact;  ///< name of the kernel in the ArtifactStore
};

Result<BuiltSchedule> build_by_workers(const dsl::Workload& workload, std::string_view schedule,
                                       const Target& target, int threads, bool verify,
                                       const Environment& environment) {
  if (verify) TW_RETURN_IF_ERROR(check_fits_memory(workload, target));
  TW_TRY(Workers workers, start_workers(target, threads, environment, 60, Building::Alone));
  const auto built = build_one(
      *workers.builder, {.kernels = {{workload.key(), std::string(schedule)}}, .packs = true});
  if (!built) return fail(built.error().code, "[compile] " + built.error().message);
  if (!verify) return BuiltSchedule{std::move(workers), built->artifact};
  const auto reference =
      build_one(*workers.builder,
                {.kernels = {{workload.key(), schedules::Schedule(workload.compute).to_string()}},
                 .packs = true,
                 .is_reference = true});
  if (!reference)
    return fail(ErrorCode::Environment,
                "[tune] the reference kernel cannot be built: " + reference.error().message);
  TW_RETURN_IF_ERROR(workers.runner->prepare(
      workload.text(), {reference->artifact, reference->otherwise}, Needed::No));
  return BuiltSchedule{std::move(workers), built->artifact};
}

}  // namespace

Result<runtime::Artifact> build_schedule(const dsl::Workload& workload, std::string_view schedule,
                                         const Target& target, int threads, bool verify,
                                         const Environment& environment) {
  TW_TRY(const BuiltSchedule built,
         build_by_workers(workload, schedule, target, threads, verify, environment));
  if (verify) {
    TW_TRY(const MeasureReply reply,
           built.workers.runner->measure({.artifact = built.artifact, .verify_only = true}));
    if (reply.status != db::TrialStatus::Ok)
      return fail(code_of(reply),
                  fmt::format("[verify] {}: {}", db::to_string(reply.status), reply.reason));
  }
  return built.workers.artifacts->load(built.artifact, target);
}

Result<db::Record> try_schedule(const dsl::Workload& workload, std::string_view schedule,
                                const Target& target, int threads, const Environment& environment) {
  TW_TRY(const BuiltSchedule built,
         build_by_workers(workload, schedule, target, threads, true, environment));
  Runner& runner = *built.workers.runner;
  TW_TRY(const double peak, runner.peak_gflops());
  TW_TRY(const MeasureReply reply, runner.measure({.artifact = built.artifact,
                                                   .stretches = replay_stretches,
                                                   .pause_s = replay_pause_s,
                                                   .patience_s = replay_patience_s}));
  if (code_of(reply) == ErrorCode::TryLater)
    return fail(ErrorCode::TryLater,
                fmt::format("[replay] {}: {}", db::to_string(reply.status), reply.reason));
  TW_TRY(const Target machine, runner.machine());
  db::Record record =
      trial_record(workload, machine, threads, built.workers.builder->toolchain(), schedule, reply,
                   peak_for(workload, machine, std::max(peak, reply.peak_gflops)));
  record.created_ms = environment.now_ms();
  return db::seal(std::move(record));
}

Result<db::Record> measure_schedule(const dsl::Workload& workload, std::string_view schedule,
                                    const Target& target, int threads,
                                    const Environment& environment) {
  TW_TRY(db::Record record, try_schedule(workload, schedule, target, threads, environment));
  if (record.status == db::TrialStatus::Ok) return record;
  return fail(ErrorCode::Invalid,
              fmt::format("[replay] {}: {}", db::to_string(record.status), record.reason));
}

}  // namespace tw::tuner

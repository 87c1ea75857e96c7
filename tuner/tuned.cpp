// SPDX-License-Identifier: Apache-2.0
#include "tuner/tuned.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "codegen/abi.h"
#include "schedules/legality.h"
#include "schedules/schedule.h"
#include "tuner/device.h"
#include "tuner/experience.h"

namespace tw::tuner {

Result<Tuned> from_database(const dsl::Workload& workload, const Target& target,
                            const TuneOptions& options, db::Store& store,
                            const Environment& environment) {
  const int threads = options.threads;
  TW_TRY(const auto known, best_known(store, workload, target, threads));
  if (!known)
    return fail(ErrorCode::NoCandidate,
                fmt::format("[tune] the database has no kernel of '{}' for this "
                            "target and {} thread{}: tune without --effort none",
                            workload.text(), threads, threads == 1 ? "" : "s"));
  Tuned tuned;
  if (options.builds_winners) {
    TW_TRY(tuned.artifact,
           build_schedule(workload, known->schedule, target, threads, false, environment));
  }
  tuned.best = *known;
  tuned.ended = Ended::FromDatabase;
  TW_TRY(tuned.progress.known_trials, count_known(store, workload, target, threads));
  tuned.progress.best_ns = known->latency_ns;
  tuned.progress.flops = known->flops;
  tuned.progress.bytes = dsl::compulsory_traffic(workload.compute).bytes();
  tuned.progress.peak_gflops = known->peak_gflops;
  return tuned;
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

db::Key database_key(const dsl::Workload& workload, const Target& target, int threads) {
  return {.workload = workload.key(),
          .target = target.to_string(),
          .device = device_text(target),
          .threads = threads,
          .codegen_abi = codegen::codegen_abi,
          .layouts = workload.asked()};
}

Result<std::optional<db::Record>> best_known(db::Store& store, const dsl::Workload& workload,
                                             const Target& target, int threads) {
  // Whoever may write to the database may have stored anything.
  const auto applies = [&](const db::Record& record) -> Status {
    TW_TRY(const schedules::Schedule schedule,
           schedules::parse_schedule(workload.compute, record.schedule));
    TW_RETURN_IF_ERROR(schedule.program(schedules::limits_of(target)));
    return {};
  };
  return store.best(database_key(workload, target, threads), applies);
}

}  // namespace tw::tuner

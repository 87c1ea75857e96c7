// SPDX-License-Identifier: Apache-2.0
#include "tuner/tuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "base/text.h"
#include "cost_model/expected.h"
#include "db/answers.h"
#include "db/trust.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "tuner/search/experience.h"
#include "tuner/search/network_error.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

// Largest number of schedules of other devices whose times are predicted, and of other targets
// whose records are read. Predicting a time takes about a millisecond.
constexpr int64_t most_elsewhere = 8;

/// Returns the number of features that only one of the two targets has.
size_t count_differences(const Target& a, const Target& b) {
  std::vector<std::string> different;
  std::ranges::set_symmetric_difference(a.features, b.features, std::back_inserter(different));
  return different.size();
}

/// Returns other targets for which the database has a record of the workload, the most similar
/// target first, at most most_elsewhere targets. They have the architecture and the vector length
/// of `target`. Empty for a GPU, since other GPU architectures have other instructions.
Result<std::vector<std::string>> targets_like(db::Store& store, const db::Key& key,
                                              const Target& target) {
  std::vector<std::string> like;
  if (target.is_gpu()) return like;
  TW_TRY(const std::vector<std::string> known, db::targets_of(store, key));
  std::vector<std::pair<size_t, std::string>> by_difference;
  for (const std::string& text : known) {
    const auto other = parse_target(text);
    if (!other || text == key.target || other->architecture != target.architecture ||
        vector_sizes(*other).bytes != vector_sizes(target).bytes)
      continue;
    by_difference.emplace_back(count_differences(*other, target), text);
  }
  std::ranges::sort(by_difference);
  for (auto& [difference, text] : by_difference)
    if (std::ssize(like) < most_elsewhere) like.push_back(std::move(text));
  return like;
}

/// Returns the record that the cost model expects to be the fastest; nullopt if no schedule fits
/// the target.
std::optional<db::Record> fastest_predicted(std::vector<db::Record> records,
                                            const dsl::Workload& workload, const Target& target,
                                            int threads) {
  std::optional<db::Record> fastest;
  double least_ns = std::numeric_limits<double>::infinity();
  const schedules::Problem problem = schedules::problem_of(workload);
  for (db::Record& record : records) {
    const auto schedule = schedules::parse_schedule(workload.compute, record.schedule);
    if (!schedule) continue;
    auto kernel = schedule->program(schedules::limits_of(target));
    if (!kernel) continue;
    const auto expected_ns = cost_model::expected_ns(std::move(*kernel), problem, target, threads);
    if (!expected_ns || *expected_ns >= least_ns) continue;
    least_ns = *expected_ns;
    fastest = std::move(record);
  }
  return fastest;
}

}  // namespace

Result<Tuned> from_database(const TaskSpec& task, const Target& target, const TuneOptions& options,
                            db::Store& store, const Environment& environment) {
  const dsl::Workload& workload = task.workload;
  const int threads = options.threads;
  TW_TRY(const auto known, best_known(store, workload, target, threads, task.most_error));
  if (!known)
    return fail(ErrorCode::NoCandidate,
                fmt::format("[tune] the database has no kernel of '{}' for this "
                            "target and {}: tune without --effort none",
                            workload.text(), counted(threads, "thread")));
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
  constexpr std::array<std::string_view, 6> texts = {
      "from the database", "budget used", "trials done",
      "plateau",           "interrupted", "trials cannot be stored"};
  return texts[static_cast<size_t>(ended)];
}

Result<std::optional<db::Record>> best_known(db::Store& store, const dsl::Workload& workload,
                                             const Target& target, int threads, double most_error) {
  // The schedule of a record is checked, because anybody who may write to the database may have
  // stored any text.
  const auto applies = [&](const db::Record& record) -> Result<bool> {
    if (!is_exact_enough(workload, record, most_error)) return false;
    TW_TRY(const schedules::Schedule schedule,
           schedules::parse_schedule(workload.compute, record.schedule));
    TW_RETURN_IF_ERROR(schedule.program(schedules::limits_of(target)));
    return true;
  };
  db::Key key = database_key(workload, target, threads);
  TW_TRY(std::optional<db::Record> best, store.best(key, applies));
  if (best && db::likeness_of(best->device, key.device) != db::Likeness::OtherClass) return best;
  TW_TRY(std::vector<db::Record> others, db::best_elsewhere(store, key, most_elsewhere, applies));
  TW_TRY(const std::vector<std::string> like, targets_like(store, key, target));
  for (const std::string& other : like) {
    key.target = other;
    TW_TRY(best, store.best(key, applies));
    if (best) others.push_back(std::move(*best));
  }
  return fastest_predicted(std::move(others), workload, target, threads);
}

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#include "bench/databases/database_growth.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "schedules/space/space.h"
#include "tuner/search/experience.h"
#include "tuner/trial_record.h"
#include "tuner/workers/device.h"

namespace tw::bench {
namespace {

constexpr int64_t trials_of_session = 512, shared_of_session = 8;
constexpr int64_t hosts = 4, filled_together = 4096;
constexpr int threads = 1;
// Number of schedules that warm_start() parses. In a tuning run the number depends on the budget,
// because parsing a schedule takes a millisecond. This benchmark measures the time of finding the
// schedules.
constexpr size_t most_schedules = 10;
constexpr double peak_gflops = 100, fastest_ns = 2e6;

/// A group of synthetic trials of one workload. They depend only on the number of the group and the
/// seed.
class SyntheticGroup {
 public:
  SyntheticGroup(int64_t number, uint64_t seed)
      : workload_(dsl::parse_workload(fmt::format("conv2d n=1 c=64 h=56 w=56 k={} r=3 s=3 stride=1 "
                                                  "pad=1 dilation=1 groups=1 f32 fast",
                                                  64 + 16 * number))
                      .value()),
        target_(host_target()),
        space_(schedules::Space::derive(workload_.compute, target_)),
        random_(seed) {}

  const dsl::Workload& workload() const { return workload_; }
  const Target& target() const { return target_; }
  const schedules::Space& space() const { return space_; }

  /// Returns the next trial. The first trials of each session after the first have the schedules of
  /// the first session again.
  db::Record next() {
    const int64_t number = made_++, session = number / trials_of_session;
    const int64_t of_session = number % trials_of_session;
    if (session == 0 || of_session >= shared_of_session) {
      point_ = space_.sample(random_);
      quality_ = 1 + static_cast<double>(random_.below(1'000'000)) * 2e-6;
      if (session == 0 && of_session < shared_of_session) shared_.emplace_back(point_, quality_);
    } else {
      std::tie(point_, quality_) = shared_[static_cast<size_t>(of_session)];
    }
    const double noise = 1 + static_cast<double>(random_.below(1000)) * 1e-5;
    const double ns = fastest_ns * quality_ * noise;
    tuner::MeasureReply reply{db::TrialStatus::Ok, ""};
    reply.latency_ns = ns;
    reply.low_ns = 0.99 * ns;
    reply.high_ns = 1.01 * ns;
    for (int i = 0; i < 10; ++i) reply.samples_ns.push_back(ns * (0.995 + 0.001 * i));
    db::Record record =
        tuner::trial_record(workload_, target_, threads, "synthetic",
                            space_.schedule(point_).to_string(), reply, peak_gflops);
    record.configuration = space_.to_string(point_);
    record.program_version = "0.1.0";
    record.session = fmt::format("synthetic {}", session);
    record.host = fmt::format("host {}", session % hosts);
    record.trial = number;
    record.created_ms = 1'700'000'000'000 + number;
    return db::seal(std::move(record));
  }

 private:
  dsl::Workload workload_;
  Target target_;
  schedules::Space space_;
  Random random_;
  int64_t made_ = 0;
  schedules::Point point_;
  double quality_ = 1;
  std::vector<std::pair<schedules::Point, double>> shared_;
};

Status fill_group(db::Store& store, SyntheticGroup& group, int64_t trials) {
  for (int64_t left = trials; left > 0; left -= filled_together) {
    std::vector<db::Record> batch;
    for (int64_t i = 0; i < std::min(left, filled_together); ++i) batch.push_back(group.next());
    TW_RETURN_IF_ERROR(store.append(batch));
  }
  return {};
}

Result<std::vector<double>> sorted_times(int64_t rounds, const tuner::Clock& clock,
                                         const std::function<Status()>& work) {
  std::vector<double> times;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t before = clock();
    TW_RETURN_IF_ERROR(work());
    times.push_back(static_cast<double>(clock() - before) * 1e-6);
  }
  std::sort(times.begin(), times.end());
  return times;
}

Result<GroupCosts> costs_of(const GrowthOptions& options, int64_t number, int64_t trials,
                            const tuner::Clock& clock) {
  SyntheticGroup group(number, options.seed);
  TW_TRY(db::Store store, db::Store::open(options.database, db::OpenMode::ReadWrite));
  TW_RETURN_IF_ERROR(fill_group(store, group, trials));
  GroupCosts costs{trials};
  TW_TRY(const std::vector<double> starts, sorted_times(options.rounds, clock, [&]() -> Status {
           tuner::Question question{&group.workload(), &group.space(), group.target(), threads};
           question.most_schedules = most_schedules;
           const tuner::Experience known = tuner::warm_start(store, question);
           if (known.known > 0) return {};
           return fail(ErrorCode::Internal, "[bench] the group that was filled is not found");
         }));
  TW_TRY(const std::vector<double> commits, sorted_times(options.rounds, clock, [&]() -> Status {
           const db::Record record = group.next();
           TW_TRY(const db::AppendSummary added, store.append({&record, 1}));
           if (added.inserted == 1) return {};
           return fail(ErrorCode::Usage,
                       "[bench] the database has the records of an earlier run: use a new one");
         }));
  costs.start_ms = starts.front();
  costs.commit_ms = commits[commits.size() / 2];
  return costs;
}

}  // namespace

Result<std::vector<GroupCosts>> measure_growth(const GrowthOptions& options,
                                               const tuner::Clock& clock) {
  std::vector<GroupCosts> all;
  for (const int64_t trials : options.trials) {
    TW_TRY(const GroupCosts costs, costs_of(options, std::ssize(all), trials, clock));
    all.push_back(costs);
  }
  return all;
}

}  // namespace tw::bench

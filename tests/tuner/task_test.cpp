// SPDX-License-Identifier: Apache-2.0
#include "tuner/task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "codegen/abi.h"
#include "codegen/compile.h"
#include "db/transfer.h"
#include "schedules/space/find_point.h"
#include "tests/tuner/tuning.h"
#include "tuner/search/experience.h"
#include "tuner/search/first_pick.h"
#include "tuner/search/scoring.h"
#include "tuner/workers/device.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

constexpr const char* product = "dense m=64 n=128 k=256 f32 fast";

db::Record stored_trial(const dsl::Workload& workload, const std::string& schedule,
                        double latency_ns) {
  db::Record record;
  record.workload = workload.key();
  record.op = workload.op;
  record.target = host_target().to_string();
  record.device = device_text(host_target());
  record.toolchain = "a compiler";
  record.codegen_abi = codegen::codegen_abi;
  record.schedule = schedule;
  record.samples_ns = {latency_ns};
  record.latency_ns = record.latency_low_ns = record.latency_high_ns = latency_ns;
  record.flops = dsl::count_flops(workload.compute);
  record.session = "before";
  return db::seal(std::move(record));
}

/// Returns two legal points near the default point whose schedules differ.
std::vector<Point> two_parents(const Space& space) {
  Random random(3);
  std::vector<Point> parents = {space.default_point()};
  while (parents.size() < 2) {
    const Point next = space.mutate(parents[0], random);
    const auto schedule = space.schedule(next);
    if (schedule.to_string() != space.schedule(parents[0]).to_string() && schedule.program())
      parents.push_back(next);
  }
  return parents;
}

/// True if the child may come from these parents: crossing takes each choice from one of the
/// parents, and mutation changes at most two choices.
bool descends(const Point& child, const std::vector<Point>& parents) {
  int changed = 0;
  for (size_t d = 0; d < child.choices.size(); ++d)
    changed += std::none_of(parents.begin(), parents.end(), [&](const Point& parent) {
      return parent.choices[d] == child.choices[d];
    });
  return changed <= 2;
}

/// Starts a run whose workers are processes.
std::unique_ptr<TuningRun> started_run(db::Store& store, const TuneOptions& options) {
  auto workers =
      start_workers(host_target(), options.threads, test_environment(), options.timeout_s);
  if (!workers) throw std::runtime_error(workers.error().message);
  auto run = TuningRun::start(options, store, test_environment(), {}, std::move(*workers));
  if (!run) throw std::runtime_error(run.error().message);
  return std::move(*run);
}

std::unique_ptr<Task> opened_task(const TaskSpec& spec, TuningRun& run) {
  auto task = Task::open(spec, run);
  if (!task) throw std::runtime_error(task.error().message);
  return std::move(*task);
}

Batch proposed_batch(Task& task) {
  return task.choose(task.propose([&](const auto& points) { return task.predict(points); }));
}

std::vector<Candidate> first_batch(db::Store& store, const dsl::Workload& workload, int size,
                                   const std::string& search = "evolution") {
  const auto run = started_run(store, {.search = search, .batch = size});
  const TaskSpec spec{workload};
  return proposed_batch(*opened_task(spec, *run)).candidates;
}

/// Returns the number of points in the first batch of a run on this database that descend from
/// these parents. The search is the one without a cost model, because a model may propose better
/// points than children of the parents.
int64_t descendants(db::Store& store, const dsl::Workload& workload,
                    const std::vector<Point>& parents) {
  const std::vector<Candidate> batch = first_batch(store, workload, 16, "blind");
  EXPECT_EQ(batch.size(), 16u);
  return std::count_if(batch.begin(), batch.end(),
                       [&](const Candidate& c) { return descends(c.point, parents); });
}

TEST(Task, FirstProposalsDescendFromStoredTrials) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Space space = Space::derive(workload.compute, host_target());
  std::vector<db::Record> trials;
  std::vector<Point> parents;
  for (const Point& point : two_parents(space)) {
    const schedules::Schedule schedule = space.schedule(point);
    parents.push_back(*schedules::point_of(space, schedule));
    trials.push_back(stored_trial(workload, schedule.to_string(), 2e5));
  }
  db::Store empty = open_store(folder / "empty.db"), store = open_store(folder / "t.db");
  ASSERT_TRUE(store.append(trials));
  EXPECT_LE(descendants(empty, workload, parents), 1);  // the default point itself
  EXPECT_GE(descendants(store, workload, parents), 4);
}

// The stored schedule is a point of both spaces that no search would find by chance in its first
// batch.
TEST(Task, TheFirstBatchTriesWhatWasFastForANeighbour) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Folder folder;
  const dsl::Workload workload = workload_of(product),
                      neighbour = workload_of("dense m=64 n=128 k=512 f32 fast");
  const Space space = Space::derive(workload.compute, host_target()),
              near = Space::derive(neighbour.compute, host_target());
  Random random(7);
  schedules::Schedule schedule = near.schedule(near.sample(random));
  while (!schedule.program({.unrolled_statements = 128}) ||
         !schedules::point_of(
             space, schedules::parse_schedule(workload.compute, schedule.to_string()).value()))
    schedule = near.schedule(near.sample(random));
  const auto tried = [&](db::Store& store) {
    const std::vector<Candidate> batch = first_batch(store, workload, 8);
    return std::count_if(batch.begin(), batch.end(),
                         [&](const Candidate& c) { return c.schedule == schedule.to_string(); });
  };
  db::Store empty = open_store(folder / "empty.db"), store = open_store(folder / "t.db");
  ASSERT_TRUE(store.append(std::vector{stored_trial(neighbour, schedule.to_string(), 4e5)}));
  EXPECT_EQ(tried(empty), 0);
  EXPECT_EQ(tried(store), 1);
}

TEST(Task, MachineCodeThatIsKnownIsNotMeasuredAgain) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Folder folder;
  const TaskSpec spec{workload_of("dense m=16 n=32 k=24 f32 fast")};
  db::Store store = open_store(folder / "t.db");
  const auto run = started_run(store, {});
  const auto task = opened_task(spec, *run);
  Builder& builder = *run->workers.builder;
  Batch reference = task->reference_batch();
  ASSERT_TRUE(task->begin_build(reference));
  reference.built = builder.finish();
  ASSERT_TRUE(task->prepare(reference));
  Batch tried{.task = task.get(), .candidates = std::vector<Candidate>(3)};
  std::vector<Candidate>& batch = tried.candidates;
  batch[0].schedule = "tw1\n";
  batch[1].schedule = "tw1\nreorder out m n k\n";  // the order of the declaration
  batch[2].schedule = "tw1\nreorder out n m k\n";
  ASSERT_TRUE(task->begin_build(tried));
  tried.built = builder.finish();
  ASSERT_TRUE(task->begin_measuring(tried));
  while (const Trial* trial = task->next_trial()) {
    auto reply = task->measure(*trial);
    ASSERT_TRUE(reply) << reply.error().message;
    // A trial may be disturbed by other processes and would be postponed. This test is not about
    // times, so it replaces the reply.
    if (reply->status == db::TrialStatus::Unstable) {
      reply->status = db::TrialStatus::Ok;
      reply->samples_ns = {1000};
      reply->latency_ns = reply->low_ns = reply->high_ns = 1000;
    }
    ASSERT_TRUE(task->record(*reply));
  }
  ASSERT_TRUE(run->recorder.flush());
  const auto records = store.query({});
  ASSERT_TRUE(records);
  std::map<std::string, db::Record> trials;
  for (const db::Record& record : *records) trials[record.schedule] = record;
  ASSERT_EQ(trials.size(), 3u);
  const db::Record &first = trials["tw1\n"], &duplicate = trials[batch[1].schedule];
  EXPECT_EQ(first.status, db::TrialStatus::Ok) << first.reason;
  EXPECT_EQ(duplicate.status, db::TrialStatus::Duplicate);
  EXPECT_EQ(duplicate.reason, "the machine code of record " + first.hash);
  EXPECT_EQ(duplicate.latency_ns, first.latency_ns);
  EXPECT_TRUE(duplicate.samples_ns.empty());
  EXPECT_NE(trials[batch[2].schedule].status, db::TrialStatus::Duplicate);
  // The duplicate trains the model as its original does, is not tried again, and does not count as
  // a failure.
  const Space space = Space::derive(spec.workload.compute, host_target());
  const Experience known = warm_start(store, {&spec.workload, &space, host_target(), 1});
  EXPECT_TRUE(known.tried.contains(db::schedule_key(batch[1].schedule)));
  EXPECT_EQ(std::count_if(known.samples.begin(), known.samples.end(),
                          [](const cost_model::Sample& s) { return s.valid; }),
            3);
  const auto tuned = task->finish(Ended::Trials, 5);
  ASSERT_TRUE(tuned) << tuned.error().message;
  for (const auto& [reason, count] : tuned->failures)
    EXPECT_EQ(reason.find("machine code"), std::string::npos) << reason;
  EXPECT_NE(tuned->best.schedule, batch[1].schedule);
}

constexpr const char* other_device =
    "Some other processor; 64 cores; L1 48 KiB; L2 2048 KiB; L3 256 MiB";

/// Returns a database of this device with one trial of each schedule in `here`. Trials of the
/// schedules in `there` are merged into it. They are of another device with the same target and ten
/// times as fast.
db::Store merged_store(const Folder& folder, const dsl::Workload& workload,
                       const std::vector<std::string>& here,
                       const std::vector<std::string>& there) {
  std::vector<db::Record> own, others;
  for (const std::string& schedule : here) own.push_back(stored_trial(workload, schedule, 2e6));
  for (const std::string& schedule : there) {
    db::Record record = stored_trial(workload, schedule, 2e5);
    record.device = other_device;
    others.push_back(db::seal(std::move(record)));
  }
  {
    db::Store elsewhere = open_store(folder / "elsewhere.db");
    EXPECT_TRUE(elsewhere.append(others));
  }
  db::Store store = open_store(folder / "t.db");
  EXPECT_TRUE(store.append(own));
  EXPECT_TRUE(db::merge_from(store, folder / "elsewhere.db"));
  return store;
}

std::vector<std::string> two_schedules(const Space& space) {
  std::vector<std::string> texts;
  for (const Point& point : two_parents(space)) texts.push_back(space.schedule(point).to_string());
  return texts;
}

/// Returns the keys of the schedules, as in Experience::tried.
std::set<std::string> keys_of(const std::vector<std::string>& schedules) {
  std::set<std::string> keys;
  for (const std::string& schedule : schedules) keys.insert(db::schedule_key(schedule));
  return keys;
}

TEST(Experience, Fault74_WhatWasDisturbedMayBeTriedAgainAndTeachesNothing) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Space space = Space::derive(workload.compute, host_target());
  const std::vector<std::string> texts = two_schedules(space);
  db::Record disturbed = stored_trial(workload, texts[1], 0);
  disturbed.status = db::TrialStatus::Unstable;
  disturbed.samples_ns.clear();
  db::Store store = open_store(folder / "t.db");
  ASSERT_TRUE(store.append(
      std::vector{stored_trial(workload, texts[0], 2e6), db::seal(std::move(disturbed))}));
  const Experience known = warm_start(store, {&workload, &space, host_target(), 1});
  EXPECT_EQ(known.tried, keys_of({texts[0]}));
  EXPECT_EQ(known.known, 2);  // these count as known all the same
  EXPECT_EQ(count_known(store, workload, host_target(), 1).value(), 2);
  EXPECT_EQ(known.latencies_ns, std::vector<double>{2e6});
  EXPECT_EQ(known.samples.size(), 1u);
}

// Several points have the same steps. The configuration says which of these points was measured.
TEST(Experience, ParentsAreThePointsThatTheirConfigurationsName) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Space space = Space::derive(workload.compute, host_target());
  Random random(3);
  std::vector<Point> points;
  while (points.size() < 2) {
    const Point point = space.sample(random);
    const schedules::Schedule schedule = space.schedule(point);
    if (!schedule.program()) continue;
    const auto found = schedules::point_of(space, schedule);
    if (found && *found != point) points.push_back(point);
  }
  const auto trial = [&](const Point& point, const std::string& configuration, double latency_ns) {
    db::Record record = stored_trial(workload, space.schedule(point).to_string(), latency_ns);
    record.configuration = configuration;
    return db::seal(std::move(record));
  };
  db::Store store = open_store(folder / "t.db");
  // The second record has the configuration of the first point, which does not match its steps. The
  // steps decide.
  ASSERT_TRUE(store.append(std::vector{trial(points[0], space.to_string(points[0]), 1e5),
                                       trial(points[1], space.to_string(points[0]), 2e5)}));
  const Experience known = warm_start(store, {&workload, &space, host_target(), 1});
  ASSERT_EQ(known.parents.size(), 2u);
  EXPECT_EQ(known.parents[0].point, points[0]);
  EXPECT_EQ(known.parents[1].point, schedules::point_of(space, space.schedule(points[1])));
}

TEST(Session, TrialsKeepTheConfigurationsOfTheirSchedules) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Folder folder;
  const dsl::Workload workload = workload_of("dense m=16 n=32 k=24 f32 fast");
  const Space space = Space::derive(workload.compute, host_target());
  db::Store store = open_store(folder / "t.db");
  ASSERT_TRUE(tune(workload, host_target(), {.budget_s = 60, .trials = 4, .batch = 2}, store,
                   test_environment(), {}));
  int records = 0;
  ASSERT_TRUE(store.for_each({.workload = workload.key()}, [&](const db::Record& record) {
    ++records;
    const auto point = space.parse(record.configuration);
    EXPECT_TRUE(point) << record.configuration;
    if (point) {
      EXPECT_EQ(space.schedule(*point).to_string(), record.schedule);
    }
    return true;
  }));
  EXPECT_GE(records, 4);
}

TEST(Experience, Fault75_TrialsOfAnotherDeviceAreSeedsAndAGroupOfTheirOwn) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Space space = Space::derive(workload.compute, host_target());
  const std::vector<std::string> texts = two_schedules(space);
  db::Store store = merged_store(folder, workload, {texts[0]}, {texts[0], texts[1]});
  const Experience known = warm_start(store, {&workload, &space, host_target(), 1});
  EXPECT_EQ(known.tried, keys_of({texts[0]}));
  EXPECT_EQ(count_known(store, workload, host_target(), 1).value(), 1);
  EXPECT_EQ(known.latencies_ns, std::vector<double>{2e6});
  ASSERT_EQ(known.parents.size(), 1u);
  EXPECT_EQ(known.parents[0].throughput, 1e9 / 2e6);
  std::set<std::string> seeds;
  for (const Point& seed : known.seeds) seeds.insert(space.schedule(seed).to_string());
  EXPECT_EQ(seeds, (std::set<std::string>{texts[0], texts[1]}));
  ASSERT_EQ(known.samples.size(), 3u);
  EXPECT_EQ(known.samples[0].group, known.samples[1].group);
  EXPECT_NE(known.samples[1].group, known.samples[2].group);
  EXPECT_EQ(known.samples[2].group, ranking_group(workload, host_target())) << "own ones come last";
}

// This also holds if the layer's device has the name of this one, since the layer was measured on
// another machine.
TEST(Experience, Fault75_TrialsOfALayerAreSeedsAndNothingThatWasTriedHere) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Space space = Space::derive(workload.compute, host_target());
  const std::vector<std::string> texts = two_schedules(space);
  {
    db::Store layer = open_store(folder / "shipped.db");
    ASSERT_TRUE(layer.append(std::vector{stored_trial(workload, texts[1], 1e5)}));
  }
  auto store = db::Store::open(folder / "t.db", db::OpenMode::ReadWrite,
                               {.below = {{"shipped", folder / "shipped.db"}}});
  ASSERT_TRUE(store) << store.error().message;
  ASSERT_TRUE(store->append(std::vector{stored_trial(workload, texts[0], 2e5)}));
  const Experience known = warm_start(*store, {&workload, &space, host_target(), 1});
  EXPECT_EQ(known.tried, keys_of({texts[0]}));
  EXPECT_EQ(known.latencies_ns, std::vector<double>{2e5});
  ASSERT_EQ(known.parents.size(), 1u);
  ASSERT_EQ(known.seeds.size(), 1u);
  EXPECT_EQ(space.schedule(known.seeds[0]).to_string(), texts[1]);
  EXPECT_EQ(known.samples.size(), 2u);
  EXPECT_EQ(count_known(*store, workload, host_target(), 1).value(), 1);
}

// The fastest trial of another device has a schedule that was proven wrong there. Trials without a
// latency, such as the one that proves it wrong, come first in the order of latencies.
TEST(Experience, Fault28_DoubtfulTrialsAreNeitherSeedsNorSamples) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Space space = Space::derive(workload.compute, host_target());
  const std::vector<std::string> texts = two_schedules(space);
  const auto there = [&](const std::string& schedule, double latency_ns, db::TrialStatus status) {
    db::Record record = stored_trial(workload, schedule, latency_ns);
    record.device = other_device;
    record.status = status;
    if (latency_ns == 0) record.samples_ns.clear();
    return db::seal(std::move(record));
  };
  db::Store store = open_store(folder / "t.db");
  ASSERT_TRUE(store.append(std::vector{there(texts[0], 1e5, db::TrialStatus::Ok),
                                       there(texts[0], 0, db::TrialStatus::Wrong),
                                       there(texts[1], 2e5, db::TrialStatus::Ok)}));
  const Experience known = warm_start(store, {&workload, &space, host_target(), 1});
  ASSERT_EQ(known.seeds.size(), 1u);
  EXPECT_EQ(space.schedule(known.seeds[0]).to_string(), texts[1]);
  EXPECT_EQ(known.samples.size(), 2u);  // the wrong one, and the one that is believed
}

TEST(Experience, Fault28_DoubtfulTrialsOfThisDeviceAreNoParents) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Space space = Space::derive(workload.compute, host_target());
  const std::vector<std::string> texts = two_schedules(space);
  db::Record impossible = stored_trial(workload, texts[0], 1e5);
  impossible.bytes = 4 * impossible.latency_ns;
  impossible.peak_gb_per_s = 1;
  db::Store store = open_store(folder / "t.db");
  ASSERT_TRUE(store.append(
      std::vector{db::seal(std::move(impossible)), stored_trial(workload, texts[1], 2e5)}));
  const Experience known = warm_start(store, {&workload, &space, host_target(), 1});
  EXPECT_EQ(known.tried, keys_of({texts[0], texts[1]}));
  ASSERT_EQ(known.parents.size(), 1u);
  EXPECT_EQ(space.schedule(known.parents[0].point).to_string(), texts[1]);
  EXPECT_EQ(known.samples.size(), 1u);
}

// The database has a trial without requested layouts. A run with requested layouts does not count
// its schedule as tried, but begins with the same tiles as a seed.
TEST(Experience, TrialsUnderOtherLayoutsAreSeedsAndAGroupOfTheirOwn) {
  Folder folder;
  const dsl::Workload free = workload_of(product),
                      asked = dsl::with_layouts(free, {{"out", "MN16n"}}).value();
  const Space space = Space::derive(free.compute, host_target()),
              asked_space = Space::derive(schedules::problem_of(asked), host_target()).value();
  const auto trial = [](const dsl::Workload& workload, const Space& of, const Point& point) {
    db::Record record = stored_trial(workload, of.schedule(point).to_string(), 1e5);
    record.layouts = dsl::print_layouts(workload.layouts);
    record.configuration = of.to_string(point);
    return db::seal(std::move(record));
  };
  const auto recalled = [](db::Store& store, const dsl::Workload& workload, const Space& of) {
    return warm_start(store, {&workload, &of, host_target(), 1});
  };
  // A point of both spaces is the same configuration with other layouts of the tensors.
  const auto is_legal = [](const Space& of, const Point& point) {
    return of.allowed(point) && of.schedule(point).program().has_value();
  };
  Random random(3);
  Point point, twin;
  for (int i = 0; i < 200 && twin.choices.empty(); ++i) {
    point = asked_space.sample(random);
    const auto same = space.parse(asked_space.to_string(point));
    if (same && is_legal(space, *same) && is_legal(asked_space, point)) twin = *same;
  }
  ASSERT_FALSE(twin.choices.empty());

  db::Store store = open_store(folder / "free.db");
  ASSERT_TRUE(store.append(std::vector{trial(free, space, twin)}));
  const Experience under_asked = recalled(store, asked, asked_space);
  EXPECT_TRUE(under_asked.tried.empty());
  EXPECT_TRUE(under_asked.parents.empty());
  EXPECT_EQ(under_asked.seeds, std::vector{point});
  EXPECT_EQ(under_asked.samples.size(), 1u);

  ASSERT_TRUE(store.append(std::vector{trial(asked, asked_space, point)}));
  const Experience both = recalled(store, asked, asked_space);
  EXPECT_EQ(both.tried, keys_of({asked_space.schedule(point).to_string()}));
  ASSERT_EQ(both.parents.size(), 1u);
  EXPECT_EQ(both.parents[0].point, point);
  ASSERT_EQ(both.samples.size(), 2u);
  EXPECT_NE(both.samples[0].group, both.samples[1].group);
  const Experience under_free = recalled(store, free, space);
  EXPECT_EQ(under_free.tried, keys_of({space.schedule(twin).to_string()}));
  EXPECT_EQ(under_free.samples.size(), 2u);
}

// The same choices mean vectors of another width on the other target.
TEST(Experience, TrialsForAnotherInstructionSetTeachAndAreSeeds) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Target here = parse_target("x86-64-v3").value(), other = parse_target("x86-64-v4").value();
  const Space space = Space::derive(workload.compute, here),
              wide = Space::derive(workload.compute, other);
  Random random(5);
  Point point, twin;
  for (int i = 0; i < 500 && twin.choices.empty(); ++i) {
    point = wide.sample(random);
    const auto same = space.parse(wide.to_string(point));
    if (!same || !space.allowed(*same)) continue;
    const schedules::Schedule steps = space.schedule(*same), wider = wide.schedule(point);
    if (steps.program() && wider.program() && steps.to_string() != wider.to_string()) twin = *same;
  }
  ASSERT_FALSE(twin.choices.empty());
  db::Record record = stored_trial(workload, wide.schedule(point).to_string(), 1e5);
  record.target = other.to_string();
  record.configuration = wide.to_string(point);
  db::Record arm = record;  // a record of another architecture is not used at all
  arm.target = parse_target("arm-64-linux").value().to_string();
  db::Store store = open_store(folder / "t.db");
  ASSERT_TRUE(store.append(std::vector{db::seal(std::move(record)), db::seal(std::move(arm))}));
  const Experience known = warm_start(store, {&workload, &space, here, 1});
  EXPECT_TRUE(known.tried.empty());
  EXPECT_EQ(known.seeds, std::vector{twin});
  ASSERT_EQ(known.samples.size(), 1u);
  EXPECT_FALSE(known.samples[0].same_machine);
}

TEST(BestKnown, AScheduleThatDoesNotApplyIsLeftOut) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  db::Store store = open_store(folder / "t.db");
  const std::string right = schedules::Schedule(workload.compute).to_string();
  ASSERT_TRUE(store.append(
      std::vector{stored_trial(workload, right, 1e5),
                  stored_trial(workload, right + "split out m 2\nsplit out m 2\n", 0.9e5)}));
  const db::Key key = database_key(workload, host_target(), 1);
  EXPECT_NE(store.best(key).value().value().schedule, right);
  const auto best = best_known(store, workload, host_target(), 1);
  ASSERT_TRUE(best && *best);
  EXPECT_EQ((*best)->schedule, right);
}

TEST(BestKnown, ATargetWithVectorsOfTheSameLengthAnswersWhereThisOneHasNothing) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Target newer = parse_target("x86-64-v4").value(), older = parse_target("x86-64-v3").value();
  Target newest = newer;
  newest.features.push_back("avx_vnni");
  std::ranges::sort(newest.features);
  const std::string schedule = schedules::Schedule(workload.compute).to_string();
  db::Record record = stored_trial(workload, schedule, 1e5);
  record.target = newest.to_string();
  db::Store store = open_store(folder / "t.db");
  ASSERT_TRUE(store.append(std::vector{db::seal(std::move(record))}));
  const auto known = best_known(store, workload, newer, 1);
  ASSERT_TRUE(known && *known);
  EXPECT_EQ((*known)->target, newest.to_string());
  EXPECT_FALSE(is_of_device(**known, newer));
  EXPECT_EQ(best_known(store, workload, older, 1).value(), std::nullopt);
  // A record of the target itself is preferred, however slow it is.
  record = stored_trial(workload, schedule, 1e6);
  record.target = newer.to_string();
  ASSERT_TRUE(store.append(std::vector{db::seal(std::move(record))}));
  EXPECT_EQ(best_known(store, workload, newer, 1).value()->target, newer.to_string());
}

TEST(FirstPick, IsTheCostModelsWhereNothingIsKnownAndElseWhatOthersFoundFast) {
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Target target = parse_target("x86-64-v3").value();
  const Space space = Space::derive(workload.compute, target);
  db::Store store = open_store(folder / "t.db");
  const std::string alone = first_pick(store, workload, target, 1, {}).value();
  EXPECT_EQ(alone, predicted_schedule({workload.compute}, target, 1, {}).value());

  // On another device all schedules were a hundred times slower than the cost model predicts,
  // except those with the smallest tiles along m.
  const size_t rows = static_cast<size_t>(
      std::ranges::find_if(space.decisions(),
                           [](const auto& d) { return d.name.ends_with("tile.m"); }) -
      space.decisions().begin());
  ASSERT_LT(rows, space.decisions().size());
  const auto usual =
      schedules::point_of(space, schedules::parse_schedule(workload.compute, alone).value());
  ASSERT_TRUE(usual);
  ASSERT_NE(usual->choices[rows], 0) << alone;
  std::vector<db::Record> trials;
  Random random(11);
  while (trials.size() < 200) {
    Point point = space.sample(random);
    if (trials.size() % 2 == 0) point.choices[rows] = 0;
    const schedules::Schedule schedule = space.schedule(point);
    if (!space.allowed(point) || !schedule.program(schedules::limits_searched(target))) continue;
    db::Record record =
        stored_trial(workload, schedule.to_string(), point.choices[rows] == 0 ? 1e5 : 1e7);
    record.target = target.to_string();
    record.device = other_device;
    record.configuration = space.to_string(point);
    trials.push_back(db::seal(std::move(record)));
  }
  ASSERT_TRUE(store.append(trials));
  const std::string taught = first_pick(store, workload, target, 1, {}).value();
  EXPECT_EQ(taught, first_pick(store, workload, target, 1, {}).value());
  const auto picked =
      schedules::point_of(space, schedules::parse_schedule(workload.compute, taught).value());
  ASSERT_TRUE(picked);
  EXPECT_EQ(picked->choices[rows], 0) << taught;
}

TEST(Experience, Fault75_AnExpressionsTrialsOfAnotherDeviceAreSeedsToo) {
  Folder folder;
  const dsl::Workload workload = workload_of(
      "expr fast input a: f32[64, 64]; out: f32[y=64, x=64] = sum(k=64) a[y, k] * a[k, x]");
  const Space space = Space::derive(workload.compute, host_target());
  db::Store store = merged_store(folder, workload, {}, two_schedules(space));
  const Experience known = warm_start(store, {&workload, &space, host_target(), 1});
  EXPECT_TRUE(known.tried.empty());
  EXPECT_EQ(known.seeds.size(), 2u);
}

// The trial of the other device claims to be ten times as fast as this device can be.
TEST(Task, Fault75_TheResultIsMeasuredHereThoughAnotherDeviceWasFaster) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Folder folder;
  const dsl::Workload workload = workload_of(product);
  const Space space = Space::derive(workload.compute, host_target());
  const std::string theirs = schedules::Schedule(workload.compute).to_string();
  db::Store store = merged_store(folder, workload, {}, {theirs});
  {  // a latency that is too short to be true
    db::Record record = stored_trial(workload, theirs, 1.0);
    record.device = other_device;
    ASSERT_TRUE(store.append(std::vector{db::seal(std::move(record))}));
  }
  double first_best_ns = 0;
  const auto tuned = tune(workload, host_target(), {.budget_s = 60, .trials = 2, .batch = 2}, store,
                          test_environment(), [&](const Progress& progress) {
                            EXPECT_EQ(progress.known_trials, 0);
                            if (first_best_ns == 0) first_best_ns = progress.best_ns;
                          });
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.device, device_text(host_target()));
  EXPECT_EQ(tuned->best.session, "test");
  EXPECT_GT(tuned->best.latency_ns, 100.0);
  EXPECT_GT(first_best_ns, 100.0);
  // The other device's schedule is no point of the space. It was measured here all the same.
  const auto here = store.query({.workload = workload.key(), .device = device_text(host_target())});
  ASSERT_TRUE(here);
  EXPECT_TRUE(std::any_of(here->begin(), here->end(),
                          [&](const db::Record& r) { return r.schedule == theirs; }));
}

TEST(Task, Fault77_ABudgetThatEndsBeforeTheFirstTrialSaysSo) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
  Folder folder;
  const TaskSpec spec{workload_of(product)};
  db::Store store = open_store(folder / "t.db");
  const auto run = started_run(store, {.budget_s = 5});
  const auto tuned = opened_task(spec, *run)->finish(Ended::Budget, 0);
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::NoCandidate);
  EXPECT_NE(tuned.error().message.find("no candidate was built within the budget of 5 s; give more "
                                       "time (--budget)"),
            std::string::npos)
      << tuned.error().message;
}

TEST(Experience, DistanceCountsPowersOfTwo) {
  const auto apart = [](const char* a, const char* b) {
    return distance(workload_of(a), workload_of(b));
  };
  EXPECT_EQ(apart(product, product), 0);
  EXPECT_NEAR(apart(product, "dense m=64 n=128 k=513 f32 fast"), 1, 1e-9);
  EXPECT_LT(apart(product, "dense m=64 n=64 k=256 f32 fast"),
            apart(product, "dense m=64 n=16 k=256 f32 fast"));
  EXPECT_TRUE(std::isinf(apart(product, "batch_matmul b=1 m=64 n=128 k=256 f32 fast")));
}

}  // namespace
}  // namespace tw::tuner

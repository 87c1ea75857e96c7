// SPDX-License-Identifier: Apache-2.0
#include "db/demand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "db/maintenance.h"
#include "db/transfer.h"
#include "tests/db/backends.h"

namespace tw::db {
namespace {

/// Returns the kernel of the record's workload. It runs `runs` times.
WantedKernel wanted_of(const Record& record, double runs) {
  WantedKernel kernel;
  kernel.op = record.op;
  kernel.workload = record.workload;
  kernel.layouts = record.layouts;
  kernel.schedule = record.schedule;
  kernel.runs = runs;
  kernel.latency_ns = 20'000;
  return kernel;
}

Demand sample_demand(char source = 'a') {
  const Record place = sample_record(0);
  Demand demand;
  demand.source = std::string(64, source);
  demand.name = "resnet50 batch=1";
  demand.target = place.target;
  demand.device = place.device;
  demand.threads = place.threads;
  demand.codegen_abi = place.codegen_abi;
  demand.latency_ns = 60'000;
  demand.asked_ms = 1'700'000'000'000;
  demand.kernels = {wanted_of(sample_record(3), 2), wanted_of(sample_record(5, 1), 1)};
  demand.kernels[1].most_error = 1e-5;
  return demand;
}

const WantedKernel& kernel_of(const Demand& demand, const Record& record) {
  const auto found = std::ranges::find(demand.kernels, record.workload, &WantedKernel::workload);
  if (found == demand.kernels.end()) throw std::runtime_error("it is not wanted");
  return *found;
}

class DemandTable : public OnBackends {};

TEST_P(DemandTable, KeepsWhatIsWanted) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(keep_demand(store, sample_demand()));
  const std::vector<Demand> demands = db::demands(store, {}).value();
  ASSERT_EQ(demands.size(), 1u);
  const Demand& demand = demands.front();
  EXPECT_EQ(demand.source, std::string(64, 'a'));
  EXPECT_EQ(demand.name, "resnet50 batch=1");
  EXPECT_EQ(demand.target, sample_record(0).target);
  EXPECT_EQ(demand.device, sample_record(0).device);
  EXPECT_EQ(demand.latency_ns, 60'000);
  EXPECT_EQ(demand.asked, 1);
  ASSERT_EQ(demand.kernels.size(), 2u);
  const WantedKernel& first = kernel_of(demand, sample_record(3));
  EXPECT_EQ(first.op, "matmul");
  EXPECT_EQ(first.schedule, sample_record(3).schedule);
  EXPECT_EQ(first.runs, 2);
  EXPECT_EQ(first.latency_ns, 20'000);
  EXPECT_FALSE(first.is_measured);
  EXPECT_TRUE(std::isinf(first.most_error));
  EXPECT_EQ(kernel_of(demand, sample_record(5, 1)).most_error, 1e-5);
}

TEST_P(DemandTable, SaysWhatTheTrialsSayByNow) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(keep_demand(store, sample_demand()));
  const WantedKernel before = kernel_of(db::demands(store, {}).value().front(), sample_record(3));
  EXPECT_EQ(before.trials, 0);
  EXPECT_EQ(before.used_ns, 0);
  EXPECT_EQ(before.best_ns, 0);
  ASSERT_TRUE(store.append(sample_records(0, 5)));
  const Demand demand = db::demands(store, {}).value().front();
  const WantedKernel& after = kernel_of(demand, sample_record(3));
  EXPECT_EQ(after.trials, 5);
  EXPECT_EQ(after.used_ns, sample_record(3).latency_ns);
  EXPECT_EQ(after.best_ns, store.best(key_of(sample_record(0))).value()->latency_ns);
  EXPECT_EQ(kernel_of(demand, sample_record(5, 1)).trials, 0);
}

TEST_P(DemandTable, ANewDemandOfTheSourceReplacesItsKernels) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(keep_demand(store, sample_demand()));
  Demand later = sample_demand();
  later.asked_ms += 1000;
  later.latency_ns = 40'000;
  later.kernels.pop_back();
  ASSERT_TRUE(keep_demand(store, later));
  const std::vector<Demand> demands = db::demands(store, {}).value();
  ASSERT_EQ(demands.size(), 1u);
  EXPECT_EQ(demands[0].asked, 2);
  EXPECT_EQ(demands[0].first_ns, 60'000);
  EXPECT_EQ(demands[0].latency_ns, 40'000);
  EXPECT_EQ(demands[0].first_ms, sample_demand().asked_ms);
  EXPECT_EQ(demands[0].asked_ms, later.asked_ms);
  EXPECT_EQ(demands[0].kernels.size(), 1u);
}

TEST_P(DemandTable, RunsOfEqualKernelsAddUp) {
  Store store = open_store(databases / "a.db");
  Demand demand = sample_demand();
  demand.kernels.push_back(demand.kernels[0]);
  demand.kernels.back().most_error = 1e-6;
  ASSERT_TRUE(keep_demand(store, demand));
  const std::vector<Demand> demands = db::demands(store, {}).value();
  EXPECT_EQ(demands[0].kernels.size(), 2u);
  EXPECT_EQ(kernel_of(demands[0], sample_record(3)).runs, 4);
  EXPECT_EQ(kernel_of(demands[0], sample_record(3)).most_error, 1e-6) << "the smaller one counts";
}

TEST_P(DemandTable, IsFoundByItsHashAndByPartOfItsName) {
  Store store = open_store(databases / "a.db");
  Demand other = sample_demand('b');
  other.name = "Mobile_Net 50%!";
  ASSERT_TRUE(keep_demand(store, sample_demand()));
  ASSERT_TRUE(keep_demand(store, other));
  const auto names = [&](const DemandFilter& filter) {
    std::vector<std::string> listed;
    const std::vector<Demand> found = db::demands(store, filter).value();
    for (const Demand& demand : found) listed.push_back(demand.name);
    return listed;
  };
  const std::vector<Demand> all = db::demands(store, {}).value();
  for (const Demand& demand : all)
    EXPECT_EQ(names({.hash = demand.hash}), std::vector{demand.name});
  EXPECT_TRUE(names({.hash = std::string(64, '0')}).empty());
  EXPECT_TRUE(names({.hash = all[0].hash.substr(0, 16)}).empty());
  EXPECT_TRUE(names({.hash = "' OR 1=1 --"}).empty());
  EXPECT_EQ(names({.part_of_name = "NET50 B"}), std::vector{sample_demand().name});
  EXPECT_EQ(names({.part_of_name = "e_net"}), std::vector{other.name}) << "_ is no placeholder";
  EXPECT_EQ(names({.part_of_name = "50%!"}), std::vector{other.name});
  EXPECT_EQ(names({.part_of_name = ""}).size(), 2u);
  EXPECT_EQ(names({.part_of_name = "%"}), std::vector{other.name});
  EXPECT_TRUE(names({.part_of_name = "vgg"}).empty());
  EXPECT_TRUE(names({.part_of_name = std::string(100'000, '%')}).empty());
}

TEST_P(DemandTable, PlacesAreApart) {
  Store store = open_store(databases / "a.db");
  Demand other = sample_demand();
  other.device = "Other CPU / 8 cores";
  other.asked_ms += 1000;
  ASSERT_TRUE(keep_demand(store, sample_demand()));
  ASSERT_TRUE(keep_demand(store, other));
  const std::vector<Demand> all = db::demands(store, {}).value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].device, other.device) << "the one that was left last comes first";
  EXPECT_NE(all[0].hash, all[1].hash);
  EXPECT_EQ(db::demands(store, {.device = other.device}).value().size(), 1u);
  EXPECT_EQ(db::demands(store, {.target = "other"}).value().size(), 0u);
  EXPECT_EQ(db::demands(store, {.codegen_abi = 77}).value().size(), 0u);
  EXPECT_EQ(db::demands(store, {.limit = 1}).value().size(), 1u);
}

TEST_P(DemandTable, ForgetsADemand) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(keep_demand(store, sample_demand('a')));
  ASSERT_TRUE(keep_demand(store, sample_demand('b')));
  const std::string hash = db::demands(store, {}).value()[0].hash;
  EXPECT_TRUE(drop_demand(store, hash).value());
  EXPECT_FALSE(drop_demand(store, hash).value());
  EXPECT_FALSE(drop_demand(store, "no hash").value());
  const std::vector<Demand> left = db::demands(store, {}).value();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].kernels.size(), 2u);
}

TEST_P(DemandTable, RefusesWhatCannotBeMeant) {
  Store store = open_store(databases / "a.db");
  const auto refused = [&](const std::function<void(Demand&)>& change) {
    Demand demand = sample_demand();
    change(demand);
    const Status status = keep_demand(store, demand);
    return !status && status.error().code == ErrorCode::Invalid;
  };
  EXPECT_TRUE(refused([](Demand& d) { d.source = "resnet50"; }));
  EXPECT_TRUE(refused([](Demand& d) { d.name = "\xff"; }));
  EXPECT_TRUE(refused([](Demand& d) { d.threads = 0; }));
  EXPECT_TRUE(refused([](Demand& d) { d.latency_ns = NAN; }));
  EXPECT_TRUE(refused([](Demand& d) { d.kernels[0].runs = 0; }));
  EXPECT_TRUE(refused([](Demand& d) { d.kernels[0].workload.clear(); }));
  EXPECT_TRUE(refused([](Demand& d) { d.kernels[0].schedule = std::string("tw1\0", 4); }));
  EXPECT_TRUE(refused([](Demand& d) { d.kernels[0].most_error = NAN; }));
  EXPECT_TRUE(db::demands(store, {}).value().empty());
}

TEST_P(DemandTable, IsNoFactThatMergesTakeOver) {
  Store store = open_store(databases / "a.db"), other = open_store(databases / "b.db");
  ASSERT_TRUE(keep_demand(store, sample_demand()));
  ASSERT_TRUE(merge_from(other, store));
  EXPECT_TRUE(db::demands(other, {}).value().empty());
  EXPECT_TRUE(verify(store).value().ok());
}

TEST_P(DemandTable, AReaderLeavesNone) {
  (void)open_store(databases / "a.db");
  Store reader = open_store(databases / "a.db", OpenMode::ReadOnly);
  EXPECT_EQ(keep_demand(reader, sample_demand()).error().code, ErrorCode::Database);
  EXPECT_TRUE(db::demands(reader, {}).value().empty());
}

TW_ON_BACKENDS(DemandTable);

}  // namespace
}  // namespace tw::db

// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/scheme_costs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/tuner/networks.h"
#include "tuner/network/contenders.h"

namespace tw::tuner {
namespace {

using ::testing::SizeIs;

class SchemeCost : public testing::Test {
 protected:
  SchemeCost() {
    work_.target.machine = Machine();
    work_.target.machine.core.vector_bytes = 64;
    work_.predicted.otherwise = 1e4;
  }

  SchemeCosts costs() {
    services_ = planned_services(work_, store_);
    context_.target = work_.target;
    auto costs = SchemeCosts::predict(graph_, context_, store_, services_.predict);
    if (!costs) throw std::runtime_error(costs.error().message);
    const Status refreshed = costs->refresh(store_);
    if (!refreshed) throw std::runtime_error(refreshed.error().message);
    return std::move(*costs);
  }

  void store(const dsl::Workload& workload, const std::string& layouts, double latency_ns,
             const Target& target) {
    dsl::Workload asked = workload;
    asked.layouts = dsl::parse_layouts(layouts).value();
    append(measured_record(asked, target, latency_ns));
  }
  void append(const db::Record& record) {
    const auto added = store_.append({&record, 1});
    ASSERT_TRUE(added) << added.error().message;
    ASSERT_EQ(added->quarantined, 0);
  }

  /// Returns the scheme with these layouts of the operator with index `op`.
  static graph::Scheme scheme(const SchemeCosts& costs, size_t op, const std::string& layouts) {
    return costs.schemes()[op][index(costs, op, layouts).second];
  }
  static SchemeIndex index(const SchemeCosts& costs, size_t op, const std::string& layouts) {
    const size_t group = costs.group_of(op);
    const auto& kernels = costs.kernels(group);
    for (size_t i = 0; i < kernels.size(); ++i)
      if (dsl::print_layouts(kernels[i].workload.layouts) == layouts) return {group, i};
    throw std::runtime_error("no scheme has the layouts " + layouts);
  }

  Folder folder_;
  db::Store store_ = open_store(folder_ / "t.db");
  graph::Graph graph_ = two_convolutions();
  const dsl::Workload conv_ = workload_of(small_conv);
  PlannedWork work_;
  CostContext context_;
  NetworkServices services_;
};

TEST_F(SchemeCost, AnOperatorThatIsNotProvedIsNamedWithoutItsIndices) {
  const auto costs = SchemeCosts::predict(
      graph_, {.target = work_.target}, store_,
      [](const dsl::Workload&, Precision) -> Result<Predicted> {
        return fail(ErrorCode::Invalid, "[legality] index 0 of 'in0', a * a, is not proved inside");
      });
  ASSERT_FALSE(costs);
  EXPECT_EQ(costs.error().message,
            "[network] operator 'c1' (conv2d): its kernel is not proved to read inside of its "
            "tensors, and is not built");
}

TEST_F(SchemeCost, KernelsThatConvertCostAsMuchAsTheFastestOtherUntilTheyArePredicted) {
  context_.estimates = true;
  work_.predicted.ns["conv2d in=NHWC out=NHWC"] = 8e3;
  work_.predicted.ns["conv2d in=NHWC out=NCHW"] = 9e3;
  work_.unsupported = {"conv2d in=NCHW out=NHWC"};
  SchemeCosts known = costs();
  const auto at = [&](const std::string& layouts) { return scheme(known, 0, layouts).cost_ns; };
  for (const char* layouts : {"in=NHWC out=NCHW", "in=NCHW out=NHWC", "in=NCHW16c out=NHWC"})
    EXPECT_NEAR(at(layouts), 8e3, 10) << layouts;
  EXPECT_EQ(at("in=NCHW out=NCHW"), 1e4);
  const SchemeSet two = {index(known, 0, "in=NHWC out=NCHW"), index(known, 0, "in=NCHW out=NHWC")};
  EXPECT_EQ(known.predict_estimated(two), true);
  EXPECT_EQ(at("in=NHWC out=NCHW"), 9e3);
  EXPECT_ANY_THROW(at("in=NCHW out=NHWC"));
  EXPECT_EQ(known.predict_estimated({index(known, 0, "in=NHWC out=NCHW")}), false);
  known.drop_estimated();
  EXPECT_THAT(known.estimated(), SizeIs(0));
  EXPECT_THAT(known.kernels(0), SizeIs(4));  // three that do not convert, one predicted
}

TEST_F(SchemeCost, NothingIsEstimatedOfOperatorsThatTheDatabaseKnows) {
  context_.estimates = true;
  store(conv_, "in=NCHW out=NHWC", 5e3, work_.target);
  EXPECT_THAT(costs().estimated(), SizeIs(0));
}

TEST_F(SchemeCost, NoKernelThatARecordOfALikeTargetGivesAScheduleIsEstimated) {
  context_.estimates = true;
  work_.target.features = {"avx", "avx2", "fma"};
  Target like = work_.target;
  like.features = {"avx", "avx2", "f16c", "fma"};
  store(conv_, "in=NCHW out=NHWC", 5e3, like);
  const SchemeCosts known = costs();
  EXPECT_FALSE(known.estimated().contains(index(known, 0, "in=NCHW out=NHWC")));
  EXPECT_TRUE(known.estimated().contains(index(known, 0, "in=NHWC out=NCHW")));
}

// An estimated kernel has no schedule yet, so its algorithm cannot be compared with that of a
// record.
TEST_F(SchemeCost, RecordsThatAppearLaterDoNotReachWhatIsEstimated) {
  context_.estimates = true;
  SchemeCosts known = costs();
  store(conv_, "in=NCHW out=NHWC", 5e3, work_.target);
  ASSERT_TRUE(known.refresh(store_));
  const SchemeIndex late = index(known, 0, "in=NCHW out=NHWC");
  EXPECT_TRUE(known.kernels(late.first)[late.second].schedule.empty());
  EXPECT_EQ(known.predict_estimated({late}), true);
  ASSERT_TRUE(known.refresh(store_));
  EXPECT_EQ(scheme(known, 0, "in=NCHW out=NHWC").cost_ns, 5e3);
}

TEST_F(SchemeCost, NothingIsEstimatedWhereAllKernelsWithSchedulesConvert) {
  context_.estimates = true;
  for (const char* layout : {"NCHW", "NHWC", "NCHW16c"})
    work_.unsupported.insert(fmt::format("conv2d in={0} out={0}", layout));
  const SchemeCosts known = costs();
  EXPECT_THAT(known.estimated(), SizeIs(0));
  EXPECT_EQ(scheme(known, 0, "in=NHWC out=NCHW").cost_ns, 1e4);
}

TEST_F(SchemeCost, PredictionsAreScaledByWhatTheSameOperatorTook) {
  EXPECT_EQ(scheme(costs(), 0, "in=NHWC out=NHWC").cost_ns, 1e4);
  store(conv_, "in=NCHW out=NCHW", 3e4, work_.target);
  const SchemeCosts known = costs();
  EXPECT_TRUE(scheme(known, 0, "in=NCHW out=NCHW").is_measured);
  EXPECT_EQ(scheme(known, 0, "in=NCHW out=NCHW").cost_ns, 3e4);
  EXPECT_FALSE(scheme(known, 0, "in=NHWC out=NHWC").is_measured);
  EXPECT_NEAR(scheme(known, 0, "in=NHWC out=NHWC").cost_ns, 3e4, 1);
  // The prediction for an operator without measurements is scaled by the ratio of measured to
  // predicted time of the other operators.
  EXPECT_NEAR(scheme(known, 2, "a=NCHW b=NCHW out=NCHW").cost_ns, 3e4, 1);
  EXPECT_EQ(known.count_measured(), 1u);
}

TEST_F(SchemeCost, TimesOfOneAlgorithmSayNothingOfAnother) {
  services_.predict = [](const dsl::Workload& workload, Precision) -> Result<Predicted> {
    const bool is_conv = workload.op == "conv2d";
    return Predicted{plain_schedule(workload) + (is_conv ? "winograd out x 4\n" : ""), 1e4, 0};
  };
  const auto planned = [&] {
    auto costs = SchemeCosts::predict(graph_, {.target = work_.target}, store_, services_.predict);
    if (!costs) throw std::runtime_error(costs.error().message);
    EXPECT_TRUE(costs->refresh(store_));
    return std::move(*costs);
  };
  // The direct algorithm was measured on another processor.
  Target other = work_.target;
  other.cpu = "another";
  store(conv_, "in=NCHW out=NCHW", 3e4, other);
  EXPECT_THAT(planned().at(0, 0).schedule, testing::HasSubstr("winograd"));
  // On this processor the time of the direct algorithm is known, but it does not scale predictions
  // of Winograd's.
  store(conv_, "in=NCHW out=NCHW", 3e4, work_.target);
  const SchemeCosts known = planned();
  EXPECT_EQ(scheme(known, 0, "in=NCHW out=NCHW").cost_ns, 3e4);
  EXPECT_EQ(scheme(known, 0, "in=NHWC out=NHWC").cost_ns, 1e4);
}

TEST_F(SchemeCost, CautionAddsWhatPredictionsAreWrongByAndNothingToMeasurements) {
  store(conv_, "in=NCHW out=NCHW", 1e4, work_.target);
  store(conv_, "in=NHWC out=NHWC", 4e4, work_.target);  // ratios 1 and 4: half and twice the mean
  const SchemeCosts known = costs();
  const auto likely = known.schemes(), cautious = known.schemes(Stance::Cautious);
  for (size_t i = 0; i < likely[0].size(); ++i)
    EXPECT_NEAR(cautious[0][i].cost_ns, likely[0][i].cost_ns * (likely[0][i].is_measured ? 1 : 2),
                1e-3);
}

TEST_F(SchemeCost, AnotherDevicesRecordGivesTheScheduleAndNoTime) {
  Target other = work_.target;
  other.device = "another processor";
  dsl::Workload asked = conv_;
  asked.layouts = {{"in", "NCHW"}, {"out", "NCHW"}};
  db::Record record = measured_record(asked, other, 1);
  record.schedule += "unroll out s\n";
  append(db::seal(std::move(record)));
  const SchemeCosts known = costs();
  EXPECT_FALSE(scheme(known, 0, "in=NCHW out=NCHW").is_measured);
  EXPECT_NE(known.kernels(0)[0].schedule.find("unroll"), std::string::npos);
}

TEST_F(SchemeCost, AKernelThatChoseItsLayoutsIsThatSchemes) {
  db::Record free = measured_record(conv_, work_.target, 2e3);
  free.schedule = "tw1\nset_layout in NCHW16c\nset_layout out NHWC\n";
  append(db::seal(std::move(free)));
  EXPECT_EQ(scheme(costs(), 1, "in=NCHW16c out=NHWC").cost_ns, 2e3);
}

// The weights and activations exceed L2 and fit in L3.
TEST_F(SchemeCost, WhatWasMeasuredHotIsNoMeasurementOfANetworkWhoseCachesAreNot) {
  work_.target.machine.caches[1].bytes = 16 << 10;
  work_.predicted.otherwise_hot = 8e3;
  db::Record hot = measured_record(
      dsl::with_layouts(conv_, {{"in", "NCHW"}, {"out", "NCHW"}}).value(), work_.target, 1.6e4);
  hot.schedule += "unroll out s\n";
  append(db::seal(std::move(hot)));
  const SchemeCosts known = costs();
  EXPECT_EQ(known.state(), dsl::CacheState::NetworkL3);
  EXPECT_EQ(known.kernels(0)[0].workload.asked(), "in=NCHW out=NCHW network:L3");
  EXPECT_EQ(known.count_measured(), 0u);
  EXPECT_NE(known.kernels(0)[0].schedule.find("unroll"), std::string::npos);
  // The hot time is twice its prediction, so the prediction for the caches of the network is
  // doubled too.
  EXPECT_NEAR(scheme(known, 0, "in=NCHW out=NCHW").cost_ns, 2e4, 1);
  EXPECT_NEAR(scheme(known, 0, "in=NHWC out=NHWC").cost_ns, 2e4, 1);
}

TEST_F(SchemeCost, WhatWasMeasuredInTheStateOfTheNetworkWins) {
  work_.target.machine.caches[1].bytes = 16 << 10;
  work_.predicted.otherwise_hot = 8e3;
  store(conv_, "in=NCHW out=NCHW", 1e3, work_.target);
  dsl::Workload conv = conv_;
  conv.state = dsl::CacheState::NetworkL3;
  store(conv, "in=NCHW out=NCHW", 3e4, work_.target);
  const SchemeCosts known = costs();
  EXPECT_TRUE(scheme(known, 0, "in=NCHW out=NCHW").is_measured);
  EXPECT_EQ(scheme(known, 0, "in=NCHW out=NCHW").cost_ns, 3e4);
  EXPECT_NEAR(scheme(known, 0, "in=NHWC out=NHWC").cost_ns, 3e4, 1);
}

TEST_F(SchemeCost, TimesToBeExpectedAreScaledByMeasurements) {
  work_.expected.otherwise = 7e3;
  const auto expected = [](const SchemeCosts& costs, size_t op, const std::string& layouts) {
    return costs.schemes(Stance::Expected)[op][index(costs, op, layouts).second].cost_ns;
  };
  const graph::TensorType type = {Float32, {1, 32, 8, 8}};
  const dsl::Layout plain = dsl::Layout::row_major(4),
                    last = dsl::Layout::parse("ACDB", "ABCD").value();
  const SchemeCosts unknown = costs();
  EXPECT_NEAR(expected(unknown, 0, "in=NHWC out=NHWC"), 7e3, 1e-6);
  EXPECT_NEAR(unknown.transform_cost(Stance::Expected)(type, plain, last), 7e3, 1e-6);
  EXPECT_EQ(unknown.transform_cost()(type, plain, last), 1e4);
  store(conv_, "in=NCHW out=NCHW", 3e3, work_.target);
  append(measured_record(transform_workload(type, last, plain).value(), work_.target, 5e3));
  const SchemeCosts known = costs();
  EXPECT_EQ(expected(known, 0, "in=NCHW out=NCHW"), 3e3);
  EXPECT_NEAR(expected(known, 0, "in=NHWC out=NHWC"), 3e3, 1e-6);
  EXPECT_NEAR(expected(known, 2, "a=NCHW b=NCHW out=NCHW"), 3e3, 1e-6);
  EXPECT_NEAR(known.transform_cost(Stance::Expected)(type, plain, last), 5e3, 1e-6);
}

TEST_F(SchemeCost, CopiesTakeTheirMeasuredTimeElseAScaledPrediction) {
  const graph::TensorType type = {Float32, {1, 32, 8, 8}};
  const dsl::Layout plain = dsl::Layout::row_major(4),
                    last = dsl::Layout::parse("ACDB", "ABCD").value();
  work_.predicted.ns["expr in0=ABCD out=ACDB"] = 100;
  work_.predicted.ns["expr in0=ACDB out=ABCD"] = 200;
  EXPECT_EQ(costs().transform_cost()(type, plain, last), 100);
  append(measured_record(transform_workload(type, plain, last).value(), work_.target, 50));
  const SchemeCosts known = costs();
  EXPECT_EQ(known.transform_cost()(type, plain, last), 50);
  EXPECT_EQ(known.transform(type, plain, last)->measured_ns, 50);
  EXPECT_NEAR(known.transform_cost()(type, last, plain), 100, 1e-6);
  EXPECT_EQ(known.transform(type, last, plain)->measured_ns, 0);
  EXPECT_NEAR(known.transform(type, last, plain)->expected_ns, 100, 1e-6);
}

TEST_F(SchemeCost, CopiesThatCannotBeScheduledAreImpossible) {
  const graph::TensorType type = {Float32, {1, 32, 8, 8}};
  const dsl::Layout plain = dsl::Layout::row_major(4),
                    last = dsl::Layout::parse("ACDB", "ABCD").value();
  work_.unsupported = {"expr in0=ABCD out=ACDB"};
  EXPECT_TRUE(std::isinf(costs().transform_cost()(type, plain, last)));
  EXPECT_FALSE(std::isinf(costs().transform_cost()(type, last, plain)));
}

TEST_F(SchemeCost, AReshapeCostsNothing) {
  graph_.operators.push_back(
      graph::make_operator(graph::reshape(Float32, {1, 32, 8, 8}, {32, 64}).value(), {"y"},
                           {"flat"}, {})
          .value());
  const SchemeCosts all = costs();
  ASSERT_THAT(all.schemes()[3], SizeIs(1));
  EXPECT_EQ(all.schemes()[3][0].cost_ns, 0);
  EXPECT_TRUE(all.at(3, 0).schedule.empty());
}

TEST_F(SchemeCost, OnlySchemesThatCouldChangeThePlanContend) {
  store(conv_, "in=NCHW out=NCHW", 1e4, work_.target);
  work_.predicted.ns["conv2d in=NCHW out=NHWC"] = 1.5e4;
  const SchemeCosts known = costs();
  auto cheapest = known.schemes();  // only its shape is used
  std::vector<std::vector<double>> plans;
  for (const auto& schemes : cheapest) plans.emplace_back(schemes.size(), 1e6);
  EXPECT_THAT(find_contenders(known, plans, 5e4, 1), SizeIs(0));
  // With this scheme for the first convolution, the best plan takes 3 us longer. The scheme may be
  // 5 us faster than it is predicted to be.
  for (size_t i = 0; i < cheapest[0].size(); ++i)
    if (dsl::print_layouts(known.kernels(0)[i].workload.layouts) == "in=NCHW out=NHWC")
      plans[0][i] = 5.3e4;
  const auto contenders = find_contenders(known, plans, 5e4, 1);
  ASSERT_THAT(contenders, SizeIs(1));
  EXPECT_NEAR(contenders[0].gain_ns, 2e3, 1);
  EXPECT_THAT(find_contenders(known, plans, 5e4, 3e3), SizeIs(0));
}

TEST_F(SchemeCost, AnOperatorInALoopCostsAsMuchAsAllItsRuns) {
  graph_ = graph::Graph();
  graph_.inputs = {{"x", {Float32, {1, 32, 8, 8}}}};
  graph_.constants["w"] = weights_of({32, 32, 3, 3}, 1, 288);
  graph_.operators = {graph::named(small_conv, {"s", "w"}, "next"),
                      graph::named(small_conv, {"y", "w"}, "z")};
  graph_.operators[0].loop = 0;
  graph::Loop loop;
  loop.name = "loop";
  loop.trips = 7;
  loop.states = {{"s", "x", "next", "y"}};
  graph_.loops = {loop};
  graph_.outputs = {"z"};
  const SchemeCosts known = costs();
  EXPECT_EQ(known.groups().size(), 1u);
  EXPECT_EQ(scheme(known, 0, "in=NHWC out=NHWC").cost_ns, 7e4);
  EXPECT_EQ(scheme(known, 1, "in=NHWC out=NHWC").cost_ns, 1e4);
  EXPECT_EQ(known.runs_of(0), 7);
  EXPECT_EQ(known.optimistic_ns(0, 0), 1e4);
}

}  // namespace
}  // namespace tw::tuner

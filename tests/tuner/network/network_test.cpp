// SPDX-License-Identifier: Apache-2.0
// Tests the rounds of tuning a network. The times of kernels come from a table.
#include "tuner/network/network.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>

#include "tests/tuner/networks.h"

namespace tw::tuner {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t second = 1'000'000'000;

class Network : public testing::Test {
 protected:
  Network() {
    environment_.clock = [this] { return now_ns_; };
    environment_.interrupts = &interrupts_;
    work_.target.machine = Machine();
    work_.target.machine.core.vector_bytes = 64;
    options_.tuning.effort = Effort::Full;
    options_.tuning.budget_s = 100;
    options_.plans = 1;
  }

  Result<TunedNetwork> run() {
    return tune_network(graph_, work_.target, options_, store_, environment_, {},
                        planned_services(work_, store_));
  }

  /// Makes the plan with row-major tensors the cheapest. It has two kernels.
  void predict_row_major_fastest() {
    work_.predicted.otherwise = 1e6;
    work_.predicted.ns["conv2d in=NCHW out=NCHW"] = 1e4;
    work_.predicted.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
  }

  /// Returns the layouts that the cheapest plan asks for in the operator with index `op`.
  static std::string layouts_of(const TunedNetwork& tuned, size_t op) {
    return dsl::print_layouts(tuned.plans[0].kernels[op].workload.layouts);
  }
  static std::vector<std::string> texts_of(const std::vector<TaskSpec>& tasks) {
    std::vector<std::string> texts;
    for (const TaskSpec& task : tasks)
      texts.push_back(task.workload.op + " " + dsl::print_layouts(task.workload.layouts));
    return texts;
  }

  Folder folder_;
  db::Store store_ = open_store(folder_ / "t.db");
  graph::Graph graph_ = two_convolutions();
  PlannedWork work_;
  NetworkOptions options_;
  Environment environment_ = test_environment();
  int64_t now_ns_ = second;
  std::atomic<int> interrupts_ = 0;
};

TEST_F(Network, WithoutEffortPredictionsDecide) {
  options_.tuning.effort = Effort::None;
  work_.predicted.otherwise = 1e6;
  work_.predicted.ns["conv2d in=NHWC out=NHWC"] = 9.9e3;
  work_.predicted.ns["conv2d in=NCHW out=NHWC"] = 1e4;
  work_.predicted.ns["conv2d in=NHWC out=NCHW"] = 1e4;
  work_.predicted.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_THAT(work_.rounds, SizeIs(0));
  EXPECT_EQ(tuned->ended, Ended::FromDatabase);
  EXPECT_EQ(layouts_of(*tuned, 0), "in=NCHW out=NHWC");
  EXPECT_EQ(layouts_of(*tuned, 1), "in=NHWC out=NCHW");
  EXPECT_EQ(tuned->measured, 0u);
}

TEST_F(Network, PlansAreChosenByOneTimeAndTellTheExpectedOne) {
  options_.tuning.effort = Effort::None;
  work_.predicted.otherwise = 1e6;
  work_.predicted.ns["conv2d in=NHWC out=NHWC"] = 9.9e3;
  work_.predicted.ns["conv2d in=NCHW out=NHWC"] = 1e4;
  work_.predicted.ns["conv2d in=NHWC out=NCHW"] = 1e4;
  work_.predicted.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
  const auto chosen = run();
  ASSERT_TRUE(chosen) << chosen.error().message;
  // By these expected times, another plan would be faster.
  work_.expected.otherwise = 100;
  work_.expected.ns["conv2d in=NCHW out=NHWC"] = 5e4;
  work_.expected.ns["conv2d in=NHWC out=NCHW"] = 7e4;
  work_.expected.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 3e3;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  const PlannedNetwork& planned = tuned->plans[0];
  EXPECT_EQ(planned.plan.schemes, chosen->plans[0].plan.schemes);
  ASSERT_EQ(planned.schemes.size(), 3u);
  EXPECT_EQ(planned.schemes[0].cost_ns, 5e4);
  EXPECT_EQ(planned.schemes[1].cost_ns, 7e4);
  EXPECT_EQ(planned.schemes[2].cost_ns, 3e3);
  EXPECT_EQ(tuned->schemes[1][planned.plan.schemes[1]].cost_ns, 7e4);
  double sum = 5e4 + 7e4 + 3e3;
  for (const graph::Transform& transform : planned.plan.transforms) {
    EXPECT_EQ(transform.cost_ns, 100);
    sum += transform.cost_ns;
  }
  EXPECT_NEAR(planned.plan.predicted_ns, sum, 1e-6);
  EXPECT_NEAR(planned.plan.lower_bound_ns / planned.plan.predicted_ns,
              chosen->plans[0].plan.lower_bound_ns / chosen->plans[0].plan.predicted_ns, 1e-9);
}

TEST_F(Network, WithoutEffortEveryKernelIsPredictedAndFewOfThoseThatConvert) {
  options_.tuning.effort = Effort::None;
  work_.predicted.ns["conv2d in=NHWC out=NHWC"] = 900;
  // The estimates of these kernels are below their predictions.
  for (const char* layouts : {"in=NHWC out=NCHW", "in=NCHW out=NHWC", "in=NCHW16c out=NHWC"})
    work_.predicted.ns[std::string("conv2d ") + layouts] = 1e5;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  for (const KernelChoice& kernel : tuned->plans[0].kernels) EXPECT_FALSE(kernel.schedule.empty());
  EXPECT_EQ(tuned->plans[0].plan.predicted_ns, 3e3);
  options_.tuning.effort = Effort::Full;
  const auto searched = run();
  ASSERT_TRUE(searched) << searched.error().message;
  EXPECT_LT(tuned->kernels, searched->kernels);
}

TEST_F(Network, Fault31_AnInterruptWhileSchemesAreEstimatedLeavesAPlan) {
  NetworkServices services = planned_services(work_, store_);
  std::atomic<bool> has_offered = false;  // several threads predict
  services.predict = [this, &has_offered, predict = services.predict](const dsl::Workload& workload,
                                                                      Precision precision) {
    // Copies are the last workloads that are always predicted. Later predictions are of schemes
    // that were estimated so far.
    const bool is_copy = workload.op == "expr";
    if (has_offered && !is_copy) interrupts_ = 1;
    if (is_copy) has_offered = true;
    return predict(workload, precision);
  };
  work_.predicted.ns["conv2d in=NHWC out=NHWC"] = 10;
  options_.tuning.effort = Effort::None;
  const auto tuned =
      tune_network(graph_, work_.target, options_, store_, environment_, {}, services);
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(interrupts_, 1);
  for (const KernelChoice& kernel : tuned->plans[0].kernels) EXPECT_FALSE(kernel.schedule.empty());
}

TEST_F(Network, WithoutEffortSmallKernelsArePredictedRoughly) {
  NetworkServices services = planned_services(work_, store_);
  std::set<std::string> full;
  services.predict = [&full, predict = services.predict](const dsl::Workload& workload,
                                                         Precision precision) {
    if (precision == Precision::Full) full.insert(workload.op);
    return predict(workload, precision);
  };
  work_.predicted.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 10;  // each convolution takes 1,000
  options_.tuning.effort = Effort::None;
  const auto tuned =
      tune_network(graph_, work_.target, options_, store_, environment_, {}, services);
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_THAT(full, testing::ElementsAre("conv2d"));
  EXPECT_TRUE(tuned->plans[0].kernels[2].is_rough);
  EXPECT_FALSE(tuned->plans[0].kernels[0].is_rough);
}

TEST_F(Network, RecordsWinOverPredictions) {
  options_.tuning.effort = Effort::None;
  for (const char* layouts : {"in=NCHW out=NCHW", "in=NCHW out=NCHW16c", "in=NCHW16c out=NCHW"}) {
    dsl::Workload conv = workload_of(small_conv);
    conv.layouts = dsl::parse_layouts(layouts).value();
    const bool is_plain = std::string(layouts) == "in=NCHW out=NCHW";
    const db::Record record = measured_record(conv, work_.target, is_plain ? 9e5 : 5e4);
    ASSERT_TRUE(store_.append({&record, 1}));
  }
  work_.predicted.otherwise = 1e6;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(layouts_of(*tuned, 0), "in=NCHW out=NCHW16c");
  EXPECT_EQ(layouts_of(*tuned, 1), "in=NCHW16c out=NCHW");
  EXPECT_EQ(tuned->plans[0].kernels[0].measured_ns, 5e4);
  EXPECT_EQ(tuned->measured, 3u);
}

TEST_F(Network, KernelsOfThePlanAreTunedCountedAsOftenAsTheyOccur) {
  options_.rounds = 1;
  predict_row_major_fastest();
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_THAT(work_.rounds, SizeIs(1));
  ASSERT_THAT(work_.rounds[0], SizeIs(2));
  EXPECT_EQ(work_.rounds[0][0].weight, 2);
  EXPECT_EQ(work_.rounds[0][1].weight, 1);
  EXPECT_EQ(tuned->plans[0].kernels[0].measured_ns, 1000);
}

// The predicted kernel is one of the trials, so a run that is too short to find a better one does
// not make the plan worse.
TEST_F(Network, TasksBeginWithThePredictedKernelUntilOneIsMeasured) {
  options_.rounds = 2;
  predict_row_major_fastest();
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_GE(work_.rounds.size(), 2u);
  for (const TaskSpec& task : work_.rounds[0]) EXPECT_FALSE(task.schedule.empty()) << task.name;
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(work_.rounds[1][i].schedule.empty());
}

TEST_F(Network, ARoundIsLongEnoughForItsTasks) {
  std::vector<double> budgets_s;
  work_.on_round = [&](const std::vector<TaskSpec>& tasks, const TuneOptions& options) {
    EXPECT_EQ(tasks.size(), 2u);
    EXPECT_FALSE(options.builds_winners);
    budgets_s.push_back(options.budget_s);
    now_ns_ += static_cast<int64_t>(options.budget_s * second);
  };
  predict_row_major_fastest();
  options_.rounds = 3;
  options_.tuning.budget_s = 100;
  ASSERT_TRUE(run());
  EXPECT_DOUBLE_EQ(budgets_s.front(), 30);  // a third of 90 s; 10 s are kept for the end
  budgets_s.clear();
  options_.tuning.budget_s = 2;
  ASSERT_TRUE(run());
  EXPECT_DOUBLE_EQ(budgets_s.front(), 1);  // half a second for each of two kernels
}

TEST_F(Network, WhatWasMeasuredReplacesWhatWasPredictedAndThePlanFollows) {
  const std::string plain = "conv2d in=NCHW out=NCHW", last = "in=NHWC out=NHWC";
  dsl::Workload known = workload_of(small_conv);
  known.layouts = dsl::parse_layouts(last).value();
  const db::Record record = measured_record(known, work_.target, 2e4);
  ASSERT_TRUE(store_.append({&record, 1}));
  work_.predicted.otherwise = work_.measured.otherwise = 1e6;
  work_.predicted.ns[plain] = 1e4;
  work_.predicted.ns["conv2d " + last] = 1.1e4;
  for (Times* times : {&work_.predicted, &work_.measured}) {
    times->ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
    for (const char* copy : {"expr in0=ABCD out=ACDB", "expr in0=ACDB out=ABCD"})
      times->ns[copy] = 400;
  }
  work_.measured.ns[plain] = 8e4;
  work_.measured.ns["conv2d " + last] = 2e4;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_GE(work_.rounds.size(), 1u);
  EXPECT_THAT(texts_of(work_.rounds[0]), Contains(plain));
  EXPECT_EQ(layouts_of(*tuned, 0), last);
}

// The sum is fast only with the channels last. If the second convolution writes this layout, a copy
// is saved.
TEST_F(Network, SchemesThatCouldChangeThePlanAreTunedToo) {
  const std::string other = "conv2d in=NCHW out=NHWC";
  work_.predicted.otherwise = work_.measured.otherwise = 1e6;
  for (Times* times : {&work_.predicted, &work_.measured}) {
    times->ns["conv2d in=NCHW out=NCHW"] = 1e4;
    times->ns["add_relu a=NHWC b=NHWC out=NHWC"] = 1e3;
    for (const char* copy : {"expr in0=ABCD out=ACDB", "expr in0=ACDB out=ABCD"})
      times->ns[copy] = 400;
  }
  work_.predicted.ns[other] = 1.08e4;
  work_.measured.ns[other] = 1e4;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_GE(work_.rounds.size(), 2u);
  EXPECT_THAT(texts_of(work_.rounds[0]), testing::Not(Contains(other)));
  EXPECT_THAT(texts_of(work_.rounds[1]), Contains(other));
  EXPECT_GE(tuned->rounds[1].contenders, 1u);
  EXPECT_EQ("conv2d " + layouts_of(*tuned, 1), other);
}

TEST_F(Network, EndsWhenNothingIsLeftToGain) {
  options_.rounds = 10;
  work_.predicted.otherwise = 1e6;
  work_.predicted.ns["conv2d in=NCHW out=NCHW"] = 1e3;
  work_.predicted.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Plateau);
  EXPECT_LT(tuned->rounds.size(), 5u);
}

TEST_F(Network, RoundsShareTheBudget) {
  std::vector<double> budgets;
  work_.ended = Ended::Budget;
  work_.on_round = [&](const auto&, const TuneOptions& options) {
    budgets.push_back(options.budget_s);
    now_ns_ += static_cast<int64_t>(options.budget_s * 1e9);
  };
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Budget);
  // The last round uses the time that was kept for kernels that turn out to be needed.
  ASSERT_THAT(budgets, SizeIs(4));
  EXPECT_NEAR(budgets.back(), closing_share * 100, 1e-6);
  budgets.pop_back();
  EXPECT_THAT(budgets, Each(testing::DoubleNear((1 - closing_share) * 100 / 3, 1e-6)));
}

// All trials are made in the first round, which takes 96 of the 100 s of the budget.
TEST_F(Network, NoRoundIsWithoutTasks) {
  options_.tuning.trials = 4;
  work_.on_round = [&](const auto&, const TuneOptions&) { now_ns_ += 96 * second; };
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  for (const auto& tasks : work_.rounds) EXPECT_FALSE(tasks.empty());
}

// The only round finds the kernel of its plan to be slow. So the next plan has another kernel,
// which is known, and copies that were never measured.
TEST_F(Network, KernelsThatTheLastPlanTurnsOutToNeedAreMeasured) {
  const std::string plain = "conv2d in=NCHW out=NCHW", last = "in=NHWC out=NHWC";
  dsl::Workload known = workload_of(small_conv);
  known.layouts = dsl::parse_layouts(last).value();
  const db::Record record = measured_record(known, work_.target, 2e4);
  ASSERT_TRUE(store_.append({&record, 1}));
  options_.rounds = 1;
  work_.predicted.otherwise = work_.measured.otherwise = 1e6;
  work_.predicted.ns[plain] = 1e4;
  work_.predicted.ns["conv2d " + last] = 1.1e4;
  for (Times* times : {&work_.predicted, &work_.measured}) {
    times->ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
    for (const char* copy : {"expr in0=ABCD out=ACDB", "expr in0=ACDB out=ABCD"})
      times->ns[copy] = 400;
  }
  work_.measured.ns[plain] = 8e4;
  work_.measured.ns["conv2d " + last] = 2e4;
  std::vector<TuneOptions> options;
  work_.on_round = [&](const auto&, const TuneOptions& given) { options.push_back(given); };
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_GE(work_.rounds.size(), 2u);
  EXPECT_THAT(texts_of(work_.rounds[0]), testing::Not(Contains("expr in0=ABCD out=ACDB")));
  EXPECT_THAT(texts_of(work_.rounds[1]), Contains("expr in0=ABCD out=ACDB"));
  EXPECT_EQ(options[0].trials, 0);
  EXPECT_EQ(options[1].trials, usual_batch_size);
  for (const KernelChoice& kernel : tuned->plans[0].kernels) EXPECT_GT(kernel.measured_ns, 0);
  ASSERT_FALSE(tuned->plans[0].plan.transforms.empty());
  for (const graph::Transform& copy : tuned->plans[0].plan.transforms) {
    const auto kernel = tuned->plans[0].transform({Float32, {1, 32, 8, 8}}, copy.from, copy.to);
    EXPECT_GT(kernel->measured_ns, 0);
  }
}

TEST_F(Network, AKernelGetsItsTrialsOnce) {
  options_.tuning.trials = 4;
  work_.predicted.otherwise = 1e6;
  work_.predicted.ns["conv2d in=NCHW out=NCHW"] = 1e3;
  work_.predicted.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  std::set<std::string> seen;
  for (const auto& round : work_.rounds)
    for (const TaskSpec& task : round) EXPECT_TRUE(seen.insert(task.workload.text()).second);
}

TEST_F(Network, Fault31_AnInterruptKeepsWhatWasMeasured) {
  work_.on_round = [&](const auto&, const auto&) { interrupts_ = 1; };
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->ended, Ended::Interrupted);
  EXPECT_THAT(tuned->rounds, SizeIs(1));
  EXPECT_GT(tuned->measured, 0u);
  ASSERT_THAT(tuned->plans, SizeIs(1));
}

TEST_F(Network, Fault31_AnInterruptBeforeThereIsAPlanIsAnError) {
  interrupts_ = 1;
  const auto tuned = run();
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Interrupted);
}

/// Sets times by which convolutions are fastest if they write blocks of 16 and read either such
/// blocks or the channels last. The sum is equally fast in all layouts.
void prefer_blocks(Times& times) {
  times.otherwise = 1e5;
  times.ns["conv2d in=NCHW out=NCHW"] = 4e4;
  times.ns["conv2d in=NCHW16c out=NCHW16c"] = 1e4;
  times.ns["conv2d in=NHWC out=NCHW16c"] = 0.9e4;
  for (const char* same : {"NCHW", "NHWC", "NCHW16c", "NCHW32c"})
    times.ns[fmt::format("add_relu a={0} b={0} out={0}", same)] = 1e3;
  for (const char* from : {"ABCD", "ACDB", "ABCD16b", "ABCD32b"})
    for (const char* to : {"ABCD", "ACDB", "ABCD16b", "ABCD32b"})
      times.ns[fmt::format("expr in0={} out={}", from, to)] = 4e3;
}

constexpr std::array all_choices = {graph::Choice::RowMajor, graph::Choice::Blocked,
                                    graph::Choice::Uniform, graph::Choice::LocalBest,
                                    graph::Choice::Global};

TEST_F(Network, KernelsOfAllChoicesAreTunedAndTheirPlansMeasured) {
  options_.choices = {all_choices.begin(), all_choices.end()};
  prefer_blocks(work_.predicted);
  prefer_blocks(work_.measured);
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_GE(work_.rounds.size(), 1u);
  const std::vector<std::string> first = texts_of(work_.rounds[0]);
  for (const char* conv :
       {"conv2d in=NCHW out=NCHW", "conv2d in=NCHW16c out=NCHW16c", "conv2d in=NHWC out=NCHW16c"})
    EXPECT_EQ(std::ranges::count(first, conv), 1) << conv;
  // These copies are for Choice::Blocked, whose operators compute in blocks and exchange row-major
  // arrays.
  EXPECT_THAT(first, Contains("expr in0=ABCD16b out=ABCD"));
  for (const TaskSpec& task : work_.rounds[0]) EXPECT_LE(task.weight, 2) << "as often as one plan";
  ASSERT_THAT(tuned->choices, SizeIs(all_choices.size()));
  std::vector<double> times;
  for (const auto& network : tuned->choices) {
    ASSERT_TRUE(network) << network.error().message;
    times.push_back(network->plan.predicted_ns);
    for (const KernelChoice& kernel : network->kernels) EXPECT_GT(kernel.measured_ns, 0);
  }
  EXPECT_EQ(times[0], 2 * 4e4 + 1e3);                // RowMajor
  EXPECT_EQ(times[1], 2 * 1e4 + 1e3 + 4 * 4e3);      // Blocked: row-major in between
  EXPECT_EQ(times[2], 2 * 1e4 + 1e3 + 2 * 4e3);      // Uniform: one block size
  EXPECT_EQ(times[3], 2 * 0.9e4 + 1e3 + 3 * 4e3);    // LocalBest: the fastest of each operator
  EXPECT_EQ(times[4], 0.9e4 + 1e4 + 1e3 + 2 * 4e3);  // Global: the fastest sum
}

// Only the row-major kernel is measured. Other kernels are predicted to be faster than its measured
// time, but the choice is made among measured schemes.
TEST_F(Network, ChoicesAreMadeAmongMeasuredSchemesInTheEnd) {
  options_.choices = {graph::Choice::LocalBest};
  options_.rounds = 1;
  work_.predicted.otherwise = 1.1e4;
  work_.measured.otherwise = 5e4;
  const std::string plain = "conv2d in=NCHW out=NCHW";
  work_.predicted.ns[plain] = 1e4;
  work_.measured.ns[plain] = 3e4;
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_TRUE(tuned->choices.at(0));
  EXPECT_EQ(tuned->choices[0]->kernels[0].measured_ns, 3e4);
}

TEST_F(Network, AChoiceWithoutAPlanSaysWhy) {
  options_.choices = {graph::Choice::RowMajor, graph::Choice::Global};
  work_.unsupported = {"add_relu a=NCHW b=NCHW out=NCHW"};
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_FALSE(tuned->choices.at(0));
  EXPECT_THAT(tuned->choices[0].error().message, HasSubstr("operator 'y'"));
  EXPECT_TRUE(tuned->choices.at(1));
}

TEST_F(Network, SchemesThatCannotBeScheduledAreLeftOut) {
  options_.tuning.effort = Effort::None;
  work_.predicted.ns["conv2d in=NCHW out=NCHW"] = 1;
  work_.unsupported = {"conv2d in=NCHW out=NCHW"};
  const auto tuned = run();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_NE(layouts_of(*tuned, 0), "in=NCHW out=NCHW");
}

TEST_F(Network, AnOperatorWithoutASchemeIsNamed) {
  graph_.operators.push_back(graph::named("softmax rows=8 cols=8 f32 fast", {"m"}, "s"));
  graph_.inputs.push_back({"m", {Float32, {8, 8}}});
  const dsl::Workload softmax = graph_.operators.back().workload;
  const OperatorGroup group{softmax, {false}, false, {}};
  for (const LayoutChoice& choice : offered_layouts(group, work_.target.machine))
    work_.unsupported.insert("softmax " + dsl::print_layouts(with_choice(group, choice).layouts));
  const auto tuned = run();
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(tuned.error().message, HasSubstr("'s' (softmax)"));
}

}  // namespace
}  // namespace tw::tuner

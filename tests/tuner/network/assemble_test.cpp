// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/assemble.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/random.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/model.h"
#include "schedules/space/default_schedule.h"
#include "tests/tuner/network/assembling.h"
#include "tests/tuner/networks.h"
#include "tuner/network/join_models.h"
#include "tuner/network/race.h"
#include "tuner/network/step_threads.h"

namespace tw::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Returns an Inception module: x -> c, which three branches read. y joins their results, and z is
/// pooled from y.
graph::Graph inception_module() {
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {1, 16, 8, 8}}}};
  const auto conv = [&](const std::string& from, int64_t channels, int64_t window,
                        const std::string& to) {
    graph.constants["w_" + to] = weights_of({16, channels, window, window}, graph.constants.size(),
                                            static_cast<double>(channels * window * window));
    graph.operators.push_back(
        graph::named(fmt::format("conv2d n=1 c={} h=8 w=8 k=16 r={} s={} pad={} f32 fast", channels,
                                 window, window, window / 2),
                     {from, "w_" + to}, to));
  };
  conv("x", 16, 3, "c");
  conv("c", 16, 1, "a1");
  conv("c", 16, 1, "b1");
  conv("b1", 16, 3, "b2");
  conv("c", 16, 3, "d1");
  conv("d1", 16, 3, "d2");
  conv("d2", 16, 3, "d3");
  const std::vector<int64_t> piece = {1, 16, 8, 8};
  graph.operators.push_back(joined({"a1", "b2", "d3"}, {piece, piece, piece}, 1, "y"));
  graph.operators.push_back(graph::named("global_avg_pool n=1 c=48 h=8 w=8 f32 fast", {"y"}, "z"));
  graph.outputs = {"z"};
  return graph;
}

/// Returns two recurrences over xs, one forwards and one backwards, as in a bidirectional LSTM.
graph::Graph two_directions(int64_t trips) {
  graph::Graph graph = graph::recurrence(trips);
  graph::Graph other = graph::recurrence(trips, true);
  const auto renamed = [&](std::string& tensor) {
    const bool is_shared = std::ranges::count(other.inputs, tensor, &graph::Port::name) > 0;
    if (!is_shared && !tensor.empty()) tensor = "other_" + tensor;
  };
  graph::Loop& loop = other.loops[0];
  renamed(loop.name);
  for (graph::Loop::State& state : loop.states)
    for (std::string* tensor : {&state.inside, &state.first, &state.next, &state.last})
      renamed(*tensor);
  for (graph::Loop::Slice& slice : loop.slices) renamed(slice.inside);
  for (graph::Loop::Slice& stack : loop.stacks) {
    renamed(stack.inside);
    renamed(stack.outside);
  }
  for (auto& share : loop.shares) renamed(share.inside);
  for (auto& [name, constant] : other.constants) graph.constants["other_" + name] = constant;
  for (graph::Operator& op : other.operators) {
    std::ranges::for_each(op.inputs, renamed);
    std::ranges::for_each(op.outputs, renamed);
    if (op.loop) op.loop = 1;
    graph.operators.push_back(op);
  }
  for (std::string& output : other.outputs) {
    renamed(output);
    graph.outputs.push_back(output);
  }
  graph.loops.push_back(loop);
  return graph;
}

class Assembling : public testing::Test {
 protected:
  Result<TunedNetwork> planned(const graph::Graph& graph, const Times& times) {
    NetworkOptions options;
    options.tuning.effort = Effort::None;
    options.plans = 1;
    return tune_network(graph, target_, options, store_, environment_, {},
                        predicting(target_, times));
  }

  /// Expects that the model of the cheapest plan computes the same as the interpreter.
  void expect_as_interpreted(const graph::Graph& graph, const Times& times = {}) {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
    const Status valid = graph::validate(graph);
    ASSERT_TRUE(valid) << valid.error().message;
    const auto tuned = planned(graph, times);
    ASSERT_TRUE(tuned) << tuned.error().message;
    const auto file = build_model(graph, *tuned, 0, {"test", target_}, environment_, kernels_);
    ASSERT_TRUE(file) << file.error().message;
    model_ = file->file;
    EXPECT_EQ(file->unverified, model_.kernels.size());
    const auto model = runtime::Model::load(file->file);
    ASSERT_TRUE(model) << model.error().message;
    expect_as_interpreted_by(graph, *model);
  }

  /// Expects that the model with all bands computes the same as the interpreter, and that running
  /// side by side gives exactly the same results as running in order.
  void expect_side_by_side(const graph::Graph& graph, const Times& times) {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
    const Status valid = graph::validate(graph);
    ASSERT_TRUE(valid) << valid.error().message;
    const auto tuned = planned(graph, times);
    ASSERT_TRUE(tuned) << tuned.error().message;
    const auto in_order =
        build_model(graph, *tuned, 0, {"test", target_, 2}, environment_, kernels_);
    ASSERT_TRUE(in_order) << in_order.error().message;
    EXPECT_TRUE(in_order->file.variants[0].bands.empty());
    const std::vector<bool> all(in_order->bands, true);
    const auto built =
        build_model(graph, *tuned, 0, {"test", target_, 2, all}, environment_, kernels_);
    ASSERT_TRUE(built) << built.error().message;
    model_ = built->file;
    EXPECT_EQ(model_.variants[0].bands.size(), in_order->bands);
    EXPECT_EQ(steps(), steps_of(in_order->file)) << "the order does not depend on the choice";
    const auto model = runtime::Model::load(model_);
    ASSERT_TRUE(model) << model.error().message;
    expect_as_interpreted_by(graph, *model);
    auto expected = random_arrays(*model, 7), arrays = random_arrays(*model, 7);
    runtime::ThreadPool one({.threads = 1}), pool({.threads = 3});
    ASSERT_TRUE(model->call(expected->buffers(), one));
    for (int call = 0; call < 200; ++call) {
      for (size_t i = graph.inputs.size(); i < arrays->arrays.size(); ++i)
        std::ranges::fill(arrays->arrays[i].data, std::byte{0xff});
      ASSERT_TRUE(model->call(arrays->buffers(), pool));
      for (size_t i = 0; i < arrays->arrays.size(); ++i)
        ASSERT_EQ(arrays->arrays[i].data, expected->arrays[i].data) << "call " << call;
    }
  }

  std::vector<std::string> steps() const { return steps_of(model_); }
  static std::vector<std::string> steps_of(const runtime::ModelFile& model) {
    std::vector<std::string> names;
    for (const runtime::ModelStep& step : model.variants[0].steps) names.push_back(step.name);
    return names;
  }

  Folder folder_;
  db::Store store_ = open_store(folder_ / "t.db");
  const Target target_ = host_target();
  Environment environment_ = test_environment();
  BuiltKernels kernels_;
  runtime::ModelFile model_;
};

TEST_F(Assembling, AModelComputesWhatTheInterpreterDoes) {
  expect_as_interpreted(two_convolutions());
  if (IsSkipped()) return;
  EXPECT_EQ(model_.kernels.size(), 2u);  // the two convolutions share one kernel
  EXPECT_THAT(steps(), ElementsAre("c1", "c2", "y"));
}

TEST_F(Assembling, TransformsStandBeforeTheirFirstReader) {
  Times times{.otherwise = 1e6};
  times.ns["conv2d in=NHWC out=NHWC"] = 1e3;
  times.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
  for (const char* copy : {"expr in0=ABCD out=ACDB", "expr in0=ACDB out=ABCD"})
    times.ns[copy] = 400;
  expect_as_interpreted(two_convolutions(), times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), ElementsAre("x: NCHW -> NHWC", "c1", "c2", "c2: NHWC -> NCHW", "y"));
}

TEST_F(Assembling, OperatorsThatExchangeRowMajorArraysReadTheirOwnCopies) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
  const graph::Graph graph = two_convolutions();
  Times times{.otherwise = 1e6};
  for (const int block : {4, 8, 16}) {  // possible numbers of lanes in a vector
    times.ns[fmt::format("conv2d in=NCHW{0}c out=NCHW{0}c", block)] = 1e3;
    times.ns[fmt::format("expr in0=ABCD out=ABCD{}b", block)] = 400;
    times.ns[fmt::format("expr in0=ABCD{}b out=ABCD", block)] = 400;
  }
  NetworkServices services = predicting(target_, times);
  services.tune_all = [](const auto& tasks, const auto&, const auto&) {
    return std::vector<Result<Tuned>>(tasks.size(), fail(ErrorCode::NoCandidate, "not measured"));
  };
  NetworkOptions options;
  options.choices = {graph::Choice::Blocked};
  const auto tuned = tune_network(graph, target_, options, store_, environment_, {}, services);
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_TRUE(tuned->choices.at(0)) << tuned->choices[0].error().message;
  const auto built =
      build_model(graph, *tuned, *tuned->choices[0], {"test", target_}, environment_, kernels_);
  ASSERT_TRUE(built) << built.error().message;
  model_ = built->file;
  const auto model = runtime::Model::load(built->file);
  ASSERT_TRUE(model) << model.error().message;
  expect_as_interpreted_by(graph, *model);
  // Between the convolutions, c1 is copied from blocks to row-major and back.
  EXPECT_THAT(steps(), SizeIs(7));
  EXPECT_THAT(steps()[2], HasSubstr("-> NCHW"));
  EXPECT_THAT(steps()[3], HasSubstr("c1: NCHW -> NCHW"));
}

TEST_F(Assembling, ALoopRunsItsStepsOnSlices) {
  for (const bool is_backward : {false, true})
    for (const int64_t trips : {1, 2, 5}) {
      expect_as_interpreted(graph::recurrence(trips, is_backward));
      if (IsSkipped() || HasFatalFailure()) return;
      const runtime::ModelVariant& variant = model_.variants[0];
      ASSERT_EQ(variant.loops.size(), 1u);
      EXPECT_EQ(variant.loops[0].trips, trips);
      // The loop has its four operators and no copies.
      EXPECT_EQ(variant.loops[0].count, 4);
      const auto again = runtime::parse_model(runtime::model_bytes(model_).value());
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(*again, model_);
    }
}

TEST_F(Assembling, ValuesThatALoopHandsOnTwiceAreCopied) {
  // h1 is the next value of two states, and it is stacked in both orders. y is a reshape of a
  // slice.
  graph::Graph graph = graph::recurrence(3);
  graph.loops[0].states[1].next = "h1";
  graph.loops[0].stacks.push_back({"h1", "reversed", true});
  graph.operators[3] = reshaped("x", "y", {2, 3}, {3, 2});
  graph.operators[3].loop = 0;
  graph.operators[4] = reshaped("ys", "z", {3, 3, 2}, {18});
  graph.outputs.push_back("reversed");
  expect_as_interpreted(graph);
}

TEST_F(Assembling, LoopsOfBlockedImagesAreRowMajorAtTheirBorders) {
  Times times{.otherwise = 1e6};
  times.ns["conv2d in=NHWC out=NHWC"] = 1e3;
  for (const char* copy : {"expr in0=ABCD out=ACDB", "expr in0=ACDB out=ABCD"})
    times.ns[copy] = 400;
  graph::Graph graph;
  const std::vector<int64_t> image = {1, 32, 8, 8};
  graph.inputs = {{"x", {Float32, image}}};
  graph.constants["w"] = weights_of({32, 32, 3, 3}, 1, 288);
  graph.operators = {graph::named(small_conv, {"s", "w"}, "c"),
                     graph::named(small_conv, {"c", "w"}, "next")};
  graph::Loop loop;
  loop.name = "loop";
  loop.trips = 3;
  loop.states = {{"s", "x", "next", "y"}};
  graph.loops = {loop};
  for (graph::Operator& op : graph.operators) op.loop = 0;
  graph.outputs = {"y"};
  expect_as_interpreted(graph, times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), ElementsAre("x: NCHW -> NCHW", "s: NCHW -> NHWC", "c", "next",
                                   "next: NHWC -> NCHW", "y: NCHW -> NCHW"));
}

TEST_F(Assembling, AReshapeIsAnotherNameOfItsArray) {
  expect_as_interpreted(with_reshape());
  if (IsSkipped()) return;
  // c and f are one array, but the caller wants both as results, so one is copied.
  EXPECT_THAT(steps(), testing::UnorderedElementsAre("c", "y", HasSubstr("->")));
}

TEST_F(Assembling, ReshapesKeepBlocksOfChannels) {
  Times times{.otherwise = 1e6};
  for (const char* layouts : {"NCHW out=NCHW16c", "NCHW16c out=NCHW", "NGHW4gC out=NGHW4gC",
                              "NCHW out=NCHW8c", "NCHW8c out=NCHW", "NGHW2gC out=NGHW2gC"})
    times.ns[std::string("conv2d in=") + layouts] = 1e3;
  expect_as_interpreted(grouped_between_others(), times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), ElementsAre("c", "h", "y"));
}

TEST_F(Assembling, ATransposeToChannelsLastIsAnotherName) {
  graph::Graph graph = two_convolutions();
  const dsl::Axis n("n", 1), c("c", 32), h("h", 8), w("w", 8);
  const dsl::Tensor in = dsl::input("in", Float32, {n, c, h, w});
  const dsl::Compute last =
      dsl::build(dsl::compute("out", {n, h, w, c}, in.read_at({n, c, h, w}))).value();
  graph.operators.back() = graph::make_operator(last, {"c2"}, {"y"}, {}).value();
  Times times{.otherwise = 1e6};
  times.ns["conv2d in=NCHW out=NHWC"] = times.ns["conv2d in=NHWC out=NHWC"] = 1e3;
  expect_as_interpreted(graph, times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), ElementsAre("c1", "c2"));
}

TEST_F(Assembling, PiecesOfAConcatenationAreWrittenWhereTheyBelong) {
  const graph::Graph graph = dense_block();
  expect_as_interpreted(graph);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), ElementsAre("c0", "c1", "c2", "c3", "pooled"));
  const runtime::ModelVariant& variant = model_.variants[0];
  constexpr int64_t piece = 16 * 4 * 4 * 4;
  EXPECT_EQ(variant.arena_bytes, 4 * piece);
  EXPECT_EQ(runtime::least_arena_bytes(model_, variant), 4 * piece);
  for (const runtime::ModelTensor& tensor : variant.tensors) {
    if (tensor.place != runtime::Place::Arena) continue;
    const int64_t before =
        tensor.name[0] == 'c' ? tensor.name[1] - '0' : 0;  // y1 begins where c0 begins
    EXPECT_EQ(tensor.at, before * piece) << tensor.name;
  }
}

TEST_F(Assembling, PlansPreferLayoutsInWhichPiecesLieInPlace) {
  const graph::Graph graph = dense_block();
  Times times{.otherwise = 1000};
  times.ns["conv2d in=NCHW out=NHWC"] = times.ns["conv2d in=NHWC out=NHWC"] = 900;
  const auto produced = [&](const std::string& tensor) {
    const auto tuned = planned(graph, times);
    if (!tuned) return tuned.error().message;
    return tuned->plans[0].plan.produced.at(tensor).to_string("NCHW");
  };
  EXPECT_NE(produced("y3"), "NHWC");
  // If kernels with the channels last save more time than the concatenations then cost, the plan
  // chooses them.
  times.ns["conv2d in=NCHW out=NHWC"] = times.ns["conv2d in=NHWC out=NHWC"] = 1;
  times.ns["global_avg_pool in=NHWC out=NCHW"] = 1;
  for (const char* pieces : {"in0=NCHW in1=NCHW out=NHWC", "in0=ACDB in1=ACDB out=ACDB"})
    times.ns[std::string("expr ") + pieces] = 1;
  EXPECT_EQ(produced("y3"), "NHWC");
}

TEST_F(Assembling, PiecesInBlocksLieInPlaceToo) {
  Times times{.otherwise = 1e6};
  times.ns["global_avg_pool in=NCHW16c out=NCHW"] = 1e3;
  for (const char* layouts : {"in=NCHW out=NHWC", "in=NHWC out=NHWC", "in=NCHW16c out=NHWC"})
    times.ns[std::string("conv2d ") + layouts] = 1e3;  // with 16 channels, NCHW16c is NHWC
  for (const char* copy : {"expr in0=ABCD out=ACDB", "expr in0=ACDB out=ABCD"})
    times.ns[copy] = 1e3;
  if (!host_target().has("avx512f")) GTEST_SKIP() << "[SKIP] blocks of 16 need AVX-512";
  expect_as_interpreted(dense_block(), times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), ElementsAre("c0", "c1", "c2", "c3", "pooled"));
}

TEST_F(Assembling, PiecesThatLieElsewhereAreCopied) {
  Times times{.otherwise = 1000};
  times.ns["expr in0=ABCD out=ABCD"] = 1;
  expect_as_interpreted(awkward_concatenations(), times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), testing::IsSupersetOf({"a", "b", "x: NCHW -> NCHW", "a: NCHW -> NCHW"}));
  for (const char* concatenation : {"y1", "y2", "y3", "y4"})
    EXPECT_THAT(steps(), testing::Not(testing::Contains(concatenation)));
}

TEST_F(Assembling, DearCopiesLeaveConcatenationsToKernels) {
  Times times{.otherwise = 1000};
  times.ns["expr in0=ABCD out=ABCD"] = 5000;
  expect_as_interpreted(awkward_concatenations(), times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), testing::IsSupersetOf({"y1", "y2", "y3", "y4"}));
}

TEST_F(Assembling, ConcatenationsOfBatchesAreKernels) {
  expect_as_interpreted(awkward_concatenations(2));
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), testing::IsSupersetOf({"y1", "y2", "y3", "y4"}));
}

TEST_F(Assembling, ConcatenationsAlongOtherDimensionsAndOfOddChannels) {
  graph::Graph graph;
  const std::vector<int64_t> image = {1, 16, 4, 4}, odd = {1, 10, 4, 4}, large = {1, 26, 4, 4};
  graph.inputs = {{"x", {Float32, image}}, {"u", {Float32, odd}}};
  const auto named = [](const std::string& sizes, const std::string& from, const std::string& to) {
    return graph::named("add_relu " + sizes + " f32 fast", {from, from}, to);
  };
  graph.operators = {named("n=1 c=16 h=4 w=4", "x", "a"),
                     named("n=1 c=16 h=4 w=4", "a", "b"),
                     named("n=1 c=10 h=4 w=4", "u", "c"),
                     joined({"a", "b"}, {image, image}, 0, "batch"),
                     joined({"a", "b"}, {image, image}, 2, "rows"),
                     joined({"c", "b"}, {odd, image}, 1, "odd"),
                     named("n=2 c=16 h=4 w=4", "batch", "of_batch"),
                     named("n=1 c=16 h=8 w=4", "rows", "of_rows"),
                     named("n=1 c=26 h=4 w=4", "odd", "of_odd")};
  graph.outputs = {"of_batch", "of_rows", "of_odd"};
  Times times{.otherwise = 1000};
  times.ns["expr in0=ABCD out=ABCD"] = 5000;
  expect_as_interpreted(graph, times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), testing::Not(testing::Contains("batch")));
  EXPECT_THAT(steps(), testing::Contains("odd")) << "b is a part of batch";
}

TEST_F(Assembling, WhatAReshapeNamesMayBeAPiece) {
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {1, 16, 4, 4}}}};
  const auto add = "add_relu n=1 c=16 h=4 w=4 f32 fast";
  graph.operators = {
      graph::named(add, {"x", "x"}, "a"),
      graph::named(add, {"a", "x"}, "b"),
      reshaped("a", "rows_of_a", {1, 16, 4, 4}, {16, 16}),
      reshaped("b", "rows_of_b", {1, 16, 4, 4}, {16, 16}),
      joined({"rows_of_a", "rows_of_b", "rows_of_a"}, {{16, 16}, {16, 16}, {16, 16}}, 0, "rows"),
      reshaped("rows", "flat", {48, 16}, {768}),
      graph::named("softmax rows=48 cols=16 f32 fast", {"rows"}, "y")};
  graph.outputs = {"y", "flat"};
  Times times{.otherwise = 1000};
  times.ns["expr in0=AB out=AB"] = 1;
  expect_as_interpreted(graph, times);
  if (IsSkipped()) return;
  EXPECT_THAT(steps(), ElementsAre("a", "b", "rows_of_a: AB -> AB", "y", "flat: A -> A"));
}

TEST_F(Assembling, ResultsThatAreInputsOrConstantsAreCopied) {
  graph::Graph graph = two_convolutions();
  graph.constants["k"] = graph::make_constant(graph::normal_array({3, 5}, 9));
  graph.outputs = {"x", "y", "k"};
  expect_as_interpreted(graph);
}

TEST_F(Assembling, OneConstantInTwoLayoutsIsPackedTwiceAndOtherwiseOnce) {
  graph::Graph graph = two_convolutions();
  graph.operators[1].inputs[1] = "w1";
  expect_as_interpreted(graph);
  if (IsSkipped()) return;
  size_t constants = 0;
  for (const runtime::ModelTensor& tensor : model_.variants[0].tensors)
    constants += tensor.place == runtime::Place::Constant && tensor.bytes > 0;
  EXPECT_EQ(constants, 1u) << "weights that only preparations read are not stored";
}

/// Returns p = x u1, q = p u2, y = q u1. The stages u1 and u2 are computed from constants alone, u1
/// from v1 and s, u2 from v2 and s.
graph::Graph with_constant_stages() {
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {6, 8}}}};
  const auto compute = dsl::parse_compute(R"(
input a: f32[6, 8]
weight w: f32[8, 8]
weight s: f32[8]
u: f32[c=8, k=8] = w[k, c] * w[k, c] + s[k]
out: f32[m=6, k=8] = sum(c=8) a[m, c] * u[c, k]
)")
                           .value();
  for (const char* name : {"v1", "v2"})
    graph.constants[name] =
        graph::make_constant(graph::normal_array({8, 8}, name[1] == '1' ? 1 : 2));
  graph.constants["s"] = graph::make_constant(graph::normal_array({8}, 3));
  graph.operators = {
      graph::make_operator(compute, {"x", "v1", "s"}, {"p"}, graph.constants).value(),
      graph::make_operator(compute, {"p", "v2", "s"}, {"q"}, graph.constants).value(),
      graph::make_operator(compute, {"q", "v1", "s"}, {"y"}, graph.constants).value()};
  graph.outputs = {"y"};
  return graph;
}

/// Returns the model of a script whose kernels prepare the constant stage t0, assembled for
/// `target`.
Result<runtime::ModelFile> assembled_with_preparation(const graph::Graph& graph,
                                                      const TunedNetwork& tuned,
                                                      const Target& target,
                                                      const Environment& environment) {
  TW_TRY(Script script, make_script(graph, tuned.plans[0]));
  for (KernelRequest& kernel : script.kernels) kernel.schedule = "tw1\nprepare t0\nparallel t0 a";
  BuiltKernels built;
  TW_TRY(const auto kernels, build_kernels(script.kernels, target, environment, built));
  return assemble(graph, script, kernels,
                  {.name = "test", .target = target.to_string(), .threads = 1, .plan = ""});
}

TEST_F(Assembling, PreparedConstantsAreComputedOnceAndTheirSourcesAreNotStored) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
  const graph::Graph graph = with_constant_stages();
  const auto tuned = planned(graph, {});
  ASSERT_TRUE(tuned) << tuned.error().message;
  const auto file = assembled_with_preparation(graph, *tuned, target_, environment_);
  ASSERT_TRUE(file) << file.error().message;
  const auto model = runtime::Model::load(*file);
  ASSERT_TRUE(model) << model.error().message;
  expect_as_interpreted_by(graph, *model);
  EXPECT_EQ(file->constants.size(), 2 * 8 * 8 * sizeof(float));  // v1 is prepared once
  const auto bytes = runtime::model_bytes(*file);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(runtime::parse_model(*bytes).value(), *file);

  runtime::ModelFile wrong = *file;
  for (runtime::ModelTensor& tensor : wrong.variants[0].tensors)
    if (tensor.place == runtime::Place::Constant) tensor.bytes = 0;
  EXPECT_FALSE(runtime::check_model(wrong));
}

TEST_F(Assembling, PreparedConstantsOfOtherMachinesAreComputedByTheSameLoops) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
  const graph::Graph graph = with_constant_stages();
  const auto tuned = planned(graph, {});
  ASSERT_TRUE(tuned) << tuned.error().message;
  const auto here = assembled_with_preparation(graph, *tuned, target_, environment_);
  const auto there =
      assembled_with_preparation(graph, *tuned, *parse_target("opencl"), environment_);
  ASSERT_TRUE(here && there) << (here ? there : here).error().message;
  std::vector<std::string> names;
  for (const auto* file : {&*here, &*there})
    for (const runtime::ModelTensor& tensor : file->variants[0].tensors) {
      if (tensor.place != runtime::Place::Constant || tensor.bytes == 0) continue;
      names.push_back(tensor.name);
      const auto* values = reinterpret_cast<const float*>(file->constants.data() + tensor.at);
      const dsl::Array& v = *graph.constants.at(tensor.name.substr(6, 2)).array;
      const dsl::Array& s = *graph.constants.at("s").array;
      for (int64_t c = 0; c < 8; ++c)
        for (int64_t k = 0; k < 8; ++k)
          EXPECT_NEAR(values[c * 8 + k],
                      v.get_float(k * 8 + c) * v.get_float(k * 8 + c) + s.get_float(k), 1e-5);
    }
  EXPECT_THAT(names, ElementsAre("t0 of v1, s", "t0 of v2, s", "t0 of v1, s", "t0 of v2, s"));
}

TEST_F(Assembling, ModelsRaceByTurns) {
  expect_as_interpreted(two_convolutions());
  if (IsSkipped()) return;
  const std::vector<runtime::Model> models(2, runtime::Model::load(model_).value());
  int64_t now = 0;
  const Clock clock = [&] { return now += 1000; };  // one call takes 1000 ns
  const auto times = race(models, clock, {.budget_s = 1e-5});
  ASSERT_TRUE(times) << times.error().message;
  EXPECT_THAT(*times, ElementsAre(1000, 1000));
  const std::atomic<int> interrupts = 1;
  const auto stopped = race(models, clock, {.stop = stop_on_interrupt(&interrupts)});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::Interrupted);
}

TEST_F(Assembling, StepsAreTimedOnOneAndOnAllThreads) {
  expect_as_interpreted(two_convolutions());
  if (IsSkipped()) return;
  const runtime::Model model = runtime::Model::load(model_).value();
  int64_t now = 0;
  const Clock clock = [&] { return now += 1000; };
  const auto use = step_threads(model, clock, {.threads = 2, .budget_s = 1e-4, .most_rounds = 3});
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_THAT(use->limits, ElementsAre(0, 0, 0)) << "three rounds say nothing";
  EXPECT_THAT(use->side_by_side, ElementsAre());
  const std::atomic<int> interrupts = 1;
  const auto stopped = step_threads(
      model, clock, {.threads = 2, .budget_s = 1e-4, .stop = stop_on_interrupt(&interrupts)});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::Interrupted);
}

TEST_F(Assembling, BranchesRunSideBySide) {
  expect_side_by_side(inception_module(), {.otherwise = 1e5});
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_THAT(steps(), ElementsAre("c", "d1", "d2", "d3", "b1", "b2", "a1", "z"));
  const runtime::ModelBand band{1, {3, 2, 1}};
  EXPECT_THAT(model_.variants[0].bands, ElementsAre(band));
  // A band is refused if one chain would read an array that another chain may not have written yet.
  model_.variants[0].bands = {{1, {1, 2, 3}}};
  EXPECT_FALSE(runtime::check_model(model_));
}

TEST_F(Assembling, DirectionsOfARecurrenceRunSideBySide) {
  for (const int64_t trips : {1, 4, 7}) {
    expect_side_by_side(two_directions(trips), {.otherwise = 1e5});
    if (IsSkipped() || HasFatalFailure()) return;
    const runtime::ModelVariant& variant = model_.variants[0];
    ASSERT_EQ(variant.loops.size(), 2u);
    ASSERT_EQ(variant.bands.size(), 1u);
    EXPECT_THAT(variant.bands[0].chains, SizeIs(2));
  }
}

TEST_F(Assembling, BandsAreTimedBesideTheSameStepsInOrder) {
  expect_side_by_side(inception_module(), {.otherwise = 1e5});
  if (IsSkipped() || HasFatalFailure()) return;
  const runtime::Model model = runtime::Model::load(model_).value();
  int64_t now = 0;
  const Clock clock = [&] { return now += 1000; };
  const auto use = step_threads(model, clock, {.threads = 2, .budget_s = 1e-4, .most_rounds = 3});
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_THAT(use->limits, SizeIs(8));
  EXPECT_THAT(use->side_by_side, ElementsAre(false)) << "three rounds say nothing";
}

TEST_F(Assembling, VariantsThatAreJoinedShareTheirConstantsAndCompute) {
  const auto of_batch = [](int64_t batch) {
    graph::Graph graph;
    graph.inputs = {{"x", {Float32, {batch, 32}}}};
    graph.constants["w"] = graph::make_constant(graph::normal_array({32, 16}, 1));
    graph.operators = {
        graph::named("dense m=" + std::to_string(batch) + " n=16 k=32 f32 fast", {"x", "w"}, "y")};
    graph.outputs = {"y"};
    return graph;
  };
  std::vector<runtime::ModelFile> models;
  for (const int64_t batch : {1, 8}) {
    expect_as_interpreted(of_batch(batch));
    if (IsSkipped()) return;
    models.push_back(model_);
  }
  const runtime::ModelFile joined =
      join_models(std::vector<const runtime::ModelFile*>{&models[0], &models[1]});
  EXPECT_THAT(joined.variants, SizeIs(2));
  const auto model = runtime::Model::load(joined);
  ASSERT_TRUE(model) << model.error().message;
  expect_as_interpreted_by(of_batch(1), *model, 0);
  expect_as_interpreted_by(of_batch(8), *model, 1);
}

TEST_F(Assembling, ABuildThatFailsNamesTheWorkload) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
  const std::vector<KernelRequest> requests = {{workload_of(small), "tw1\nsplit nothing x 4\n"}};
  const auto built = build_kernels(requests, target_, environment_, kernels_);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::Invalid);
  EXPECT_THAT(built.error().message, HasSubstr("dense m=16"));
}

TEST_F(Assembling, WhatIsPredictedAndSpillsIsTheDefaultSchedule) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
  if (!codegen::Nvrtc::open()) GTEST_SKIP() << "[SKIP] NVRTC is not installed";
  const Target gpu = parse_target("cuda:sm_80").value();
  const dsl::Workload workload = workload_of("dense m=64 n=64 k=64 f32 fast");
  // Each thread has 16 x 32 = 512 sums, too many for its registers.
  const std::string schedule = R"(tw1
reorder out m n k
split out m 16
split out n 32
reorder out m.0 n.0 k m.1 n.1
cache_write out n.0
parallel out m.0
bind out n.0
unroll out m.1
unroll out n.1
)";
  std::vector<KernelRequest> requests = {{workload, schedule}};
  const auto chosen = build_kernels(requests, gpu, environment_, kernels_);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_GT(chosen->front().info.spills, 0);
  EXPECT_EQ(chosen->front().info.schedule, schedule);

  requests.front().is_predicted = true;
  BuiltKernels others;
  const auto replaced = build_kernels(requests, gpu, environment_, others);
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_EQ(replaced->front().info.spills, 0);
  EXPECT_EQ(replaced->front().info.schedule,
            schedules::default_schedule(workload, gpu)->to_string());
}

TEST_F(Assembling, Fault31_AnInterruptEndsBuilding) {
  std::atomic<int> interrupts = 1;
  environment_.interrupts = &interrupts;
  const std::vector<KernelRequest> requests = {{workload_of(small), "tw1\n"}};
  const auto built = build_kernels(requests, target_, environment_, kernels_);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::Interrupted);
}

TEST_F(Assembling, Fault31_TimeEndsBuildingAsAnInterruptDoes) {
  environment_.ends_ns = environment_.clock();
  const std::vector<KernelRequest> requests = {{workload_of(small), "tw1\n"}};
  const auto built = build_kernels(requests, target_, environment_, kernels_);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::Interrupted);
}

TEST_F(Assembling, KernelsAreBuiltOnce) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
  const std::vector<KernelRequest> requests = {{workload_of(small), "tw1\n"}};
  const auto built = build_kernels(requests, target_, environment_, kernels_);
  ASSERT_TRUE(built) << built.error().message;
  environment_.ends_ns = environment_.clock();  // from here on nothing can be built
  const auto again = build_kernels(requests, target_, environment_, kernels_);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *built);
  const std::vector<KernelRequest> other = {{workload_of(small), "tw1\nparallel out m\n"}};
  EXPECT_FALSE(build_kernels(other, target_, environment_, kernels_));
}

}  // namespace
}  // namespace tw::tuner

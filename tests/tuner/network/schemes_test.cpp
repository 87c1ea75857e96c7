// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/schemes.h"

#include <gmock/gmock.h>

#include "tests/tuner/networks.h"

namespace tw::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Machine machine_of_16_lanes() {
  Machine machine;
  machine.core.vector_bytes = 64;
  return machine;
}

OperatorGroup group_of(const std::string& key, std::vector<bool> packed_ahead) {
  return {workload_of(key), std::move(packed_ahead), false, {0}};
}

/// Returns the layouts of each choice that is offered, as texts.
std::vector<std::string> offered(const OperatorGroup& group,
                                 const std::vector<LayoutChoice>& known = {}) {
  std::vector<std::string> texts;
  for (const LayoutChoice& choice : offered_layouts(group, machine_of_16_lanes(), known))
    texts.push_back(dsl::print_layouts(with_choice(group, choice).layouts));
  return texts;
}

TEST(Schemes, ConvolutionsHaveAllPairsOfLayoutsOfImageAndResult) {
  const auto texts =
      offered(group_of("conv2d n=1 c=64 h=8 w=8 k=64 r=3 s=3 pad=1 f32 fast", {false, true}));
  EXPECT_THAT(texts, SizeIs(16));
  EXPECT_EQ(texts.front(), "in=NCHW out=NCHW");
  EXPECT_THAT(texts, testing::IsSupersetOf({"in=NCHW out=NCHW16c", "in=NHWC out=NCHW32c",
                                            "in=NCHW32c out=NHWC", "in=NCHW16c out=NCHW16c"}));
}

/// Returns the layouts of each choice that converts, as texts.
std::vector<std::string> converting(const OperatorGroup& group) {
  std::vector<std::string> texts;
  for (const LayoutChoice& choice : offered_layouts(group, machine_of_16_lanes()))
    if (choice.converts) texts.push_back(dsl::print_layouts(with_choice(group, choice).layouts));
  return texts;
}

TEST(Schemes, KernelsConvertThatReadAnotherOrderThanTheyWrite) {
  const std::vector<std::string> texts =
      converting(group_of("conv2d n=1 c=64 h=8 w=8 k=64 r=3 s=3 pad=1 f32 fast", {false, true}));
  EXPECT_THAT(texts, SizeIs(12));
  EXPECT_THAT(texts, testing::Contains("in=NHWC out=NCHW16c"));
  EXPECT_THAT(texts, testing::Not(testing::Contains("in=NHWC out=NHWC")));
  // An image of three channels has no blocks. If it is row-major, a kernel that writes blocks does
  // not count as converting.
  EXPECT_THAT(
      converting(group_of("conv2d n=1 c=3 h=8 w=8 k=32 r=3 s=3 pad=1 f32 fast", {false, true})),
      ElementsAre("in=NHWC out=NCHW", "in=NCHW out=NHWC", "in=NHWC out=NCHW16c"));
  // All layouts of a 1 x 1 result place its elements alike.
  EXPECT_THAT(converting(group_of("global_avg_pool n=1 c=64 h=7 w=7 f32 fast", {false})),
              SizeIs(0));
  // Neither of the two inputs is packed ahead, so either could be the one to convert.
  EXPECT_THAT(converting(group_of("batch_matmul batch=4 m=8 n=8 k=8 f32 fast", {false, false})),
              SizeIs(0));
  // In elementwise sums all tensors have one order.
  EXPECT_THAT(converting(group_of("add_relu n=1 c=64 h=8 w=8 f32 fast", {false, false})),
              SizeIs(0));
}

TEST(Schemes, BlocksOfDoublesAreAsWideAsVectors) {
  const auto texts =
      offered(group_of("conv2d n=1 c=64 h=8 w=8 k=64 r=3 s=3 pad=1 f64 fast", {false, true}));
  EXPECT_THAT(texts, SizeIs(16));
  EXPECT_THAT(texts, testing::IsSupersetOf({"in=NCHW out=NCHW8c", "in=NCHW16c out=NHWC"}));
  EXPECT_THAT(texts, testing::Each(testing::Not(HasSubstr("32c"))));
}

TEST(Schemes, ResidualsFollowTheResult) {
  const OperatorGroup group =
      group_of("conv2d n=1 c=64 h=8 w=8 k=64 r=1 s=1 residual=1 f32 fast", {false, true, false});
  ASSERT_THAT(group.workload.compute.inputs, SizeIs(3));
  for (const LayoutChoice& choice : offered_layouts(group, machine_of_16_lanes()))
    EXPECT_EQ(choice.inputs[2], choice.outputs[0]);
}

TEST(Schemes, FewChannelsHaveSmallBlocksOrNone) {
  const auto image =
      offered(group_of("conv2d n=1 c=3 h=8 w=8 k=64 r=3 s=3 pad=1 f32 fast", {false, true}));
  EXPECT_THAT(image, SizeIs(2 * 4));
  EXPECT_THAT(image, testing::Each(testing::Not(HasSubstr("in=NCHW4c"))));
  const auto eight = offered(group_of("add_relu n=1 c=12 h=8 w=8 f32 fast", {false, false}));
  EXPECT_THAT(eight, ElementsAre("a=NCHW b=NCHW out=NCHW", "a=NHWC b=NHWC out=NHWC",
                                 "a=NCHW8c b=NCHW8c out=NCHW8c"));
}

TEST(Schemes, LayoutsThatPlaceElementsAlikeAreOfferedOnce) {
  const auto pooled = offered(group_of("global_avg_pool n=1 c=64 h=8 w=8 f32 fast", {false}));
  EXPECT_THAT(pooled, SizeIs(4));  // all layouts of the 1 x 1 result are alike
  const auto one_block = offered(group_of("add_relu n=1 c=16 h=8 w=8 f32 fast", {false, false}));
  EXPECT_THAT(one_block, SizeIs(2));  // with 16 channels, NCHW16c is NHWC
}

TEST(Schemes, GpusAreOfferedNoBlocks) {
  Machine gpu = machine_of_16_lanes();
  gpu.gpu.emplace();
  const OperatorGroup conv = group_of(small_conv, {false, true});
  EXPECT_THAT(offered_layouts(conv, gpu), SizeIs(4));
  for (const LayoutChoice& choice : offered_layouts(conv, gpu))
    EXPECT_EQ(choice.inputs[0].parts().size(), 4u);
}

TEST(Schemes, OtherRanksAreRowMajor) {
  EXPECT_THAT(offered(group_of("dense m=8 n=64 k=64 f32 fast", {false, true})),
              ElementsAre("a=MK out=MN"));
}

// Attention scores are sums along the size of a head, and the keys are contiguous along it. If the
// keys are transposed, a vector of scores reads a vector of keys.
TEST(Schemes, FactorsThatAreSummedAlongTheirRowsMayBeTransposed) {
  const std::string attention = "attention b=6 m=40 n=48 d=64 f32 fast";
  EXPECT_THAT(offered(group_of(attention, {false, false, false})),
              ElementsAre("k=BND out=BMD q=BMD v=BND", "k=BND out=BMD q=BDM v=BND",
                          "k=BDN out=BMD q=BMD v=BND"));
  EXPECT_THAT(offered(group_of(attention, {false, true, false})),
              ElementsAre("out=BMD q=BMD v=BND", "out=BMD q=BDM v=BND"));
  EXPECT_THAT(offered(group_of("batch_matmul b=2 m=8 n=64 k=64 f32 fast", {false, false})),
              SizeIs(1));
}

// A sparse product gathers elements of a row. If the matrices are transposed, vectors along the
// rows of the result read neighbouring elements.
TEST(Schemes, MatricesOfGatheredRowsMayBeTransposed) {
  const std::string sparse =
      "expr fast input x: f32[16, 40]; weight rows: i32[12, 3]; weight w: f32[48, 3]; out: "
      "f32[i=16, "
      "j=48] = sum(b=3) x[i, clamp(i64(rows[j / 4, b]), 0, 39)] * w[j, b]";
  EXPECT_THAT(offered(group_of(sparse, {false, true, true})),
              ElementsAre("out=AB x=AB", "out=BA x=BA"));
}

TEST(Schemes, LayoutsOfRecordsAreAddedOnce) {
  const OperatorGroup group = group_of("add_relu n=1 c=64 h=8 w=8 f32 fast", {false, false});
  const auto choice = [&](const std::string& schedule) {
    return layouts_of_schedule(group.workload.compute, schedule).value();
  };
  const LayoutChoice mixed = choice("tw1\nset_layout a NHWC\nset_layout out NCHW8c");
  const auto texts = offered(group, {choice("tw1"), mixed, mixed});
  ASSERT_THAT(texts, SizeIs(5));
  EXPECT_EQ(texts.back(), "a=NHWC b=NCHW out=NCHW8c");
}

// The schedule also sets the layout of a stage that its algorithm adds, out.u. Only the layouts of
// arguments are part of the choice.
TEST(Schemes, LayoutsOfRecordsAreThoseOfArguments) {
  const OperatorGroup group =
      group_of("conv2d n=1 c=8 h=8 w=8 k=8 r=3 s=3 pad=1 f32 fast", {false, true});
  const auto choice = layouts_of_schedule(
      group.workload.compute,
      "tw1\nwinograd out x 4\nprepare out.u\nset_layout out.u ABDC\nset_layout in NHWC");
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_EQ(choice->inputs[0].to_string("NCHW"), "NHWC");
  EXPECT_TRUE(choice->outputs[0].is_row_major());
}

/// Returns the choices of the operator `name` that move nothing: for each, the layout of the result
/// and the number of copies.
std::vector<std::pair<std::string, size_t>> in_place(const graph::Graph& graph,
                                                     const std::string& name,
                                                     const Machine& machine) {
  std::vector<std::pair<std::string, size_t>> found;
  for (const OperatorGroup& group : group_operators(graph)) {
    if (graph.operators[group.operators.front()].name() != name) continue;
    for (const LayoutChoice& choice : offered_layouts(group, machine))
      if (choice.moves_nothing)
        found.emplace_back(choice.outputs[0].to_string("NCHW"), choice.copies.size());
  }
  return found;
}

TEST(Schemes, ConcatenationsMoveNothingWherePiecesAreContiguous) {
  using testing::Pair;
  const Machine machine = machine_of_16_lanes();
  EXPECT_THAT(in_place(dense_block(), "y1", machine),
              ElementsAre(Pair("NCHW", 0), Pair("NCHW16c", 0)));
  const graph::Graph awkward = awkward_concatenations();
  // Row-major y1 copies the caller's arrays x (an input) and a (a result). y2 copies a twice, since
  // a is a part of y1. y3 copies the constant v, and b, which is a part of y2.
  EXPECT_THAT(in_place(awkward, "y1", machine),
              testing::UnorderedElementsAre(Pair("NCHW", 2), Pair("NCHW16c", 0)));
  EXPECT_THAT(in_place(awkward, "y2", machine),
              testing::UnorderedElementsAre(Pair("NCHW", 2), Pair("NCHW16c", 2)));
  EXPECT_THAT(in_place(awkward, "y3", machine),
              testing::UnorderedElementsAre(Pair("NCHW", 2), Pair("NCHW16c", 2)));
  EXPECT_THAT(in_place(awkward_concatenations(2), "y1", machine), SizeIs(0));
}

TEST(Schemes, PiecesBeginWhereArraysMay) {
  graph::Graph graph;
  const std::vector<int64_t> image = {1, 4, 3, 3};  // 144 bytes
  graph.inputs = {{"x", {Float32, image}}};
  for (const auto& [from, to] : {std::pair("x", "a"), std::pair("a", "b")})
    graph.operators.push_back(graph::named("add_relu n=1 c=4 h=3 w=3 f32 fast", {from, from}, to));
  graph.operators.push_back(joined({"a", "b"}, {image, image}, 1, "y"));
  graph.outputs = {"y"};
  EXPECT_THAT(in_place(graph, "y", machine_of_16_lanes()), SizeIs(0));
  Machine gpu = machine_of_16_lanes();
  gpu.gpu.emplace();
  EXPECT_THAT(in_place(dense_block(), "y1", gpu), SizeIs(1));
}

TEST(Schemes, RecordsUnderAnyLayoutsSayWhichOnesAreGood) {
  const Folder folder;
  db::Store store = open_store(folder / "t.db");
  OperatorGroup group = group_of("add_relu n=1 c=64 h=8 w=8 f32 fast", {false, false});
  const dsl::Workload asked =
      dsl::with_layouts(group.workload, {{"a", "NCHW4c"}, {"b", "NCHW4c"}, {"out", "NCHW4c"}})
          .value();
  const db::Record record = measured_record(asked, host_target(), 500);
  ASSERT_TRUE(store.append({&record, 1}));
  const auto known = known_layouts(store, group, host_target(), 1);
  ASSERT_TRUE(known) << known.error().message;
  ASSERT_THAT(*known, SizeIs(1));
  EXPECT_EQ(known->front().outputs[0].to_string("NCHW"), "NCHW4c");
  EXPECT_THAT(known_layouts(store, group, host_target(), 2).value(), SizeIs(0));
}

TEST(Schemes, Fault29_LayoutsOfDoubtedRecordsAreNotOffered) {
  const Folder folder;
  db::Store store = open_store(folder / "t.db");
  OperatorGroup group = group_of("add_relu n=1 c=64 h=8 w=8 f32 fast", {false, false});
  const auto measured_under = [&](const std::string& layout, double latency_ns) {
    return measured_record(
        dsl::with_layouts(group.workload, {{"a", layout}, {"b", layout}, {"out", layout}}).value(),
        host_target(), latency_ns);
  };
  db::Record impossible = measured_under("NCHW4c", 400);
  impossible.peak_gb_per_s = impossible.bytes / impossible.latency_ns / 4;
  db::Record refuted = measured_under("NCHW2c", 450), wrong = refuted;
  wrong.status = db::TrialStatus::Wrong;
  wrong.trial = 1;
  const db::Record good = measured_under("NCHW8c", 500);
  const auto added = store.append({{db::seal(impossible), refuted, db::seal(wrong), good}});
  ASSERT_TRUE(added) << added.error().message;
  ASSERT_EQ(added->inserted, 4);
  const auto known = known_layouts(store, group, host_target(), 1);
  ASSERT_TRUE(known) << known.error().message;
  ASSERT_THAT(*known, SizeIs(1));
  EXPECT_EQ(known->front().outputs[0].to_string("NCHW"), "NCHW8c");
}

TEST(Schemes, OperatorsThatComputeTheSameAreOneGroup) {
  graph::Graph graph = two_convolutions();
  const auto groups = group_operators(graph);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_THAT(groups[0].operators, ElementsAre(0, 1));
  EXPECT_THAT(groups[0].packed_ahead, ElementsAre(false, true));
  EXPECT_THAT(groups[1].operators, ElementsAre(2));
  graph.constants["b"] = graph::make_constant(graph::normal_array({1, 32, 8, 8}, 3));
  graph.operators.push_back(graph::named("add_relu n=1 c=32 h=8 w=8 f32 fast", {"y", "b"}, "z"));
  EXPECT_THAT(group_operators(graph), SizeIs(3));  // z adds a constant, which is packed ahead
}

TEST(Schemes, WhatIsAskedForIsInTheStateOfTheNetwork) {
  const auto groups = group_operators(two_convolutions(), dsl::CacheState::NetworkL3);
  const auto choices = offered_layouts(groups[0], machine_of_16_lanes());
  EXPECT_EQ(with_choice(groups[0], choices[0]).asked(), "in=NCHW out=NCHW network:L3");
  const dsl::Layout plain = dsl::Layout::row_major(2),
                    turned = dsl::Layout::parse("BA", "AB").value();
  EXPECT_EQ(
      transform_workload({Float32, {4, 8}}, plain, turned, dsl::CacheState::NetworkMemory)->asked(),
      "in0=AB out=BA network:memory");
}

TEST(Schemes, ReshapesAreRowMajorAndMoveNothing) {
  graph::Graph graph = two_convolutions();
  const auto flat = graph::reshape(Float32, {1, 32, 8, 8}, {1, 2048}).value();
  graph.operators.push_back(graph::make_operator(flat, {"y"}, {"flat"}, graph.constants).value());
  const auto groups = group_operators(graph);
  ASSERT_TRUE(groups.back().moves_nothing);
  const auto choices = offered_layouts(groups.back(), machine_of_16_lanes());
  ASSERT_THAT(choices, SizeIs(1));
  EXPECT_TRUE(choices[0].inputs[0].is_row_major());
}

/// Returns x -> reshape -> g -> grouped convolution -> h -> reshape -> y.
graph::Graph grouped_convolution() {
  graph::Graph graph;
  const std::vector<int64_t> image = {1, 64, 8, 8}, grouped = {1, 16, 4, 8, 8};
  graph.inputs = {{"x", {Float32, image}}};
  graph.constants["w"] = graph::make_constant(graph::normal_array({16, 4, 4, 3, 3}, 1));
  const auto renamed = [](const auto& from, const auto& to, const std::string& in,
                          const std::string& out) {
    return graph::make_operator(graph::reshape(Float32, from, to).value(), {in}, {out}, {}).value();
  };
  graph.operators = {renamed(image, grouped, "x", "g"),
                     graph::named("conv2d n=1 c=64 h=8 w=8 k=64 r=3 s=3 pad=1 groups=16 f32 fast",
                                  {"g", "w"}, "h"),
                     renamed(grouped, image, "h", "y")};
  graph.outputs = {"y"};
  return graph;
}

std::vector<std::string> offered(const std::vector<LayoutChoice>& choices) {
  std::vector<std::string> texts;
  const auto text = [](const dsl::Layout& layout) {
    return layout.to_string(dsl::default_letters(layout.rank()));
  };
  for (const LayoutChoice& choice : choices)
    texts.push_back(text(choice.inputs[0]) + " -> " + text(choice.outputs[0]) +
                    (choice.moves_nothing ? " free" : ""));
  return texts;
}

TEST(Schemes, GroupsOfChannelsHaveTheLayoutsOfTheirImages) {
  const auto groups = group_operators(grouped_convolution());
  ASSERT_THAT(groups, SizeIs(3));
  EXPECT_THAT(offered(offered_layouts(groups[0], machine_of_16_lanes())),
              ElementsAre("ABCD -> ABCDE free", "ACDB -> ADEBC free", "ABCD16b -> ABDE4bC free",
                          "ABCD32b -> ABDE8bC free"));
  const auto convolution = offered(offered_layouts(groups[1], machine_of_16_lanes()));
  EXPECT_THAT(convolution, SizeIs(16));
  EXPECT_EQ(convolution.front(), "ABCDE -> ABCDE");
  EXPECT_THAT(convolution, testing::IsSupersetOf({"ADEBC -> ADEBC", "ABDE4bC -> ADEBC"}));
  EXPECT_THAT(offered(offered_layouts(groups[2], machine_of_16_lanes())),
              testing::Contains("ABDE4bC -> ABCD16b free"));
}

/// Returns the choices of the graph's operators as texts, in the order of the operators.
std::vector<std::vector<std::string>> offered_in(const graph::Graph& graph) {
  std::vector<std::vector<std::string>> texts;
  for (const OperatorGroup& group : group_operators(graph))
    texts.push_back(offered(offered_layouts(group, machine_of_16_lanes())));
  return texts;
}

// The network is x [n, c, w] -> tanh -> s -> reshape to one row -> i -> convolution -> r -> reshape
// -> y.
TEST(Schemes, SignalsHaveTheLayoutsOfImagesWithOneRow) {
  graph::Graph graph;
  const std::vector<int64_t> signal = {1, 64, 8}, image = {1, 64, 1, 8};
  graph.inputs = {{"x", {Float32, signal}}};
  graph.constants["w"] = graph::make_constant(graph::normal_array({64, 64, 1, 3}, 1));
  graph.operators = {
      graph::from_text("input in0: f32[1, 64, 8]\nout: f32[a=1, b=64, c=8] = tanh(in0[a, b, c])",
                       {"x"}, {"s"}),
      reshaped("s", "i", signal, image),
      graph::named("conv2d n=1 c=64 h=1 w=8 k=64 r=1 s=3 pad_left=1 pad_right=1 f32 fast",
                   {"i", "w"}, "r"),
      reshaped("r", "y", image, signal)};
  graph.outputs = {"y"};
  const auto texts = offered_in(graph);
  ASSERT_THAT(texts, SizeIs(4));
  EXPECT_THAT(texts[0], testing::IsSupersetOf({"ABC -> ABC", "ACB -> ACB", "ABC16b -> ABC16b"}));
  EXPECT_THAT(texts[1], testing::Contains("ABC16b -> ACBD16b free"));
  EXPECT_THAT(texts[3], testing::Contains("ACBD16b -> ABC16b free"));
}

TEST(Schemes, VolumesOfConvolutionsHaveTheLayoutsOfImages) {
  graph::Graph graph;
  graph.inputs = {{"x", {Float32, {1, 64, 2, 8, 8}}}, {"z", {Float32, {1, 64, 2, 8, 8}}}};
  graph.constants["w"] = graph::make_constant(graph::normal_array({64, 64, 1, 1, 1}, 1));
  const std::string tanh =
      "input in0: f32[1, 64, 2, 8, 8]\nout: f32[a=1, b=64, c=2, d=8, e=8] = tanh(in0[a, b, c, d, "
      "e])";
  graph.operators = {
      graph::from_text("input in0: f32[1, 64, 2, 8, 8]\nweight in1: f32[64, 64, 1, 1, 1]\nout: "
                       "f32[n=1, k=64, z=2, y=8, x=8] = sum(c=64) in0[n, c, z, y, x] * in1[k, c, "
                       "0, 0, 0]",
                       {"x", "w"}, {"c"}, graph),
      graph::from_text("input in0: f32[1, 64, 2, 8, 8]\nout: f32[a=1, b=64, c=2, d=4, e=8] = "
                       "max(r=2) in0[a, b, c, d * 2 + r, e]",
                       {"c"}, {"pooled"}),
      graph::from_text(tanh, {"z"}, {"t"})};
  graph.outputs = {"pooled", "t"};
  const auto texts = offered_in(graph);
  ASSERT_THAT(texts, SizeIs(3));
  EXPECT_THAT(texts[0], SizeIs(16));
  EXPECT_THAT(texts[0], testing::IsSupersetOf({"ABCDE -> ABCDE", "ACDEB -> ACDEB",
                                               "ABCDE16b -> ACDEB", "ACDEB -> ABCDE32b"}));
  EXPECT_THAT(texts[1], testing::Contains("ABCDE16b -> ABCDE16b"));
  EXPECT_THAT(texts[2], ElementsAre("ABCDE -> ABCDE"));
}

TEST(Schemes, TransposesMoveNothingBetweenLayoutsThatPlaceElementsAlike) {
  graph::Graph graph = two_convolutions();
  const dsl::Axis n("n", 1), c("c", 32), h("h", 8), w("w", 8);
  const dsl::Tensor in = dsl::input("in", Float32, {n, c, h, w});
  const dsl::Compute last =
      dsl::build(dsl::compute("out", {n, h, w, c}, in.read_at({n, c, h, w}))).value();
  graph.operators.push_back(graph::make_operator(last, {"y"}, {"z"}, {}).value());
  const auto groups = group_operators(graph);
  EXPECT_FALSE(groups.back().moves_nothing);
  const auto texts = offered(offered_layouts(groups.back(), machine_of_16_lanes()));
  EXPECT_EQ(texts.front(), "ABCD -> ABCD");
  EXPECT_THAT(texts, testing::Contains("ACDB -> ABCD free"));
  EXPECT_EQ(std::ranges::count_if(texts, [](const auto& t) { return t.ends_with("free"); }), 1);
}

TEST(Schemes, CopiesAreWorkloadsWithLayoutsOnBothSides) {
  const graph::TensorType type = {Float32, {1, 64, 8, 8}};
  const auto copy = transform_workload(type, dsl::Layout::row_major(4),
                                       dsl::Layout::parse("ABCD16b", "ABCD").value());
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(dsl::print_layouts(copy->layouts), "in0=ABCD out=ABCD16b");
  EXPECT_EQ(copy->text(), workload_of(copy->text()).text());
}

}  // namespace
}  // namespace tw::tuner

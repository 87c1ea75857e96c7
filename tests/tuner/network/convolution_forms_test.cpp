// SPDX-License-Identifier: Apache-2.0
// Tests forms of convolution, from the ONNX node to the kernel that is chosen before anything is
// measured. Rare forms must be predicted to take about as long as their common relatives, and
// kernels of all forms must compute the same as the interpreter.

#include <gmock/gmock.h>

#include <limits>

#include "graph/onnx/graph_builder.h"
#include "graph/passes.h"
#include "tests/tuner/networks.h"

namespace tw::tuner {
namespace {

using Shape = std::vector<int64_t>;

struct Conv {
  Shape weight;
  int64_t groups = 1;
  Shape strides = {}, pads = {};
};

/// Returns the graph of Conv nodes with a bias, one after another, after all passes. Its input x
/// has the shape `in`.
graph::Graph convolutions(const Shape& in, const std::vector<Conv>& layers) {
  graph::onnx::GraphBuilder builder;
  std::string last = builder.claim("x");
  builder.add_input(last, {Float32, in});
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string number = std::to_string(i), weight = builder.claim("w" + number),
                      bias = builder.claim("b" + number), out = builder.claim("y" + number);
    const Conv& layer = layers[i];
    builder.add_initializer(weight, *weights_of(layer.weight, i, 64).array);
    builder.add_initializer(bias, graph::normal_array({layer.weight[0]}, i + 100));
    graph::onnx::Node node;
    node.op_type = node.name = "Conv";
    node.opset = 17;
    for (const std::string& input : {last, weight, bias})
      node.inputs.emplace_back(builder.value(input));
    node.outputs = {out};
    node.attributes["group"] = layer.groups;
    if (!layer.strides.empty()) node.attributes["strides"] = layer.strides;
    if (!layer.pads.empty()) node.attributes["pads"] = layer.pads;
    const auto* row =
        graph::onnx::find_conversion(graph::onnx::conversions(), node.op_type, node.opset);
    const Status converted = row->convert(node, builder);
    EXPECT_TRUE(converted) << converted.error().message;
    last = out;
  }
  auto passed = graph::apply_passes(builder.finish({{last, last}}).value());
  EXPECT_TRUE(passed) << passed.error().message;
  return passed->graph;
}

/// Returns the sum over the operators of the shortest time that is predicted under any of the
/// offered layouts.
double least_ns(const graph::Graph& graph, const Target& target) {
  const Predict predict = predict_for(target, 1, {});
  double sum = 0;
  for (const OperatorGroup& group : group_operators(graph)) {
    double least = std::numeric_limits<double>::infinity();
    for (const LayoutChoice& choice : offered_layouts(group, target.machine)) {
      const auto predicted =
          choice.moves_nothing ? Predicted{} : predict(with_choice(group, choice), Precision::Full);
      if (predicted) least = std::min(least, predicted->analytic_ns);
    }
    sum += least;
  }
  return sum;
}

class ConvolutionForms : public testing::TestWithParam<const char*> {
 protected:
  double least_ns_of(const Shape& in, const Conv& layer) const {
    return least_ns(convolutions(in, {layer}), target_);
  }
  const Target target_ = parse_target(GetParam()).value();
};
INSTANTIATE_TEST_SUITE_P(Tuner, ConvolutionForms, testing::Values("x86-64-v3", "x86-64-v4"),
                         [](const auto& row) { return row.index == 0 ? "avx2" : "avx512"; });

TEST_P(ConvolutionForms, ASignalTakesAsLongAsItsImage) {
  const double signal = least_ns_of({1, 64, 100}, {{64, 64, 3}, 1, {2}, {1, 1}});
  const double image = least_ns_of({1, 64, 1, 100}, {{64, 64, 1, 3}, 1, {1, 2}, {0, 1, 0, 1}});
  EXPECT_EQ(signal, image);
}

// A kernel of two planes has two positions in three planes, so its work is twice that of the two
// images.
TEST_P(ConvolutionForms, AVolumeTakesAsLongAsImages) {
  const Conv plane = {{64, 64, 3, 3}, 1, {2, 2}, {1, 1, 1, 1}},
             volume = {{64, 64, 2, 3, 3}, 1, {1, 2, 2}, {0, 1, 1, 0, 1, 1}};
  EXPECT_LT(least_ns_of({1, 64, 3, 14, 14}, volume), 1.5 * 2 * least_ns_of({2, 64, 14, 14}, plane));
}

TEST_P(ConvolutionForms, AGroupedVolumeTakesAsLongAsImages) {
  const Conv plane = {{64, 16, 3, 3}, 4, {2, 2}, {1, 1, 1, 1}},
             volume = {{64, 16, 2, 3, 3}, 4, {1, 2, 2}, {0, 1, 1, 0, 1, 1}};
  EXPECT_LT(least_ns_of({1, 64, 3, 14, 14}, volume), 1.5 * 2 * least_ns_of({2, 64, 14, 14}, plane));
}

TEST_P(ConvolutionForms, ADepthwiseVolumeTakesAsLongAsImages) {
  const Conv plane = {{64, 1, 3, 3}, 64, {2, 2}, {1, 1, 1, 1}},
             volume = {{64, 1, 2, 3, 3}, 64, {1, 2, 2}, {0, 1, 1, 0, 1, 1}};
  EXPECT_LT(least_ns_of({1, 64, 3, 28, 28}, volume), 1.5 * 2 * least_ns_of({2, 64, 28, 28}, plane));
}

// Two results are twice the work, and they are stored one by one.
TEST_P(ConvolutionForms, TwoResultsADepthwiseChannelAreVectorCodeAlongTheChannels) {
  const Conv one = {{64, 1, 7, 7}, 64, {2, 2}, {3, 3, 3, 3}},
             two = {{128, 1, 7, 7}, 64, {2, 2}, {3, 3, 3, 3}};
  EXPECT_LT(least_ns_of({1, 64, 28, 28}, two), 6 * least_ns_of({1, 64, 28, 28}, one));
  const dsl::Workload last =
      dsl::with_layouts(workload_of("conv2d n=1 c=64 h=28 w=28 k=128 r=7 s=7 stride=2 pad=3 "
                                    "groups=64 bias=1 f32 fast"),
                        {{"in", "NHWGC"}, {"out", "NHWGC"}})
          .value();
  const auto predicted = predict_for(target_, 1, {})(last, Precision::Full);
  ASSERT_TRUE(predicted) << predicted.error().message;
  EXPECT_THAT(predicted->schedule, testing::HasSubstr("vectorize conv g"));
}

TEST_P(ConvolutionForms, ABatchOfSinglePixelsTakesAsLongAsAProduct) {
  graph::Graph product;
  product.inputs = {{"x", {Float32, {10, 256}}}};
  product.constants = {{"w", weights_of({256, 512}, 1, 256)}, {"b", weights_of({512}, 2, 1)}};
  product.operators = {
      graph::named("dense m=10 n=512 k=256 bias=1 f32 fast", {"x", "w", "b"}, "y")};
  product.outputs = {"y"};
  EXPECT_EQ(least_ns_of({10, 256, 1, 1}, {{512, 256, 1, 1}}), least_ns(product, target_));
}

/// Expects that the network computes the same as the interpreter. The cost model chooses the
/// kernels for this machine, and they are compiled.
void expect_as_interpreted(const graph::Graph& graph) {
  if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator is not installed";
  const Folder folder;
  db::Store store = open_store(folder / "t.db");
  const Environment environment = test_environment();
  NetworkOptions options;
  options.tuning.effort = Effort::None;
  const auto tuned = tune_network(graph, host_target(), options, store, environment, {});
  ASSERT_TRUE(tuned) << tuned.error().message;
  BuiltKernels kernels;
  const auto built = build_model(graph, *tuned, 0, {"test", host_target()}, environment, kernels);
  ASSERT_TRUE(built) << built.error().message;
  const auto model = runtime::Model::load(built->file);
  ASSERT_TRUE(model) << model.error().message;
  expect_as_interpreted_by(graph, *model);
}

TEST(ConvolutionFormKernels, SignalsComputeWhatTheInterpreterDoes) {
  expect_as_interpreted(convolutions({2, 16, 21}, {{{32, 16, 3}, 1, {2}, {1, 1}},
                                                   {{32, 8, 5}, 4, {1}, {2, 2}},
                                                   {{32, 1, 3}, 32, {2}, {0, 1}},
                                                   {{10, 32, 1}}}));
}

TEST(ConvolutionFormKernels, VolumesComputeWhatTheInterpreterDoes) {
  expect_as_interpreted(
      convolutions({1, 16, 4, 7, 9}, {{{32, 16, 3, 3, 3}, 1, {1, 2, 2}, {1, 1, 1, 1, 1, 1}},
                                      {{32, 8, 1, 3, 3}, 4, {1, 1, 1}, {0, 1, 1, 0, 1, 1}},
                                      {{32, 1, 3, 3, 3}, 32, {2, 1, 2}, {1, 1, 1, 1, 1, 1}},
                                      {{16, 32, 1, 1, 1}}}));
}

TEST(ConvolutionFormKernels, SeveralResultsADepthwiseChannelComputeWhatTheInterpreterDoes) {
  expect_as_interpreted(convolutions({1, 16, 9, 9}, {{{32, 16, 1, 1}},
                                                     {{64, 1, 3, 3}, 32, {2, 2}, {1, 1, 1, 1}},
                                                     {{192, 1, 3, 3}, 64, {1, 1}, {1, 1, 1, 1}},
                                                     {{16, 192, 1, 1}}}));
}

TEST(ConvolutionFormKernels, WholeImagesComputeWhatTheInterpreterDoes) {
  expect_as_interpreted(
      convolutions({3, 16, 5, 4}, {{{24, 16, 5, 4}}, {{40, 24, 1, 1}}, {{8, 40, 1, 1}}}));
}

}  // namespace
}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
// Each test converts one node and evaluates the result. onnx_backend_test.py compares most
// operators with the backend suite. The tests here are for the rest: which named operators a node
// becomes, definitions of older opsets, and errors.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/random.h"
#include "graph/rewrite.h"
#include "tests/graph/onnx_node.h"

namespace tw::graph::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// Returns the keys of the graph's operators; "expr" and "reshape" for those without a name.
std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators)
    names.push_back(is_reshape(op)             ? "reshape"
                    : op.workload.op == "expr" ? "expr"
                                               : op.workload.key());
  return names;
}

// ---- operators by name ----------------------------------------------------------------------

int64_t size_of(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// A Conv of data with known weights.
struct KnownConv : OneNode {
  KnownConv(const Extents& in, const Extents& weight) : OneNode("Conv", 13) {
    data(in, counted(size_of(in))).constant(weight, counted(size_of(weight)));
  }
};

TEST(OnnxOperators, ConvolutionsAreConv2dByName) {
  EXPECT_THAT(names_of(KnownConv({1, 2, 5, 5}, {4, 2, 3, 3})
                           .constant({4}, {1, 2, 3, 4})
                           .set("pads", Extents{1, 1, 1, 1})
                           .set("strides", Extents{2, 2})
                           .graph()),
              ElementsAre("conv2d n=1 c=2 h=5 w=5 k=4 r=3 s=3 stride=2 pad=1 dilation=1 groups=1 "
                          "bias=1 f32 fast"));
  EXPECT_THAT(names_of(KnownConv({1, 4, 5, 5}, {4, 1, 3, 3}).set("group", int64_t{4}).graph()),
              ElementsAre("conv2d n=1 c=4 h=5 w=5 k=4 r=3 s=3 stride=1 pad=0 dilation=1 groups=4 "
                          "f32 fast"));
  EXPECT_THAT(names_of(KnownConv({1, 4, 5, 5}, {6, 2, 1, 3}).set("group", int64_t{2}).graph()),
              ElementsAre("reshape",
                          "conv2d n=1 c=4 h=5 w=5 k=6 r=1 s=3 stride=1 pad=0 dilation=1 groups=2 "
                          "f32 fast",
                          "reshape"));
}

TEST(OnnxOperators, GroupsOfConvolutionsDivideTheChannels) {
  KnownConv({1, 4, 5, 5}, {5, 2, 3, 3})
      .set("group", int64_t{2})
      .expect_error(ErrorCode::Invalid, "5 output channels cannot be divided into 2 groups");
  KnownConv({1, 4, 5, 5}, {4, 3, 3, 3})
      .set("group", int64_t{2})
      .expect_error(ErrorCode::Invalid, "channels of the weights do not fit the input");
}

TEST(OnnxOperators, ConvolutionsOfSignalsAreThoseOfImagesWithOneRow) {
  EXPECT_THAT(names_of(KnownConv({1, 4, 9}, {6, 4, 3})
                           .set("strides", Extents{2})
                           .set("pads", Extents{1, 1})
                           .set("dilations", Extents{2})
                           .graph()),
              ElementsAre("reshape",
                          "conv2d n=1 c=4 h=1 w=9 k=6 r=1 s=3 stride=1 stride_w=2 pad=0 pad_left=1 "
                          "pad_right=1 dilation=1 dilation_w=2 groups=1 f32 fast",
                          "reshape"));
  EXPECT_THAT(names_of(KnownConv({1, 4, 9}, {4, 1, 3}).set("group", int64_t{4}).graph()),
              ElementsAre("reshape",
                          "conv2d n=1 c=4 h=1 w=9 k=4 r=1 s=3 stride=1 pad=0 dilation=1 groups=4 "
                          "f32 fast",
                          "reshape"));
  EXPECT_THAT(names_of(KnownConv({1, 4, 9}, {6, 2, 3}).set("group", int64_t{2}).graph()),
              ElementsAre("reshape", "reshape",
                          "conv2d n=1 c=4 h=1 w=9 k=6 r=1 s=3 stride=1 pad=0 dilation=1 groups=2 "
                          "f32 fast",
                          "reshape"));
}

TEST(OnnxOperators, ConvolutionsOfWholeImagesAreProducts) {
  EXPECT_THAT(
      names_of(KnownConv({2, 4, 1, 1}, {6, 4, 1, 1}).constant({6}, {1, 2, 3, 4, 5, 6}).graph()),
      ElementsAre("reshape", "dense m=2 n=6 k=4 bias=1 f32 fast", "reshape"));
  EXPECT_THAT(names_of(KnownConv({1, 2, 3, 4}, {5, 2, 3, 4}).graph()),
              ElementsAre("reshape", "dense m=1 n=5 k=24 f32 fast", "reshape"));
  EXPECT_THAT(names_of(KnownConv({1, 2, 1}, {5, 2, 1}).graph()),
              ElementsAre("reshape", "dense m=1 n=5 k=2 f32 fast", "reshape"));
}

TEST(OnnxOperators, ConvolutionsOfPartsOfImagesAreNoProducts) {
  const auto is_conv2d = [](OneNode& node) {
    const std::vector<std::string> names = names_of(node.graph());
    return names.size() == 1 && names[0].starts_with("conv2d");
  };
  EXPECT_TRUE(is_conv2d(KnownConv({1, 2, 2, 2}, {3, 2, 1, 1}).set("strides", Extents{2, 2})));
  EXPECT_TRUE(is_conv2d(KnownConv({1, 2, 3, 3}, {3, 2, 3, 3})
                            .set("dilations", Extents{2, 2})
                            .set("pads", Extents{0, 0, 2, 2})));
  EXPECT_TRUE(is_conv2d(KnownConv({1, 4, 1, 1}, {4, 1, 1, 1}).set("group", int64_t{4})));
}

// Since the data do not depend on the output channel, a kernel can have vectors along that channel.
TEST(OnnxOperators, ConvolutionsOfVolumesReadTheSameInputForAllChannels) {
  for (const int64_t groups : {1, 2}) {
    const Graph graph =
        KnownConv({1, 4, 3, 3, 3}, {6, 4 / groups, 2, 2, 2}).set("group", groups).graph();
    const auto found = std::ranges::find_if(
        graph.operators, [](const Operator& op) { return op.workload.compute.inputs.size() == 2; });
    ASSERT_NE(found, graph.operators.end());
    const dsl::Stage& stage = found->workload.compute.stages.front();
    const dsl::Axis& channel = stage.axes[groups == 1 ? 1 : 2];
    EXPECT_EQ(channel.extent, 6 / groups);
    const dsl::Binary* product = stage.body.as<dsl::Binary>();
    ASSERT_TRUE(product);
    EXPECT_FALSE(dsl::uses_var(product->a, channel.name));
    EXPECT_TRUE(dsl::uses_var(product->b, channel.name));
  }
}

TEST(OnnxOperators, AutoPadPutsTheOddRowAtTheEndOrTheBeginning) {
  const std::string lower = names_of(
      KnownConv({1, 1, 4, 4}, {1, 1, 2, 2}).set("auto_pad", std::string("SAME_LOWER")).graph())[0];
  EXPECT_THAT(lower, HasSubstr("pad=1 pad_bottom=0 pad_right=0"));
  const std::string upper = names_of(
      KnownConv({1, 1, 4, 4}, {1, 1, 2, 2}).set("auto_pad", std::string("SAME_UPPER")).graph())[0];
  EXPECT_THAT(upper, HasSubstr("pad=0 pad_bottom=1 pad_right=1"));
}

TEST(OnnxOperators, ProductsAreDenseOrBatchMatmul) {
  EXPECT_THAT(names_of(OneNode("Gemm", 13)
                           .data({2, 3}, counted(6))
                           .constant({4, 3}, counted(12))
                           .constant({1, 4}, counted(4))
                           .set("transB", int64_t{1})
                           .graph()),
              ElementsAre("dense m=2 n=4 k=3 bias=1 f32 fast"));
  EXPECT_THAT(
      names_of(
          OneNode("MatMul", 13).data({2, 5, 3}, counted(30)).constant({3, 4}, counted(12)).graph()),
      ElementsAre("reshape", "dense m=10 n=4 k=3 f32 fast", "reshape"));
  EXPECT_THAT(
      names_of(
          OneNode("MatMul", 13).data({2, 5, 3}, counted(30)).data({2, 3, 4}, counted(24)).graph()),
      ElementsAre("batch_matmul b=2 m=5 n=4 k=3 f32 fast"));
}

TEST(OnnxOperators, OthersThatHaveNames) {
  EXPECT_THAT(names_of(OneNode("Softmax", 13).data({2, 3, 4}, counted(24)).graph()),
              ElementsAre("reshape", "softmax rows=6 cols=4 f32 fast", "reshape"));
  EXPECT_THAT(names_of(OneNode("GlobalAveragePool", 13).data({1, 2, 3, 4}, counted(24)).graph()),
              ElementsAre("global_avg_pool n=1 c=2 h=3 w=4 f32 fast", "reshape"));
  EXPECT_THAT(names_of(OneNode("AveragePool", 11)
                           .data({1, 2, 3, 4}, counted(24))
                           .set("kernel_shape", Extents{3, 4})
                           .graph()),
              ElementsAre("global_avg_pool n=1 c=2 h=3 w=4 f32 fast", "reshape"));
  EXPECT_THAT(names_of(OneNode("MaxPool", 12)
                           .data({1, 1, 4, 4}, counted(16))
                           .set("kernel_shape", Extents{2, 2})
                           .graph()),
              ElementsAre("max_pool2d n=1 c=1 h=4 w=4 kernel=2 stride=1 pad=0 f32 fast"));
  EXPECT_THAT(names_of(OneNode("LayerNormalization", 17)
                           .data({2, 3}, counted(6))
                           .constant({3}, {1, 2, 3})
                           .constant({3}, {0, 1, 0})
                           .graph()),
              ElementsAre("layer_norm rows=2 cols=3 f32 fast"));
  EXPECT_THAT(names_of(OneNode("LayerNormalization", 17)
                           .data({2, 3}, counted(6))
                           .constant({1, 3}, {1, 2, 3})
                           .constant({3}, {0, 1, 0})
                           .graph()),
              ElementsAre("layer_norm rows=2 cols=3 f32 fast"));
  EXPECT_THAT(
      names_of(OneNode("ArgMax", 13).data({2, 3}, counted(6)).set("axis", int64_t{1}).graph()),
      ElementsAre("argmax rows=2 cols=3 f32 fast", "reshape"));
  EXPECT_THAT(names_of(OneNode("Attention", 23)
                           .data({1, 2, 3, 4}, counted(24))
                           .data({1, 2, 3, 4}, counted(24))
                           .data({1, 2, 3, 4}, counted(24))
                           .set("is_causal", int64_t{1})
                           .graph()),
              ElementsAre("reshape", "reshape", "reshape",
                          "attention b=2 m=3 n=3 d=4 causal=1 f32 fast", "reshape"));
}

/// In a square matrix, a scale for each row has as many elements as the matrix has columns.
TEST(OnnxOperators, LayerNormalizationWithAScaleForEachRow) {
  const Numbers values = OneNode("LayerNormalization", 17)
                             .data({3, 3}, counted(9))
                             .constant({3, 1}, {1, 2, 3})
                             .constant({3}, {0, 1, 0})
                             .values();
  const double far = std::sqrt(1.5);  // deviations from the mean: -1, 0 and 1 of sqrt(2 / 3)
  const Numbers expected = {-far, 1, far, -2 * far, 1, 2 * far, -3 * far, 1, 3 * far};
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-4) << i;
}

TEST(OnnxOperators, WeightsThatAreDataAreInputs) {
  const Graph graph =
      OneNode("Conv", 13).data({1, 1, 3, 3}, counted(9)).data({1, 1, 2, 2}, counted(4)).graph();
  ASSERT_EQ(graph.operators.size(), 1u);
  EXPECT_EQ(graph.operators[0].workload.op, "expr");
  for (const dsl::Input& input : graph.operators[0].workload.compute.inputs)
    EXPECT_FALSE(input.constant);
}

// ---- convolutions against loops -------------------------------------------------------------

/// One dimension of a convolution that a test computes by loops.
struct Dimension {
  int64_t in, kernel, stride, dilation, before, after;
  int64_t out() const { return (in + before + after - (kernel - 1) * dilation - 1) / stride + 1; }
};

/// Returns a random dimension with at least one output.
Dimension random_dimension(Random& random) {
  const auto from = [&](int64_t low, int64_t high) { return low + random.below(high - low + 1); };
  Dimension d = {from(3, 7), from(1, 3), from(1, 3), from(1, 2), from(0, 2), from(0, 2)};
  while (d.in + d.before + d.after <= (d.kernel - 1) * d.dilation) ++d.in;
  return d;
}

using Dimensions = std::vector<Dimension>;

/// Returns all index vectors of a shape, in row-major order.
std::vector<Extents> indices_of(const Extents& shape) {
  std::vector<Extents> all;
  for (int64_t position = 0; position < size_of(shape); ++position) {
    Extents index(shape.size());
    int64_t rest = position;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    all.push_back(std::move(index));
  }
  return all;
}

/// Computes the convolution of x, [n, groups * c, ...], by loops.
Numbers convolved(const Numbers& x, const Numbers& w, int64_t n, int64_t groups, int64_t c,
                  int64_t k, const Dimensions& dimensions) {
  Extents outputs, taps;
  for (const Dimension& d : dimensions) {
    outputs.push_back(d.out());
    taps.push_back(d.kernel);
  }
  Numbers y;
  for (int64_t b = 0; b < n; ++b)
    for (int64_t o = 0; o < groups * k; ++o)
      for (const Extents& output : indices_of(outputs)) {
        double sum = 0;
        for (int64_t q = 0; q < c; ++q)
          for (const Extents& tap : indices_of(taps)) {
            int64_t from = b * groups * c + o / k * c + q, by = o * c + q;
            bool is_inside = true;
            for (size_t i = 0; i < dimensions.size(); ++i) {
              const Dimension& d = dimensions[i];
              const int64_t at = output[i] * d.stride + tap[i] * d.dilation - d.before;
              is_inside = is_inside && at >= 0 && at < d.in;
              from = from * d.in + at;
              by = by * d.kernel + tap[i];
            }
            if (is_inside) sum += x[static_cast<size_t>(from)] * w[static_cast<size_t>(by)];
          }
        y.push_back(sum);
      }
  return y;
}

Numbers small_integers(Random& random, int64_t size) {
  Numbers values;
  for (int64_t i = 0; i < size; ++i) values.push_back(static_cast<double>(random.below(9) - 4));
  return values;
}

/// Shapes and numbers of a random convolution with `rank` dimensions, one to three.
struct RandomConvolution {
  int64_t n, groups, c, k;
  Dimensions dimensions;
  Extents in, weight, strides, dilations, pads;
  Numbers x, w;

  RandomConvolution(Random& random, size_t rank)
      : n(1 + random.below(2)),
        groups(1 + random.below(3)),
        c(1 + random.below(2)),
        k(1 + random.below(2)) {
    in = {n, groups * c};
    weight = {groups * k, c};
    Extents after;
    for (size_t i = 0; i < rank; ++i) {
      const Dimension& d = dimensions.emplace_back(random_dimension(random));
      in.push_back(d.in);
      weight.push_back(d.kernel);
      strides.push_back(d.stride);
      dilations.push_back(d.dilation);
      pads.push_back(d.before);
      after.push_back(d.after);
    }
    pads.insert(pads.end(), after.begin(), after.end());
    x = small_integers(random, size_of(in));
    w = small_integers(random, size_of(weight));
  }
  void set_attributes(OneNode& node) const {
    node.set("strides", strides).set("dilations", dilations).set("pads", pads).set("group", groups);
  }
  Numbers expected(const Numbers& from, const Numbers& by) const {
    return convolved(from, by, n, groups, c, k, dimensions);
  }
};

TEST(OnnxOperators, ConvolutionsAgreeWithLoops) {
  Random random(7);
  for (size_t round = 0; round < 60; ++round) {
    const RandomConvolution p(random, 1 + round % 3);
    OneNode node("Conv", 13);
    node.data(p.in, p.x);
    round % 2 ? node.data(p.weight, p.w) : node.constant(p.weight, p.w);
    p.set_attributes(node);
    EXPECT_THAT(node.values(), ElementsAreArray(p.expected(p.x, p.w))) << "round " << round;
  }
}

TEST(OnnxOperators, ConvolutionsOfWholeImagesAgreeWithLoops) {
  Random random(8);
  for (int64_t batch = 1; batch < 3; ++batch) {
    const Numbers x = small_integers(random, batch * 3 * 20),
                  w = small_integers(random, 2 * 3 * 20);
    const Dimensions whole = {{4, 4, 1, 1, 0, 0}, {5, 5, 1, 1, 0, 0}};
    Numbers expected = convolved(x, w, batch, 1, 3, 2, whole);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += i % 2 == 0 ? 10 : 20;
    OneNode node("Conv", 13);
    node.data({batch, 3, 4, 5}, x).constant({2, 3, 4, 5}, w).constant({2}, {10, 20});
    EXPECT_THAT(node.values(), ElementsAreArray(expected));
  }
}

TEST(OnnxOperators, IntegerConvolutionsAgreeWithLoops) {
  Random random(9);
  for (size_t round = 0; round < 30; ++round) {
    const RandomConvolution p(random, 1 + round % 3);
    const Numbers zeros = small_integers(random, p.groups * p.k);
    const auto minus = [](Numbers values, const auto& zero_of) {
      for (size_t i = 0; i < values.size(); ++i) values[i] -= zero_of(i);
      return values;
    };
    const size_t filter = p.w.size() / zeros.size();
    OneNode node("ConvInteger", 13);
    const bool are_known = round % 2 == 0;
    const auto give = [&](const Extents& shape, const Numbers& values) {
      are_known ? node.constant(shape, values, Int8) : node.data(shape, values, Int8);
    };
    node.data(p.in, p.x, Int8);
    give(p.weight, p.w);
    give({}, {3});
    give({std::ssize(zeros)}, zeros);
    p.set_attributes(node);
    const std::vector<dsl::Array> results = node.run();
    ASSERT_EQ(results.size(), 1u);
    Numbers sums;
    for (int64_t i = 0; i < results[0].size(); ++i)
      sums.push_back(static_cast<double>(results[0].get_int(i)));
    EXPECT_THAT(
        sums, ElementsAreArray(p.expected(minus(p.x, [](size_t) { return 3.0; }),
                                          minus(p.w, [&](size_t i) { return zeros[i / filter]; }))))
        << "round " << round;
  }
}

/// Returns random integers of an 8-bit type.
Numbers bytes(Random& random, int64_t count, DType type) {
  const IntegerLimits limits = integer_limits(type);
  Numbers values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(limits.least + random.below(256)));
  return values;
}

TEST(OnnxOperators, IntegerProductsAgreeWithLoops) {
  Random random(10);
  constexpr int64_t batch = 3, m = 4, k = 9, n = 5;
  for (size_t round = 0; round < 32; ++round) {
    const bool is_known = round % 2 == 0, has_many_zeros = round & 2, has_batches = round & 4;
    const DType left = round & 8 ? Int8 : UInt8, right = round & 16 ? Int8 : UInt8;
    const Extents right_shape = has_batches ? Extents{batch, k, n} : Extents{k, n};
    const Numbers a = bytes(random, batch * m * k, left),
                  b = bytes(random, size_of(right_shape), right),
                  a_zeros = bytes(random, has_many_zeros ? m : 1, left),
                  b_zeros = bytes(random, has_many_zeros ? n : 1, right);
    OneNode node("MatMulInteger", 13);
    const auto give = [&](const Extents& shape, const Numbers& values, DType type) {
      is_known ? node.constant(shape, values, type) : node.data(shape, values, type);
    };
    node.data({batch, m, k}, a, left);
    give(right_shape, b, right);
    give(has_many_zeros ? Extents{m} : Extents{}, a_zeros, left);
    give(has_many_zeros ? Extents{n} : Extents{1}, b_zeros, right);
    Numbers expected;
    for (int64_t i = 0; i < batch * m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const Numbers::value_type a_zero = a_zeros[has_many_zeros ? i % m : 0],
                                  b_zero = b_zeros[has_many_zeros ? j : 0];
        double total = 0;
        for (int64_t l = 0; l < k; ++l) {
          const int64_t row = has_batches ? i / m * k + l : l;
          total += (a[i * k + l] - a_zero) * (b[row * n + j] - b_zero);
        }
        expected.push_back(total);
      }
    EXPECT_THAT(node.values(), ElementsAreArray(expected)) << "round " << round;
  }
}

TEST(OnnxOperators, FactorsOfIntegerProductsAreCenteredAhead) {
  // With the zero point 128, all weights minus the zero point fit into 8 bits. With 100, some need
  // 16.
  for (const auto& [zero, type] : {std::pair(128.0, Int8), {100.0, Int16}}) {
    OneNode node("MatMulInteger", 13);
    node.data({2, 3}, {0, 1, 2, 3, 4, 255}, UInt8).constant({3, 1}, {0, 7, 255}, UInt8);
    node.data({}, {9}, UInt8).constant({}, {zero}, UInt8);
    const Graph graph = node.graph();
    ASSERT_EQ(graph.operators.size(), 2u);
    const dsl::Compute &centering = graph.operators[0].workload.compute,
                       &product = graph.operators[1].workload.compute;
    EXPECT_EQ(centering.stages.front().type, Int16);
    EXPECT_EQ(product.inputs[0].type, Int16);
    EXPECT_EQ(product.inputs[1].type, type);
  }
}

/// Computes a transposed convolution by loops: each input position is added to the outputs that its
/// taps reach. The outputs have `height` rows and `width` columns; Dimension::out() is not used.
Numbers transposed_convolved(const Numbers& x, const Numbers& w, int64_t n, int64_t groups,
                             int64_t c, int64_t k, const Dimension& rows, const Dimension& columns,
                             int64_t height, int64_t width) {
  Numbers y(static_cast<size_t>(n * groups * k * height * width), 0);
  const auto add = [&](int64_t b, int64_t from, int64_t to, int64_t h, int64_t v, int64_t r,
                       int64_t s) {
    const int64_t i = h * rows.stride + r * rows.dilation - rows.before;
    const int64_t j = v * columns.stride + s * columns.dilation - columns.before;
    if (i < 0 || i >= height || j < 0 || j >= width) return;
    const int64_t filter = from / c * k + to;
    y[static_cast<size_t>(((b * groups * k + filter) * height + i) * width + j)] +=
        x[static_cast<size_t>(((b * groups * c + from) * rows.in + h) * columns.in + v)] *
        w[static_cast<size_t>(((from * k + to) * rows.kernel + r) * columns.kernel + s)];
  };
  for (int64_t b = 0; b < n; ++b)
    for (int64_t from = 0; from < groups * c; ++from)
      for (int64_t to = 0; to < k; ++to)
        for (int64_t h = 0; h < rows.in; ++h)
          for (int64_t v = 0; v < columns.in; ++v)
            for (int64_t r = 0; r < rows.kernel; ++r)
              for (int64_t s = 0; s < columns.kernel; ++s) add(b, from, to, h, v, r, s);
  return y;
}

/// Returns the extent of the outputs of a transposed convolution. If there would be none, reduces
/// the paddings until there is one.
int64_t spread_extent(Dimension& d, int64_t added) {
  const int64_t full = (d.in - 1) * d.stride + (d.kernel - 1) * d.dilation + 1 + added;
  while (full - d.before - d.after < 1) --(d.before > d.after ? d.before : d.after);
  return full - d.before - d.after;
}

Dimension random_spread(Random& random) {
  return {1 + random.below(5), 1 + random.below(5), 1 + random.below(4),
          1 + random.below(4), random.below(5),     random.below(5)};
}

TEST(OnnxOperators, TransposedConvolutionsAgreeWithLoops) {
  Random random(11);
  for (int round = 0; round < 120; ++round) {
    Dimension rows = random_spread(random);
    const bool is_flat = round % 4 == 0;
    Dimension columns = is_flat ? Dimension{1, 1, 1, 1, 0, 0} : random_spread(random);
    const int64_t groups = 1 + random.below(3), n = 1 + round % 2;
    const int64_t c = 1 + random.below(2), k = 1 + random.below(2);
    const int64_t added = random.below(3);
    const int64_t height = spread_extent(rows, added);
    const int64_t width = is_flat ? 1 : spread_extent(columns, added);
    const Numbers x = small_integers(random, n * groups * c * rows.in * columns.in);
    const Numbers w = small_integers(random, groups * c * k * rows.kernel * columns.kernel);
    const Numbers bias = small_integers(random, groups * k);
    Extents in = {n, groups * c, rows.in}, weight = {groups * c, k, rows.kernel};
    Extents strides = {rows.stride}, dilations = {rows.dilation}, adds = {added};
    Extents pads = {rows.before, rows.after};
    if (!is_flat) {
      in.push_back(columns.in);
      weight.push_back(columns.kernel);
      strides.push_back(columns.stride);
      dilations.push_back(columns.dilation);
      adds.push_back(added);
      pads = {rows.before, columns.before, rows.after, columns.after};
    }
    Numbers expected = transposed_convolved(x, w, n, groups, c, k, rows, columns, height, width);
    OneNode node("ConvTranspose", 11);
    node.data(in, x);
    (round % 2 ? node.data(weight, w) : node.constant(weight, w))
        .set("strides", strides)
        .set("dilations", dilations)
        .set("pads", pads)
        .set("output_padding", adds)
        .set("group", groups);
    if (round % 3 == 0) {
      node.constant({groups * k}, bias);
      const int64_t plane = height * width;
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] += bias[i / static_cast<size_t>(plane) % bias.size()];
    }
    EXPECT_THAT(node.values(), ElementsAreArray(expected)) << "round " << round;
  }
}

TEST(OnnxOperators, TransposedConvolutionsHaveNoGuardsWhereTapsDoNotOverlap) {
  OneNode node("ConvTranspose", 11);
  node.data({1, 4, 3, 3}, counted(36)).constant({4, 2, 2, 2}, counted(32));
  node.set("strides", Extents{2, 2});
  const Graph graph = node.graph();
  EXPECT_THAT(names_of(graph), ElementsAre("expr", "reshape"));
  const dsl::Compute& phases = graph.operators[0].workload.compute;
  EXPECT_THAT(phases.shape_of(phases.outputs[0]), ElementsAre(1, 2, 3, 2, 3, 2));
  for (const dsl::Stage& stage : phases.stages)
    dsl::for_each(stage.body, [](const dsl::Expr& e) { EXPECT_FALSE(e.as<dsl::Select>()); });
}

TEST(OnnxOperators, TransposedConvolutionsOfStrideTwoStartWhereThePaddingEnds) {
  OneNode node("ConvTranspose", 11);
  node.data({1, 1, 3, 3}, counted(9)).constant({1, 1, 4, 4}, counted(16));
  node.set("strides", Extents{2, 2}).set("pads", Extents{1, 1, 1, 1});
  const Graph graph = node.graph();
  EXPECT_THAT(names_of(graph), ElementsAre("expr", "reshape"));
  const dsl::Compute& phases = graph.operators[0].workload.compute;
  EXPECT_THAT(phases.shape_of(phases.outputs[0]), ElementsAre(1, 1, 3, 2, 3, 2));
}

// With stride 2, a window of 3 taps has a phase with two taps and a phase with one. The sum skips
// the missing tap, a quarter of the products.
TEST(OnnxOperators, PhasesOfTransposedConvolutionsHaveTheirOwnTaps) {
  OneNode node("ConvTranspose", 11);
  node.data({1, 1, 5}, counted(5)).constant({1, 1, 3}, counted(3));
  node.set("strides", Extents{2}).set("pads", Extents{1, 1}).set("output_padding", Extents{1});
  const Graph graph = node.graph();
  EXPECT_EQ(
      dsl::to_string(graph.operators[0].workload.compute.stages[0].body),
      "select(0 <= c + d + r1 - 1 && c + d + r1 - 1 < 5 && 1 - d <= r1, in0[a, r0, c + d + r1 "
      "- 1], 0.0) * in1[r0, b, r1, d]");
}

TEST(OnnxOperators, TransposedConvolutionsCropWhatPaddingTakes) {
  OneNode node("ConvTranspose", 11);
  node.data({1, 1, 3, 3}, counted(9)).constant({1, 1, 5, 5}, counted(25));
  node.set("strides", Extents{3, 3}).set("pads", Extents{1, 1, 1, 1});
  const Graph graph = node.graph();
  EXPECT_THAT(names_of(graph), ElementsAre("expr", "reshape", "expr"));
  const dsl::Compute& phases = graph.operators[0].workload.compute;
  EXPECT_THAT(phases.shape_of(phases.outputs[0]), ElementsAre(1, 1, 4, 3, 4, 3));
}

}  // namespace
}  // namespace tw::graph::onnx

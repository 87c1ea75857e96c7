// SPDX-License-Identifier: Apache-2.0
// Each test converts one node and evaluates what it became. Most operators are compared by the
// backend suite (onnx_backend_test.py); here is what it does not have: which operators by name come
// of a node, definitions of older opsets, and errors.

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

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Numbers counted(int64_t size, double first = 0) {
  Numbers values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Keys of the operators, "expr" for those without a name.
std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators)
    names.push_back(is_reshape(op)             ? "reshape"
                    : op.workload.op == "expr" ? "expr"
                                               : op.workload.key());
  return names;
}

// ---- the table ------------------------------------------------------------------------------

TEST(OnnxOperators, RowsAreSortedAndOpsetsDoNotOverlap) {
  EXPECT_GT(conversions().size(), 130u);
  for (const std::vector<Conversion>& rows : {conversions(), contributed_conversions()})
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_NE(rows[i].convert, nullptr) << rows[i].op_type;
      if (i == 0) continue;
      EXPECT_LE(rows[i - 1].op_type, rows[i].op_type);
      if (rows[i - 1].op_type != rows[i].op_type) continue;
      EXPECT_NE(rows[i - 1].until, 0) << rows[i].op_type;
      EXPECT_LT(rows[i - 1].until, rows[i].since) << rows[i].op_type;
    }
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

// So a kernel can be vector code along the channels that it writes.
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

TEST(OnnxOperators, WeightsThatAreDataAreInputs) {
  const Graph graph =
      OneNode("Conv", 13).data({1, 1, 3, 3}, counted(9)).data({1, 1, 2, 2}, counted(4)).graph();
  ASSERT_EQ(graph.operators.size(), 1u);
  EXPECT_EQ(graph.operators[0].workload.op, "expr");
  for (const dsl::Input& input : graph.operators[0].workload.compute.inputs)
    EXPECT_FALSE(input.constant);
}

// ---- convolutions against loops -------------------------------------------------------------

/// One dimension of a convolution that the test computes by loops.
struct Dimension {
  int64_t in, kernel, stride, dilation, before, after;
  int64_t out() const { return (in + before + after - (kernel - 1) * dilation - 1) / stride + 1; }
};

/// A random dimension with at least one output.
Dimension random_dimension(Random& random) {
  const auto from = [&](int64_t low, int64_t high) { return low + random.below(high - low + 1); };
  Dimension d = {from(3, 7), from(1, 3), from(1, 3), from(1, 2), from(0, 2), from(0, 2)};
  while (d.in + d.before + d.after <= (d.kernel - 1) * d.dilation) ++d.in;
  return d;
}

using Dimensions = std::vector<Dimension>;

/// All index vectors of a shape, in row-major order.
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

/// The convolution of [n, groups * c, ...] by loops.
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

/// Shapes and numbers of a random convolution of one to three dimensions.
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

/// Random numbers of 8 bits.
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
  // All numbers less 128 have 8 bits, some less 100 need 16.
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

/// The transposed convolution by loops: every input position adds to those that its taps reach.
/// `rows.out()` is not used; the outputs have the extents that are given.
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

/// Paddings leave an output; returns the extent of it.
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

// A window of 3 has a phase with two taps and a phase with one. The sum skips the missing tap: a
// quarter of the products.
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

// ---- older opsets ---------------------------------------------------------------------------

TEST(OnnxOperators, SoftmaxFlattenedBeforeOpset13) {
  // Over [2, 1, 2] with axis 1: two rows of two elements; equal elements share equally.
  EXPECT_THAT(OneNode("Softmax", 11).data({2, 1, 2}, {5, 5, 1, 1}).values(),
              ElementsAre(0.5, 0.5, 0.5, 0.5));
  EXPECT_THAT(OneNode("Softmax", 11).data({2, 2}, {5, 5, 5, 5}).set("axis", int64_t{0}).values(),
              ElementsAre(0.25, 0.25, 0.25, 0.25));
  EXPECT_THAT(OneNode("Hardmax", 11).data({1, 2, 2}, {1, 4, 4, 2}).values(),
              ElementsAre(0, 1, 0, 0));
}

TEST(OnnxOperators, AttributesThatBecameInputs) {
  const Numbers x = counted(4);
  EXPECT_THAT(OneNode("Clip", 6).data({4}, x).set("min", 1.0).set("max", 2.0).values(),
              ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(OneNode("Clip", 11).data({4}, x).no_input().constant({}, {2}).values(),
              ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(OneNode("Clip", 13).data({4}, x).data({}, {1}).values(), ElementsAre(1, 1, 2, 3));
  EXPECT_THAT(
      OneNode("Slice", 9).data({4}, x).set("starts", Extents{1}).set("ends", Extents{-1}).values(),
      ElementsAre(1, 2));
  EXPECT_THAT(OneNode("Slice", 13)
                  .data({4}, x)
                  .integers({3})
                  .integers({-100})
                  .integers({0})
                  .integers({-2})
                  .values(),
              ElementsAre(3, 1));
  EXPECT_THAT(
      OneNode("Pad", 2).data({2}, {5, 6}).set("pads", Extents{1, 2}).set("value", 9.0).values(),
      ElementsAre(9, 5, 6, 9, 9));
  EXPECT_THAT(
      OneNode("Pad", 18).data({2, 2}, x).integers({-1, 1}).no_input().integers({1}).values(),
      ElementsAre(1, 0, 3, 0));
  EXPECT_THAT(OneNode("ReduceSum", 11).data({2, 2}, x).set("axes", Extents{0}).values(),
              ElementsAre(2, 4));
  EXPECT_THAT(OneNode("ReduceSum", 13).data({2, 2}, x).integers({-1}).values(), ElementsAre(1, 5));
  EXPECT_EQ(OneNode("Squeeze", 11).data({1, 4, 1}, x).set("axes", Extents{0}).run()[0].shape,
            (Extents{4, 1}));
  EXPECT_EQ(OneNode("Squeeze", 13).data({1, 4, 1}, x).run()[0].shape, (Extents{4}));
  EXPECT_EQ(OneNode("Unsqueeze", 13).data({4}, x).integers({0, -1}).run()[0].shape,
            (Extents{1, 4, 1}));
}

TEST(OnnxOperators, SplitsByAttributeInputAndNumberOfOutputs) {
  const Numbers x = counted(5);
  const auto expect_parts = [](OneNode& node, const Numbers& first, const Numbers& second) {
    const std::vector<dsl::Array> parts = node.outputs({"a", "b"}).run();
    EXPECT_EQ(numbers_of(parts.at(0)), first);
    EXPECT_EQ(numbers_of(parts.at(1)), second);
  };
  expect_parts(OneNode("Split", 11).data({5}, x).set("split", Extents{2, 3}), {0, 1}, {2, 3, 4});
  expect_parts(OneNode("Split", 13).data({5}, x).integers({1, 4}), {0}, {1, 2, 3, 4});
  expect_parts(OneNode("Split", 18).data({5}, x).set("num_outputs", int64_t{2}), {0, 1, 2}, {3, 4});
}

TEST(OnnxOperators, UpsampleRepeatsAndInterpolates) {
  EXPECT_THAT(OneNode("Upsample", 7).data({2}, {1, 2}).set("scales", Numbers{2}).values(),
              ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(OneNode("Upsample", 9)
                  .data({2}, {1, 2})
                  .constant({1}, {2})
                  .set("mode", std::string("linear"))
                  .values(),
              ElementsAre(1, 1.5, 2, 2));
  EXPECT_THAT(OneNode("Resize", 10).data({4}, counted(4)).constant({1}, {0.5}).values(),
              ElementsAre(0, 2));
}

TEST(OnnxOperators, ScalesAreRatiosOfSmallNumbers) {
  // 0.6 is no f32; as 3/5, five elements become three at 1/3, 2 and 11/3.
  EXPECT_THAT(OneNode("Resize", 13)
                  .data({5}, {0, 3, 6, 9, 12})
                  .no_input()
                  .constant({1}, {0.6f})
                  .set("mode", std::string("linear"))
                  .values(),
              ElementsAre(testing::DoubleNear(1, 1e-6), testing::DoubleNear(6, 1e-6),
                          testing::DoubleNear(11, 1e-6)));
}

TEST(OnnxOperators, BatchNormalizationFoldsItsStatistics) {
  OneNode node("BatchNormalization", 9);
  node.data({1, 2, 1}, {3, 5})
      .constant({2}, {2, 1})
      .constant({2}, {1, 0})
      .constant({2}, {1, 1})
      .constant({2}, {4, 16})
      .set("epsilon", 0.0);
  EXPECT_THAT(node.values(), ElementsAre(3, 1));
}

TEST(OnnxOperators, GroupNormalizationScalesGroupsBeforeOpset21) {
  const auto normalized = [](int64_t opset, const Extents& shape, const Numbers& scale) {
    return OneNode("GroupNormalization", opset)
        .data({1, 4, 1}, {-1, 1, -1, 1})
        .constant(shape, scale)
        .constant(shape, Numbers(scale.size(), 0))
        .set("num_groups", int64_t{2})
        .set("epsilon", 0.0)
        .values();
  };
  EXPECT_THAT(normalized(18, {2}, {2, 3}), ElementsAre(-2, 2, -3, 3));
  EXPECT_THAT(normalized(21, {4}, {1, 2, 3, 4}), ElementsAre(-1, 2, -3, 4));
}

// ---- numbers --------------------------------------------------------------------------------

TEST(OnnxOperators, RoundsHalfToEven) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(OneNode("Round", 11)
                  .data({8}, {0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, infinity})
                  .values(),
              ElementsAre(0, 2, 2, 0, -2, -2, 0, infinity));
}

TEST(OnnxOperators, QuantizesToTheLimitsOfTheType) {
  EXPECT_THAT(OneNode("QuantizeLinear", 13)
                  .data({5}, {-1000, -1, 0.25, 0.75, 1000})
                  .constant({}, {0.5})
                  .constant({}, {10}, Int8)
                  .values(),
              ElementsAre(-128, 8, 10, 12, 127));
  EXPECT_THAT(OneNode("DequantizeLinear", 13)
                  .data({2, 2}, {0, 10, 20, 255}, UInt8)
                  .constant({2}, {0.5, 2})
                  .constant({2}, {10, 0}, UInt8)
                  .set("axis", int64_t{0})
                  .values(),
              ElementsAre(-5, 0, 40, 510));
}

TEST(OnnxOperators, DynamicScalesOfZerosAreOne) {
  const std::vector<dsl::Array> quantized = OneNode("DynamicQuantizeLinear", 11)
                                                .outputs({"y", "scale", "zero_point"})
                                                .data({3}, {0, 0, 0})
                                                .run();
  ASSERT_EQ(quantized.size(), 3u);
  EXPECT_THAT(numbers_of(quantized[0]), ElementsAre(0, 0, 0));
  EXPECT_THAT(numbers_of(quantized[1]), ElementsAre(1));
  EXPECT_THAT(numbers_of(quantized[2]), ElementsAre(0));
}

TEST(OnnxOperators, WholeQuotientsAndRemainders) {
  const Numbers x = {-7, -6, 7};
  const auto divided = [&](const std::string& op_type, double by) {
    return OneNode(op_type, 13).data({3}, x, Int32).constant({}, {by}, Int32).values();
  };
  EXPECT_THAT(divided("Div", 2), ElementsAre(-3, -3, 3));
  EXPECT_THAT(divided("Div", -2), ElementsAre(3, 3, -3));
  EXPECT_THAT(divided("Mod", 4), ElementsAre(1, 2, 3));
  EXPECT_THAT(OneNode("Div", 13).data({3}, x, Int8).data({1}, {4}, Int8).values(),
              ElementsAre(-1, -1, 1));
  const Numbers by = {2, -4, -2};
  EXPECT_THAT(OneNode("Div", 13).data({3}, x, Int32).data({3}, by, Int32).values(),
              ElementsAre(-3, 1, -3));
  EXPECT_THAT(OneNode("Mod", 13).data({3}, x, Int32).data({3}, by, Int32).values(),
              ElementsAre(1, -2, -1));
}

TEST(OnnxOperators, PowersOfKnownExponents) {
  const auto raised = [](const Numbers& x, double exponent) {
    return OneNode("Pow", 13).data({std::ssize(x)}, x).constant({}, {exponent}).values();
  };
  EXPECT_THAT(raised({-2, 3}, 2), ElementsAre(4, 9));
  EXPECT_THAT(raised({-2, 4}, -1), ElementsAre(-0.5, 0.25));
  EXPECT_THAT(raised({4, 9}, 0.5), ElementsAre(2, 3));
  EXPECT_THAT(raised({-2, 2}, 0), ElementsAre(1, 1));
  EXPECT_THAT(raised({-1, 1}, 17), ElementsAre(-1, 1));
}

TEST(OnnxOperators, PoolsCountWhatTheyAreAskedTo) {
  const auto pooled = [](int64_t counts_padding) {
    return OneNode("AveragePool", 11)
        .data({1, 1, 3}, {3, 6, 9})
        .set("kernel_shape", Extents{2})
        .set("strides", Extents{2})
        .set("pads", Extents{1, 0})
        .set("count_include_pad", counts_padding)
        .values();
  };
  EXPECT_THAT(pooled(0), ElementsAre(3, 7.5));
  EXPECT_THAT(pooled(1), ElementsAre(1.5, 7.5));
  // The last window of ceil_mode reaches over the end: only what is there counts.
  EXPECT_THAT(OneNode("AveragePool", 11)
                  .data({1, 1, 3}, {3, 6, 9})
                  .set("kernel_shape", Extents{2})
                  .set("strides", Extents{2})
                  .set("ceil_mode", int64_t{1})
                  .values(),
              ElementsAre(4.5, 9));
}

TEST(OnnxOperators, GathersByKnownAndUnknownIndices) {
  const Numbers table = {10, 11, 20, 21, 30, 31};
  EXPECT_THAT(OneNode("Gather", 13).data({3, 2}, table).integers({2, 1}).values(),
              ElementsAre(30, 31, 20, 21));
  EXPECT_THAT(OneNode("Gather", 13).data({3, 2}, table).integers({0, -1, 1}).values(),
              ElementsAre(10, 11, 30, 31, 20, 21));
  EXPECT_THAT(OneNode("Gather", 13)
                  .data({3, 2}, table)
                  .data({2}, {-1, 0}, Int64)
                  .set("axis", int64_t{1})
                  .values(),
              ElementsAre(11, 10, 21, 20, 31, 30));
}

TEST(OnnxOperators, RunningTotalsGoBothWays) {
  const auto total = [](const char* op_type, int opset, int64_t exclusive, int64_t reverse) {
    return OneNode(op_type, opset)
        .data({2, 3}, {1, 2, 3, 4, 5, 6})
        .integers({1})
        .set("exclusive", exclusive)
        .set("reverse", reverse)
        .values();
  };
  EXPECT_THAT(total("CumSum", 14, 0, 0), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(total("CumSum", 14, 1, 0), ElementsAre(0, 1, 3, 0, 4, 9));
  EXPECT_THAT(total("CumSum", 14, 0, 1), ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(total("CumSum", 14, 1, 1), ElementsAre(5, 3, 0, 11, 6, 0));
  EXPECT_THAT(OneNode("CumSum", 14).data({2, 2}, {1, 2, 3, 4}, Float16).integers({0}).values(),
              ElementsAre(1, 2, 4, 6));
}

TEST(OnnxOperators, SinesAndTheirInverses) {
  EXPECT_THAT(OneNode("Cos", 7).data({2}, {0, 1}).values(),
              ElementsAre(1, DoubleNear(std::cos(1.0), 1e-6)));
  EXPECT_THAT(OneNode("Sin", 7).data({1}, {2}).values(),
              ElementsAre(DoubleNear(std::sin(2.0), 1e-6)));
  EXPECT_THAT(OneNode("Tan", 7).data({1}, {2}).values(),
              ElementsAre(DoubleNear(std::tan(2.0), 1e-5)));
  EXPECT_THAT(OneNode("Acos", 7).constant({1}, {1}).values(), ElementsAre(0));
  EXPECT_THAT(OneNode("Acos", 7).data({3}, {-0.75, 0, 0.5}).values(),
              ElementsAre(DoubleNear(std::acos(-0.75), 1e-5), DoubleNear(std::acos(0.0), 1e-5),
                          DoubleNear(std::acos(0.5), 1e-5)));
  EXPECT_THAT(OneNode("Asin", 7).data({2}, {-0.75, 0.5}).values(),
              ElementsAre(DoubleNear(std::asin(-0.75), 1e-5), DoubleNear(std::asin(0.5), 1e-5)));
  EXPECT_THAT(OneNode("Atan", 7).data({2}, {-3, 0.5}).values(),
              ElementsAre(DoubleNear(std::atan(-3.0), 1e-5), DoubleNear(std::atan(0.5), 1e-5)));
}

TEST(OnnxOperators, RecurrentStepsGoForwardsAndBackwards) {
  // h = relu(x + h / 2) over x = 2, 4, 8.
  const auto recurrent = [](OneNode& node, const std::string& direction) {
    const std::vector<dsl::Array> results =
        node.data({3, 1, 1}, {2, 4, 8})
            .constant({1, 1, 1}, {1})
            .constant({1, 1, 1}, {0.5})
            .set("activations", std::vector<std::string>{"Relu"})
            .set("direction", direction)
            .outputs({"y", "h"})
            .run();
    Numbers values = numbers_of(results.at(0));
    values.push_back(results.at(1).get_float(0));
    return values;
  };
  OneNode forward("RNN", 14), backward("RNN", 14);
  EXPECT_THAT(recurrent(forward, "forward"), ElementsAre(2, 5, 10.5, 10.5));
  EXPECT_THAT(recurrent(backward, "reverse"), ElementsAre(6, 8, 8, 6));
}

/// Y and Y_h of h = relu(x + h / 2) over 3 steps of a batch of 3.
std::vector<Numbers> recurrent_with_lengths(const std::string& direction, bool are_known) {
  OneNode node("RNN", 14);
  node.data({3, 3, 1}, {2, 20, 200, 4, 40, 400, 8, 80, 800})
      .constant({1, 1, 1}, {1})
      .constant({1, 1, 1}, {0.5})
      .no_input();
  if (are_known)
    node.constant({3}, {3, 1, 2}, Int32);
  else
    node.data({3}, {3, 1, 2}, Int32);
  const auto results = node.set("activations", std::vector<std::string>{"Relu"})
                           .set("direction", direction)
                           .outputs({"y", "h"})
                           .run();
  std::vector<Numbers> values;
  for (const dsl::Array& result : results) values.push_back(numbers_of(result));
  return values;
}

TEST(OnnxOperators, SequencesEndAtTheirLength) {
  for (const bool are_known : {true, false}) {
    EXPECT_THAT(
        recurrent_with_lengths("forward", are_known),
        ElementsAre(ElementsAre(2, 20, 200, 5, 0, 500, 10.5, 0, 0), ElementsAre(10.5, 20, 500)));
    EXPECT_THAT(recurrent_with_lengths("reverse", are_known),
                ElementsAre(ElementsAre(6, 20, 400, 8, 0, 400, 8, 0, 0), ElementsAre(6, 20, 400)));
  }
}

TEST(OnnxOperators, RecurrentLayersOfAnyLengthAreOneLoop) {
  const auto graph_of_steps = [](const char* op, int64_t gates, int64_t steps) {
    return OneNode(op, 14)
        .data({steps, 1, 2}, counted(2 * steps))
        .constant({1, 2 * gates, 2}, counted(4 * gates))
        .constant({1, 2 * gates, 2}, counted(4 * gates))
        .outputs({"y", "h"})
        .graph();
  };
  for (const auto& [op, gates] : {std::pair("RNN", 1), std::pair("GRU", 3), std::pair("LSTM", 4)}) {
    const Graph few = graph_of_steps(op, gates, 3), many = graph_of_steps(op, gates, 5000);
    EXPECT_EQ(few.operators.size(), many.operators.size()) << op;
    ASSERT_EQ(many.loops.size(), 1u) << op;
    EXPECT_EQ(many.loops[0].trips, 5000) << op;
  }
}

// ---- errors ---------------------------------------------------------------------------------

TEST(OnnxOperators, ErrorsNameTheNode) {
  OneNode("Add", 13)
      .data({2}, {1, 2})
      .data({3}, {1, 2, 3})
      .expect_error(ErrorCode::Invalid, "node 'node' (Add): shapes [2], [3] do not broadcast");
  OneNode("Add", 13)
      .data({1}, {1})
      .data({1}, {1}, Int32)
      .expect_error(ErrorCode::Invalid, "expected one type");
  OneNode("Softmax", 13)
      .data({2}, {1, 2})
      .set("axis", int64_t{1})
      .expect_error(ErrorCode::Invalid, "axis 1 of a tensor of 1 dimensions");
  OneNode("Relu", 13).data({1}, {1}, Bool).expect_error(ErrorCode::Unsupported, "bool");
  OneNode("Reshape", 13)
      .data({2}, {1, 2})
      .data({1}, {2}, Int64)
      .expect_error(ErrorCode::Unsupported, "not known at import");
  OneNode("Reshape", 13)
      .data({2}, {1, 2})
      .integers({3})
      .expect_error(ErrorCode::Invalid, "sizes differ");
  OneNode("Pad", 11)
      .data({2}, {1, 2})
      .integers({2, 0})
      .set("mode", std::string("reflect"))
      .expect_error(ErrorCode::Unsupported, "a reflection of more than the tensor");
  OneNode("Conv", 13)
      .data({1, 1, 2}, {1, 2})
      .data({1, 1, 3}, {1, 1, 1})
      .expect_error(ErrorCode::Invalid, "a kernel that reaches over 3 on 2 elements");
  OneNode("LSTM", 14)
      .data({1, 1, 1}, {1})
      .data({1, 4, 1}, counted(4))
      .data({1, 3, 1}, counted(3))
      .expect_error(ErrorCode::Invalid, "the weights do not fit");
}

// ---- Fourier transforms ---------------------------------------------------------------------

/// The transform by its definition, parts last.
Numbers transform_of(const Numbers& x, int64_t length, int64_t parts, int64_t bins,
                     bool is_inverse) {
  Numbers y;
  for (int64_t k = 0; k < bins; ++k) {
    double real = 0, imaginary = 0;
    for (int64_t n = 0; n < length; ++n) {
      const double angle = (is_inverse ? 2 : -2) * std::numbers::pi *
                           static_cast<double>(n * k % length) / static_cast<double>(length);
      const auto at = static_cast<size_t>(n * parts);
      const double re = x[at], im = parts == 2 ? x[at + 1] : 0;
      real += re * std::cos(angle) - im * std::sin(angle);
      imaginary += re * std::sin(angle) + im * std::cos(angle);
    }
    const double size = is_inverse ? 1.0 / static_cast<double>(length) : 1;
    y.insert(y.end(), {size * real, size * imaginary});
  }
  return y;
}

Numbers random_numbers(int64_t count) {
  Random random(static_cast<uint64_t>(count));
  Numbers values;
  for (int64_t i = 0; i < count; ++i) values.push_back(2 * random.unit() - 1);
  return values;
}

// Short ones are one product, lengths with factors two short ones, and primes one again.
TEST(OnnxOperators, FourierTransformsOfAnyLength) {
  for (const int64_t length : {1, 12, 120, 127, 150, 400, 512})
    for (const int64_t parts : {1, 2})
      for (const bool is_inverse : {false, true}) {
        const bool is_onesided = parts == 1 && !is_inverse;
        const int64_t bins = is_onesided ? length / 2 + 1 : length;
        const Numbers x = random_numbers(length * parts);
        OneNode node("DFT", 17);
        node.data({1, length, parts}, x)
            .set("inverse", int64_t{is_inverse})
            .set("onesided", int64_t{is_onesided});
        SCOPED_TRACE(fmt::format("{} {} {}", length, parts, is_inverse));
        expect_near(node.values(), transform_of(x, length, parts, bins, is_inverse), 1e-4);
      }
}

TEST(OnnxOperators, LongFourierTransformsTakeTwoSteps) {
  const auto has_batches = [](int64_t length) {
    OneNode node("DFT", 17);
    node.data({1, length, 1}, random_numbers(length)).set("onesided", int64_t{1});
    const Graph graph = node.graph();
    return std::ranges::any_of(graph.operators,
                               [](const Operator& op) { return op.workload.op == "batch_matmul"; });
  };
  EXPECT_TRUE(has_batches(400));
  EXPECT_FALSE(has_batches(16));
  EXPECT_FALSE(has_batches(401));
}

// 3 frames of 160 samples, 100 apart, with a window; real samples may lack their dimension of 1.
TEST(OnnxOperators, ShortTimeFourierTransformsOfLongFrames) {
  const Numbers x = random_numbers(400), window = random_numbers(160);
  Numbers expected;
  for (int64_t frame = 0; frame < 3; ++frame) {
    Numbers samples;
    for (int64_t n = 0; n < 160; ++n)
      samples.push_back(x[static_cast<size_t>(100 * frame + n)] * window[static_cast<size_t>(n)]);
    const Numbers bins = transform_of(samples, 160, 1, 81, false);
    expected.insert(expected.end(), bins.begin(), bins.end());
  }
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 400, 1}, {1, 400}}) {
    OneNode node("STFT", 17);
    node.data(shape, x)
        .constant({}, {100}, Int64)
        .constant({160}, window)
        .constant({}, {160}, Int64);
    expect_near(node.values(), expected, 1e-4);
  }
}

}  // namespace
}  // namespace tw::graph::onnx

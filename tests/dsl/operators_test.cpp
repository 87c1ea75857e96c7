// SPDX-License-Identifier: Apache-2.0
#include "dsl/operators.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "dsl/interpret.h"
#include "dsl/parse.h"
#include "dsl/workload.h"

namespace tw::dsl {
namespace {

using ::testing::HasSubstr;

Result<Compute> make(const char* op, const char* attributes, DType type = Float32) {
  TW_TRY(const Operator* row, find_operator(op));
  TW_TRY(const Attributes given, parse_shape(attributes, op));
  TW_TRY(const Attributes resolved, resolve(*row, given));
  return declare(*row, resolved, type);
}

Arrays filled(const Compute& compute, uint64_t seed = 1) {
  Random random(seed);
  Arrays inputs;
  for (const Input& input : compute.inputs) {
    inputs[input.name] = *Array::make(input.type, input.shape);
    fill_integers(inputs[input.name], random);
  }
  return inputs;
}

struct ConvCase {
  int64_t n, c, h, w, k, r, s, stride_h, stride_w, top, left, bottom, right, dilation, groups;
};

/// Computes a convolution by plain loops over 4-D arrays, without the expression language.
std::vector<double> naive_conv(const ConvCase& p, const Array& in, const Array& w) {
  const int64_t cg = p.c / p.groups, kg = p.k / p.groups;
  const int64_t oh = (p.h + p.top + p.bottom - (p.r - 1) * p.dilation - 1) / p.stride_h + 1;
  const int64_t ow = (p.w + p.left + p.right - (p.s - 1) * p.dilation - 1) / p.stride_w + 1;
  std::vector<double> out;
  for (int64_t n = 0; n < p.n; ++n)
    for (int64_t k = 0; k < p.k; ++k)
      for (int64_t y = 0; y < oh; ++y)
        for (int64_t x = 0; x < ow; ++x) {
          double total = 0;
          for (int64_t c = 0; c < cg; ++c)
            for (int64_t r = 0; r < p.r; ++r)
              for (int64_t s = 0; s < p.s; ++s) {
                const int64_t iy = y * p.stride_h + r * p.dilation - p.top;
                const int64_t ix = x * p.stride_w + s * p.dilation - p.left;
                if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
                const int64_t channel = k / kg * cg + c;
                total += in.get_float(((n * p.c + channel) * p.h + iy) * p.w + ix) *
                         w.get_float(((k * cg + c) * p.r + r) * p.s + s);
              }
          out.push_back(total);
        }
  return out;
}

TEST(Conv2d, EqualsTheNaiveLoops) {
  const ConvCase cases[] = {
      {1, 3, 6, 7, 4, 3, 3, 1, 1, 0, 0, 0, 0, 1, 1}, {2, 3, 6, 7, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
      {1, 2, 9, 8, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1}, {1, 2, 9, 8, 3, 5, 3, 2, 1, 2, 0, 1, 1, 1, 1},
      {1, 2, 9, 9, 2, 3, 3, 1, 1, 2, 2, 2, 2, 2, 1}, {1, 6, 5, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 6},
      {2, 4, 5, 6, 6, 3, 3, 2, 2, 1, 1, 1, 1, 1, 2}, {1, 3, 5, 5, 6, 2, 2, 1, 1, 0, 1, 0, 1, 1, 3},
      {1, 1, 4, 4, 1, 1, 1, 3, 3, 0, 0, 0, 0, 1, 1}, {1, 2, 3, 3, 2, 3, 3, 1, 1, 3, 3, 3, 3, 1, 1}};
  for (const ConvCase& p : cases) {
    const Operator& op = **find_operator("conv2d");
    const auto resolved = resolve(op, {{"n", p.n},
                                       {"c", p.c},
                                       {"h", p.h},
                                       {"w", p.w},
                                       {"k", p.k},
                                       {"r", p.r},
                                       {"s", p.s},
                                       {"stride_h", p.stride_h},
                                       {"stride_w", p.stride_w},
                                       {"pad_top", p.top},
                                       {"pad_left", p.left},
                                       {"pad_bottom", p.bottom},
                                       {"pad_right", p.right},
                                       {"dilation", p.dilation},
                                       {"groups", p.groups}});
    ASSERT_TRUE(resolved) << resolved.error().message;
    const Compute compute = *declare(op, *resolved, Float32);
    const Arrays inputs = filled(compute);
    const auto outputs = interpret(compute, inputs);
    ASSERT_TRUE(outputs) << outputs.error().message << "\n" << to_text(compute);
    const Array& out = outputs->at("out");
    const std::vector<double> expected = naive_conv(p, inputs.at("in"), inputs.at("w"));
    ASSERT_EQ(static_cast<size_t>(out.size()), expected.size()) << to_text(compute);
    for (int64_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out.get_float(i), expected[static_cast<size_t>(i)])
          << print_attributes(op, *resolved);
  }
}

TEST(Conv2d, GuardsOnlyWhatCanFail) {
  EXPECT_EQ(to_string(make("conv2d", "c4h8w8k4r3s3")->stages[0].body),
            "in[n, c, y + r, x + s] * w[k, c, r, s]");
  EXPECT_EQ(to_string(make("conv2d", "c4h8w8k4r3s3p1")->stages[0].body),
            "select(0 <= y + r - 1 && y + r - 1 < 8 && 0 <= x + s - 1 && x + s - 1 < 8, "
            "in[n, c, y + r - 1, x + s - 1], 0.0) * w[k, c, r, s]");
  // With stride 2 the last window of the 8 rows ends at row 7, so that no row below the image is
  // read.
  EXPECT_EQ(to_string(make("conv2d", "c4h8w8k4r3s3st2p1")->stages[0].body),
            "select(0 <= y * 2 + r - 1 && 0 <= x * 2 + s - 1, "
            "in[n, c, y * 2 + r - 1, x * 2 + s - 1], 0.0) * w[k, c, r, s]");
}

TEST(Conv2d, EpilogueIsOneFurtherStage) {
  const Compute compute = *make("conv2d", "c=2 h=4 w=4 k=3 r=1 s=1 bias=1 residual=1 relu=1");
  ASSERT_EQ(compute.stages.size(), 2u);
  EXPECT_EQ(compute.stages[0].name, "conv");
  EXPECT_EQ(to_string(compute.stages[1].body),
            "max(conv[n, k, y, x] + bias[k] + res[n, k, y, x], 0.0)");
  EXPECT_FALSE(compute.find_input("res")->constant);
  const Arrays inputs = filled(compute);
  const Array out = interpret(compute, inputs)->at("out");
  double expected = inputs.at("bias").get_float(1) + inputs.at("res").get({0, 1, 2, 3});
  for (int64_t c = 0; c < 2; ++c)
    expected += inputs.at("in").get({0, c, 2, 3}) * inputs.at("w").get({1, c, 0, 0});
  EXPECT_EQ(out.get({0, 1, 2, 3}), std::max(expected, 0.0));
}

TEST(Conv2d, ReducedTypesAccumulateWide) {
  const Compute half = *make("conv2d", "c2h4w4k3r3s3p1", Float16);
  EXPECT_EQ(half.type_of("conv"), Float32);
  EXPECT_EQ(half.type_of("out"), Float16);
  const Compute bytes = *make("conv2d", "c2h4w4k3r3s3p1", Int8);
  EXPECT_EQ(bytes.type_of("out"), Int32);
  EXPECT_TRUE(interpret(bytes, filled(bytes)));
  EXPECT_TRUE(interpret(half, filled(half)));
}

TEST(Conv2d, Fault03_ABatchOfZeroIsValidAndEmpty) {
  const Compute compute = *make("conv2d", "n0c3h4w4k2r3s3p1");
  const Array out = interpret(compute, filled(compute))->at("out");
  EXPECT_EQ(out.size(), 0);
  EXPECT_EQ(out.shape, (std::vector<int64_t>{0, 2, 4, 4}));
}

TEST(Conv2d, Fault05_ExtentsThatOverflowAreUnsupported) {
  for (const char* shape :
       {"c1099511627776h1099511627776w4k2r1s1", "c2h4w4k2r1099511627776s1d1099511627776",
        "c9223372036854775807h4w4k2r1s1", "c2h4w4k2r3s3p9223372036854775807"}) {
    const auto compute = make("conv2d", shape);
    ASSERT_FALSE(compute) << shape;
    EXPECT_EQ(compute.error().code, ErrorCode::Unsupported) << shape;
    EXPECT_THAT(compute.error().message, HasSubstr("extent overflow"));
  }
}

TEST(Conv2d, PaddingMayExceedTheKernel) {
  const Compute plain = *make("conv2d", "c=2 h=3 w=4 k=2 r=1 s=1 pad=0");
  const Compute padded = *make("conv2d", "c=2 h=3 w=4 k=2 r=1 s=1 pad=3");
  const Arrays inputs = filled(plain);
  const Array inner = interpret(plain, inputs)->at("out"),
              out = interpret(padded, inputs)->at("out");
  ASSERT_EQ(out.shape, (std::vector<int64_t>{1, 2, 9, 10}));
  for (int64_t k = 0; k < 2; ++k)
    for (int64_t y = 0; y < 9; ++y)
      for (int64_t x = 0; x < 10; ++x) {
        const bool is_inside = y >= 3 && y < 6 && x >= 3 && x < 7;
        EXPECT_EQ(out.get({0, k, y, x}), is_inside ? inner.get({0, k, y - 3, x - 3}) : 0.0);
      }
}

TEST(MaxPool2d, AWindowOfPaddingAloneGivesTheLeastValue) {
  for (const DType type : {Float32, Int8}) {
    const Compute compute = *make("max_pool2d", "c=1 h=2 w=3 kernel=2 pad=3", type);
    Arrays inputs = filled(compute);
    for (int64_t i = 0; i < 6; ++i)
      is_float(type) ? inputs["in"].set_float(i, static_cast<double>(i))
                     : inputs["in"].set_int(i, i);
    const Array out = interpret(compute, inputs)->at("out");
    ASSERT_EQ(out.shape, (std::vector<int64_t>{1, 1, 7, 8}));
    const double least = type == Int8 ? -128 : -std::numeric_limits<double>::infinity();
    for (int64_t y = 0; y < 7; ++y)
      for (int64_t x = 0; x < 8; ++x) {
        const bool sees_input = y >= 2 && y < 5 && x >= 2 && x < 6;
        EXPECT_EQ(out.get({0, 0, y, x}) == least, !sees_input) << y << ", " << x;
      }
    EXPECT_EQ(out.get({0, 0, 3, 4}), 5);
  }
}

TEST(Conv2d, Fault07_ContradictoryAttributesAreTypedErrors) {
  const struct {
    const char *attributes, *why;
  } cases[] = {{"c=4 h=8 w=8 k=4 r=3 s=3 stride=0", "stride=0: expected 1 or more"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 stride=-1", "stride=-1"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 stride_w=0", "stride_w=0"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 dilation=0", "dilation=0"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 pad=-1", "pad=-1"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 groups=0", "groups=0"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 groups=3", "groups=3 must divide c=4 and k=4"},
               {"c=4 h=8 w=8 k=6 r=3 s=3 groups=4", "must divide"},
               {"c=4 h=8 w=8 k=4 r=9 s=3", "larger than the padded input's 8"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 dilation=5", "larger than the padded input's 8"},
               {"c=4 h=8 w=8 k=4 r=0 s=3", "r=0"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 relu=2", "expected 0 or 1"},
               {"c=4 h=8 w=8 k=4 r=3", "'s' is missing"},
               {"c=4 h=8 w=8 k=4 r=3 s=3 paddd=1", "names no attribute"}};
  for (const auto& [attributes, why] : cases) {
    const auto compute = make("conv2d", attributes);
    ASSERT_FALSE(compute) << attributes;
    EXPECT_EQ(compute.error().code, ErrorCode::Usage) << attributes;
    EXPECT_THAT(compute.error().message, HasSubstr(why)) << attributes;
  }
}

TEST(Conv2d, Fault07_RandomAttributesNeverTrap) {
  Random random(5);
  int valid = 0;
  for (int round = 0; round < 3000; ++round) {
    Attributes given;
    for (const Attribute& attribute : (*find_operator("conv2d"))->attributes)
      if (!attribute.is_flag && (attribute.always || random.chance(0.2)))
        given[std::string(attribute.name)] = random.chance(0.02)   ? INT64_MAX - random.below(3)
                                             : random.chance(0.05) ? -random.below(3)
                                                                   : random.below(8);
    if (random.chance(0.7)) given["groups"] = given["dilation"] = 1;
    if (random.chance(0.7)) given["h"] = given["w"] = 9;
    const auto made = make_workload("conv2d", given);
    if (!made) {
      EXPECT_TRUE(made.error().code == ErrorCode::Usage ||
                  made.error().code == ErrorCode::Unsupported);
      continue;
    }
    ++valid;
    const auto outputs = interpret(made->compute, filled(made->compute));
    EXPECT_TRUE(outputs) << outputs.error().message << "\n" << made->key();
  }
  EXPECT_GT(valid, 50);
}

TEST(Operators, Fault07_RandomAttributesNeverTrap) {
  for (const Operator& op : operators()) {
    Random random(7);
    int valid = 0;
    for (int round = 0; round < 400; ++round) {
      Attributes given;
      for (const Attribute& attribute : op.attributes)
        if (attribute.is_flag ? random.chance(0.2) : random.chance(0.9))
          given[std::string(attribute.name)] = random.chance(0.02)   ? INT64_MAX - random.below(3)
                                               : random.chance(0.05) ? -random.below(3)
                                               : attribute.is_flag   ? random.below(2)
                                                                     : random.below(6);
      const auto made = make_workload(op.name, given);
      if (!made) {
        EXPECT_TRUE(made.error().code == ErrorCode::Usage ||
                    made.error().code == ErrorCode::Unsupported)
            << made.error().message;
        continue;
      }
      ++valid;
      EXPECT_EQ(parse_workload(made->key())->key(), made->key());
      const auto outputs = interpret(made->compute, filled(made->compute));
      EXPECT_TRUE(outputs) << outputs.error().message << "\n" << made->key();
    }
    // Random groups, strides and paddings seldom make a valid convolution. Convolutions have a test
    // of their own.
    EXPECT_GT(valid, op.name.ends_with("conv2d") ? 0 : 5) << op.name;
  }
}

TEST(Operators, AreSortedAndTheirExamplesDeclare) {
  const auto& table = operators();
  EXPECT_TRUE(std::is_sorted(table.begin(), table.end(),
                             [](const Operator& a, const Operator& b) { return a.name < b.name; }));
  for (const Operator& op : table) {
    const auto compute = make(std::string(op.name).c_str(), std::string(op.example).c_str());
    EXPECT_TRUE(compute) << op.name << compute.error().message;
    for (const Attribute& attribute : op.attributes)
      EXPECT_FALSE(attribute.meaning.empty()) << attribute.name;
  }
}

TEST(Operators, UnknownNamesSuggestTheNearest) {
  const auto found = find_operator("conv2");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::Usage);
  EXPECT_THAT(found.error().message, HasSubstr("did you mean 'conv2d'?"));
  EXPECT_THAT(found.error().message, HasSubstr("softmax"));
}

TEST(Operators, NamesOfOtherLibrariesAreAnswered) {
  for (const auto& [name, op] : std::map<std::string, std::string>{{"gemm", "dense"},
                                                                   {"MatMul", "dense"},
                                                                   {"gemm", "dense"},
                                                                   {"linear", "dense"},
                                                                   {"fc", "dense"},
                                                                   {"bmm", "batch_matmul"},
                                                                   {"Conv", "conv2d"},
                                                                   {"convolution", "conv2d"},
                                                                   {"MaxPool", "max_pool2d"},
                                                                   {"LayerNorm", "layer_norm"}}) {
    const auto found = find_operator(name);
    ASSERT_FALSE(found) << name;
    EXPECT_THAT(found.error().message, HasSubstr("it is called '" + op + "' here")) << name;
    EXPECT_TRUE(find_operator(op)) << op;
  }
}

TEST(Operators, PositionsOfExtremesFollowNumPyOnNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  const std::tuple<std::vector<double>, int64_t, int64_t> rows[] = {
      {{nan, nan, nan}, 0, 0}, {{1, nan, 3}, 1, 1},   {{-inf, -inf, -inf}, 0, 0},
      {{1, inf, nan}, 2, 2},   {{2, nan, inf}, 1, 1}, {{-1, 5, 5}, 1, 0}};
  for (const auto& [row, largest, smallest] : rows)
    for (const char* op : {"argmax", "argmin"}) {
      const Compute compute = *make(op, "rows=1 cols=3");
      Arrays inputs = filled(compute);
      for (int64_t j = 0; j < 3; ++j) inputs["in"].set_float(j, row[static_cast<size_t>(j)]);
      EXPECT_EQ(interpret(compute, inputs)->at("out").get_int(0),
                std::string(op) == "argmax" ? largest : smallest)
          << op << " of " << row[0] << " " << row[1] << " " << row[2];
    }
}

TEST(Operators, MatmulIsASecondNameOfDense) {
  EXPECT_EQ(make_workload("matmul", *parse_shape("m=3 n=4 k=5", "matmul"))->key(),
            "dense m=3 n=4 k=5 f32 fast");
  EXPECT_EQ(parse_workload("matmul m=3 n=4 k=5 f32 fast")->key(), "dense m=3 n=4 k=5 f32 fast");
}

TEST(Operators, DenseAndBatchMatmulMultiply) {
  const Compute dense = *make("dense", "m=3 n=4 k=5 bias=1 relu=1");
  Arrays inputs = filled(dense);
  Array out = interpret(dense, inputs)->at("out");
  double expected = inputs.at("bias").get_float(3);
  for (int64_t k = 0; k < 5; ++k)
    expected += inputs.at("a").get({2, k}) * inputs.at("b").get({k, 3});
  EXPECT_EQ(out.get({2, 3}), std::max(expected, 0.0));

  const Compute batched = *make("batch_matmul", "batch=2 m=3 n=4 k=5");
  inputs = filled(batched);
  out = interpret(batched, inputs)->at("out");
  expected = 0;
  for (int64_t k = 0; k < 5; ++k)
    expected += inputs.at("a").get({1, 2, k}) * inputs.at("b").get({1, k, 3});
  EXPECT_EQ(out.get({1, 2, 3}), expected);
  EXPECT_FALSE(batched.find_input("b")->constant);
}

TEST(Operators, WeightsOfBlocksShareAScale) {
  for (const int64_t bits : {4, 8})
    for (const int64_t rows : {64, 45}) {
      const Compute compute = *make(fmt::format("dense_q{}", bits).c_str(),
                                    fmt::format("m=3 n=5 k={} bias=1 relu=1", rows).c_str());
      Arrays inputs = filled(compute);
      Array& a = inputs.at("a");
      // Two rows have integers of 8 bits, scaled by another power of two in each block. The third
      // row is 0.
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t k = 0; k < rows; ++k)
          a.set_float(i * rows + k,
                      std::ldexp(k % 32 == 3 ? 127 : (5 * i + 7 * k) % 50 - 20, k < 32 ? -4 : 1));
      for (int64_t k = 0; k < rows; ++k) a.set_float(2 * rows + k, 0);
      const auto weight = [&](int64_t k, int64_t n) {
        const int64_t block = k / 32, row = k % 32;
        const double scale = inputs.at("scale").get({block, n});
        if (bits == 8) return inputs.at("w").get({block, row, n}) * scale;
        const auto byte = static_cast<int64_t>(inputs.at("w").get({block, row % 16, n}));
        return static_cast<double>((row < 16 ? byte & 15 : byte >> 4) - 8) * scale;
      };
      const Array out = interpret(compute, inputs)->at("out");
      for (int64_t m = 0; m < 3; ++m)
        for (int64_t n = 0; n < 5; ++n) {
          double expected = inputs.at("bias").get_float(n);
          for (int64_t k = 0; k < rows; ++k) expected += a.get({m, k}) * weight(k, n);
          expected = std::max(expected, 0.0);
          EXPECT_NEAR(out.get({m, n}), expected, 1e-5 * std::abs(expected)) << bits;
        }
    }
  EXPECT_EQ(make("dense_q4", "m=1 n=5 k=64", Int8).error().code, ErrorCode::Unsupported);
}

TEST(Operators, QuantizedProductsSaturateScaledSums) {
  const Compute compute = *make("qlinear_dense", "m=1 n=6 k=2 bias=1");
  Arrays inputs = filled(compute);
  const auto set = [&](const char* name, std::vector<int64_t> values) {
    for (size_t i = 0; i < values.size(); ++i)
      inputs.at(name).set_int(static_cast<int64_t>(i), values[i]);
  };
  set("a", {255, 1});
  set("b", {127, -128, 1, 1, 2, 3, 0, 0, 2, 3, 0, 0});
  set("bias", {0, 0, 0, 0, 1, -2});
  const std::vector<double> scales = {1, 1, 0.25, 0.5, 0.125, 1e-3};
  for (int64_t i = 0; i < 6; ++i) inputs.at("scale").set_float(i, scales[static_cast<size_t>(i)]);
  const Array out = interpret(compute, inputs)->at("out");
  ASSERT_EQ(out.type, UInt8);
  // The third, fourth and fifth results are 257 / 4, 258 / 2 and 511 / 8 before they are rounded.
  const std::vector<int64_t> expected = {255, 0, 64, 129, 64, 1};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(out.get_int(i), expected[static_cast<size_t>(i)]) << i;
  EXPECT_EQ(make("qlinear_dense", "m=1 n=5 k=64", UInt8).error().code, ErrorCode::Unsupported);
}

TEST(Operators, QuantizedConvolutionsPadWithZeros) {
  const Compute compute = *make("qlinear_conv2d", "c=2 h=3 w=3 k=1 r=3 s=3 pad=1");
  Arrays inputs = filled(compute);
  for (int64_t i = 0; i < 18; ++i) {
    inputs.at("in").set_int(i, 1);
    inputs.at("w").set_int(i, 3);
  }
  inputs.at("scale").set_float(0, 1);
  const Array out = interpret(compute, inputs)->at("out");
  EXPECT_EQ(out.get_int(0), 24);
  EXPECT_EQ(out.get_int(4), 54);
}

TEST(Operators, MaxPoolIgnoresItsPadding) {
  const Compute compute = *make("max_pool2d", "c=1 h=3 w=3 kernel=3 stride=2 pad=1");
  Arrays inputs = filled(compute);
  for (int64_t i = 0; i < 9; ++i) inputs["in"].set_float(i, static_cast<double>(i - 20));
  const Array out = interpret(compute, inputs)->at("out");
  ASSERT_EQ(out.shape, (std::vector<int64_t>{1, 1, 2, 2}));
  EXPECT_EQ(out.get_float(0), 4 - 20);
  EXPECT_EQ(out.get_float(3), 8 - 20);
}

TEST(Operators, RowsOfMatrices) {
  const Compute softmax = *make("softmax", "rows=2 cols=5");
  Array out = interpret(softmax, filled(softmax))->at("out");
  for (int64_t i = 0; i < 2; ++i) {
    double total = 0;
    for (int64_t j = 0; j < 5; ++j) total += out.get({i, j});
    EXPECT_NEAR(total, 1, 1e-6);
  }
  const Compute argmax = *make("argmax", "rows=1 cols=4");
  Arrays inputs = filled(argmax);
  for (int64_t j = 0; j < 4; ++j) inputs["in"].set_float(j, j == 2 || j == 3 ? 7.0 : 1.0);
  EXPECT_EQ(interpret(argmax, inputs)->at("out").get_int(0), 2);

  const Compute norm = *make("layer_norm", "rows=1 cols=4");
  inputs = filled(norm);
  for (int64_t j = 0; j < 4; ++j) {
    inputs["in"].set_float(j, static_cast<double>(j));
    inputs["scale"].set_float(j, 2);
    inputs["shift"].set_float(j, 10);
  }
  out = interpret(norm, inputs)->at("out");
  EXPECT_NEAR(out.get_float(3), 10 + 2 * 1.5 / std::sqrt(1.25 + 1e-5), 1e-6);

  const Compute gelu = *make("gelu", "rows=1 cols=1");
  inputs = filled(gelu);
  inputs["in"].set_float(0, 1);
  EXPECT_NEAR(interpret(gelu, inputs)->at("out").get_float(0), 0.8413447, 1e-6);

  const Compute transpose = *make("transpose", "rows=2 cols=3", UInt8);
  inputs = filled(transpose);
  EXPECT_EQ(interpret(transpose, inputs)->at("out").get({2, 1}), inputs["in"].get({1, 2}));

  const Compute average = *make("global_avg_pool", "c=1 h=2 w=2", BFloat16);
  inputs = filled(average);
  for (int64_t i = 0; i < 4; ++i) inputs["in"].set_float(i, static_cast<double>(i));
  EXPECT_EQ(interpret(average, inputs)->at("out").get_float(0), 1.5);

  for (const char* op : {"dense", "conv2d", "softmax", "layer_norm", "gelu", "global_avg_pool"}) {
    const std::string shape = std::string(op) == "dense" ? "m=2 n=3 k=4 bias=1"
                              : std::string(op) == "conv2d"
                                  ? "n=1 c=2 h=5 w=5 k=3 r=3 s=3 bias=1 relu=1"
                              : std::string(op) == "global_avg_pool" ? "c=2 h=2 w=3"
                                                                     : "rows=2 cols=3";
    const Compute doubles = *make(op, shape.c_str(), Float64);
    for (const Input& input : doubles.inputs) EXPECT_EQ(input.type, Float64) << op;
    for (const Stage& stage : doubles.stages) EXPECT_EQ(stage.type, Float64) << op;
  }

  const Compute total = *make("reduce_sum", "rows=1 cols=3", Int8);
  inputs = filled(total);
  for (int64_t i = 0; i < 3; ++i) inputs["in"].set_int(i, 100);
  EXPECT_EQ(interpret(total, inputs)->at("out").get_int(0), 300);
}

TEST(Operators, AttentionWeighsValuesByTheirKeys) {
  for (const bool causal : {false, true}) {
    const Compute compute =
        *make("attention", causal ? "b=2 m=3 n=4 d=5 causal=1" : "b=2 m=3 n=4 d=5");
    Arrays inputs = filled(compute);
    for (const char* name : {"q", "k", "v"})
      for (int64_t i = 0; i < inputs[name].size(); ++i)
        inputs[name].set_float(i, static_cast<double>(i * 7 % 11) / 8 - 0.5);
    const Array out = interpret(compute, inputs)->at("out");
    ASSERT_EQ(out.shape, (std::vector<int64_t>{2, 3, 5}));
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t m = 0; m < 3; ++m) {
        double total = 0, mixed[5] = {};
        for (int64_t n = 0; n < (causal ? m + 2 : 4); ++n) {
          double score = 0;
          for (int64_t d = 0; d < 5; ++d)
            score += inputs["q"].get({b, m, d}) * inputs["k"].get({b, n, d});
          const double weight = std::exp(score / std::sqrt(5.0));
          total += weight;
          for (int64_t d = 0; d < 5; ++d) mixed[d] += weight * inputs["v"].get({b, n, d});
        }
        for (int64_t d = 0; d < 5; ++d) EXPECT_NEAR(out.get({b, m, d}), mixed[d] / total, 1e-5);
      }
  }
  const auto blind = make("attention", "b=1 m=5 n=4 d=2 causal=1");
  ASSERT_FALSE(blind);
  EXPECT_EQ(blind.error().code, ErrorCode::Usage);
}

TEST(Operators, RefuseTypesWithoutMeaning) {
  const auto compute = make("softmax", "rows=2 cols=5", Int8);
  ASSERT_FALSE(compute);
  EXPECT_EQ(compute.error().code, ErrorCode::Unsupported);
  EXPECT_FALSE(make("conv2d", "c2h4w4k3r3s3p1", Bool));
}

}  // namespace
}  // namespace tw::dsl

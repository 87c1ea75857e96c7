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
#include <memory>
#include <numbers>
#include <numeric>
#include <tuple>

#include "base/random.h"
#include "dsl/rounding.h"
#include "graph/rewrite.h"
#include "tests/graph/onnx_node.h"

namespace tw::graph::onnx {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

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

// ---- older opsets ---------------------------------------------------------------------------

TEST(OnnxOperators, SoftmaxFlattenedBeforeOpset13) {
  // For [2, 1, 2] and axis 1 there are two rows of two elements. Equal elements get equal shares.
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

TEST(OnnxOperators, SlicesBackwardsBeginInsideOfTheTensor) {
  const auto sliced = [](const Numbers& x, double start, double end) {
    return OneNode("Slice", 13)
        .data({std::ssize(x)}, x)
        .integers({start})
        .integers({end})
        .integers({0})
        .integers({-1})
        .values();
  };
  const double least = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(sliced(counted(5, 1), -100, least), ElementsAre(1));
  EXPECT_THAT(sliced(counted(5, 1), 100, least), ElementsAre(5, 4, 3, 2, 1));
  EXPECT_THAT(sliced(counted(5, 1), -100, 0), ElementsAre());
  EXPECT_THAT(sliced({}, -100, least), ElementsAre());
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

TEST(OnnxOperators, HyperbolicFunctionsKeepTheirDigits) {
  using Function = double (*)(double);
  const Numbers all = {0, 1e-30, 1e-8, 3e-5, 0.2, 0.33, 0.34, 0.7, 1.2, 3, 17, 80};
  Numbers huge = all;
  huge.insert(huge.end(), {1e4, 2e5, 1e10, 3e38});
  const std::tuple<std::string, Function, Numbers> functions[] = {
      {"Softplus", [](double x) { return std::log1p(std::exp(x)); }, all},
      {"Mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, all},
      {"Sinh", [](double x) { return std::sinh(x); }, all},
      {"Asinh", [](double x) { return std::asinh(x); }, huge},
      {"Acosh",
       [](double x) { return std::acosh(x); },
       {1, 1 + 0x1p-20, 1.3, 1.6, 80, 2e5, 3e38, 0.5, -3, -1e20}},
      {"Atanh",
       [](double x) { return std::atanh(x); },
       {0, 1e-30, 3e-5, 0.2, 0.33, 0.34, 0.9, 1 - 0x1p-20, 1.5}}};
  for (const auto& [name, function, positive] : functions)
    for (const DType type : {Float32, Float64}) {
      Numbers x = positive;
      if (name != "Acosh")
        for (const double number : positive) x.push_back(-number);
      if (name != "Softplus" && name != "Mish") x.push_back(NAN);
      const Numbers y = OneNode(name, 22).data({std::ssize(x)}, x, type).values();
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = function(type == Float32 ? static_cast<float>(x[i]) : x[i]);
        if (std::isnan(expected))
          EXPECT_TRUE(std::isnan(y[i])) << name << " of " << x[i] << " is " << y[i];
        else
          EXPECT_NEAR(y[i], expected, (type == Float32 ? 2e-7 : 2e-15) * std::fabs(expected))
              << name << " of " << x[i] << " in " << to_string(type);
      }
    }
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

TEST(OnnxOperators, ResizeOfOpset10RoundsUpWhereItShrinks) {
  const auto resized = [](const Numbers& scales) {
    return OneNode("Resize", 10).data({2, 4}, counted(8, 1)).constant({2}, scales).values();
  };
  EXPECT_THAT(resized({0.6f, 0.6f}), ElementsAre(1, 3));
  EXPECT_THAT(resized({0.6f, 1.5}), ElementsAre(1, 1, 2, 3, 3, 4));
}

TEST(OnnxOperators, ASingleElementIsNotInterpolated) {
  // A dimension of one element, here the batch, must not be interpolated. The second tap would have
  // weight 0, and 0 times infinity is NaN.
  const double infinity = std::numeric_limits<double>::infinity();
  const auto resized = [](const std::string& mode, const std::string& coordinates,
                          const Extents& shape, const Numbers& x, const Numbers& sizes) {
    OneNode node("Resize", 13);
    node.data(shape, x).no_input().no_input().integers(sizes);
    node.set("mode", mode).set("coordinate_transformation_mode", coordinates);
    node.set("exclude_outside", int64_t{mode == "cubic"});
    return node.values();
  };
  EXPECT_THAT(resized("linear", "align_corners", {1, 1, 2}, {infinity, 1}, {1, 1, 4}),
              ElementsAre(infinity, infinity, infinity, 1));
  EXPECT_THAT(resized("linear", "pytorch_half_pixel", {1, 2}, {3, 5}, {3, 1}),
              ElementsAre(3, 3, 3));
  EXPECT_THAT(resized("cubic", "pytorch_half_pixel", {1, 4}, {3, 5, 7, 9}, {1, 1}), ElementsAre(3));
  // A cubic resize sums 16 taps for each element, and not 16 * 16.
  expect_near(resized("cubic", "align_corners", {1, 1, 8, 8}, Numbers(64, 3.0), {1, 1, 16, 16}),
              Numbers(256, 3.0), 1e-5);
  EXPECT_THAT(OneNode("Resize", 13)
                  .data({1, 3}, {1, 2, 3})
                  .constant({4}, {0, 0, 1, 2})
                  .no_input()
                  .integers({2, 3})
                  .set("mode", std::string("linear"))
                  .set("coordinate_transformation_mode", std::string("tf_crop_and_resize"))
                  .set("extrapolation_value", 9.0)
                  .values(),
              ElementsAre(1, 3, 9, 1, 3, 9));
}

TEST(OnnxOperators, ScalesAreRatiosOfSmallNumbers) {
  // 0.6 has no exact f32, so that the scale is taken to be 3/5. Then five elements become three, at
  // the positions 1/3, 2 and 11/3.
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

TEST(OnnxOperators, MeanVarianceNormalizationAddsItsEpsilonToTheDeviation) {
  // The deviation is 1e-6.
  expect_near(OneNode("MeanVarianceNormalization", 13)
                  .data({1, 2, 2}, {-1e-6, 1e-6, 4, 4})
                  .set("axes", Extents{2})
                  .values(),
              {-1 / 1.001, 1 / 1.001, 0, 0}, 1e-6);
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

TEST(OnnxOperators, DequantizesToTheTypeThatIsAskedFor) {
  const auto dequantize = [](int64_t type) {
    auto node = std::make_unique<OneNode>("DequantizeLinear", 23);
    node->data({2}, {1, 10}, UInt8).constant({}, {0.1f}).set("output_dtype", type);
    return node;
  };
  const dsl::Array halves = dequantize(10)->run().at(0);
  EXPECT_EQ(halves.type, Float16);
  EXPECT_THAT(numbers_of(halves), ElementsAre(0.0999755859375, 1));
  EXPECT_EQ(dequantize(0)->run().at(0).type, Float32);
  dequantize(3)->expect_error(ErrorCode::Unsupported,
                              "the data type i8: expected f32, f64, f16 or bf16");
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

TEST(OnnxOperators, QuotientsOfTheLeastInteger) {
  const auto computed = [](const std::string& op_type, DType type, double least, double by) {
    return OneNode(op_type, 13)
        .data({3}, {least, least + 1, 5}, type)
        .constant({}, {by}, type)
        .set("fmod", int64_t{1})
        .values();
  };
  EXPECT_THAT(computed("Div", Int8, -128, 2), ElementsAre(-64, -63, 2));
  EXPECT_THAT(computed("Div", Int8, -128, -2), ElementsAre(64, 63, -2));
  EXPECT_THAT(computed("Div", Int8, -128, -128), ElementsAre(1, 0, 0));
  EXPECT_THAT(computed("Div", Int8, -128, 127), ElementsAre(-1, -1, 0));
  EXPECT_THAT(computed("Mod", Int8, -128, 127), ElementsAre(-1, 0, 5));
  const double least = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(computed("Div", Int32, least, 2), ElementsAre(least / 2, least / 2 + 1, 2));
  EXPECT_THAT(computed("Mod", Int32, least, 3), ElementsAre(-2, -1, 2));
  EXPECT_THAT(computed("Mod", Int32, least, -3), ElementsAre(-2, -1, 2));
  EXPECT_THAT(computed("Mod", Int32, least, least), ElementsAre(0, least + 1, 5));
}

// A rounding bound of 0 means that a kernel computes exactly the number of the definition, although
// it computes in the types that the expression declares.
TEST(OnnxOperators, RemaindersOfFloatsHaveNoRoundingError) {
  const Numbers a = {1, 2, 3, 100000.5, -1, -100000.5, 6, -7};
  const Numbers b = {0.1f, 0.2f, 0.1f, 0.1f, 0.1f, 0.1f, 3, -7};
  for (const int64_t truncates : {0, 1}) {
    const Graph graph = OneNode("Mod", 13).data({8}, a).data({8}, b).set("fmod", truncates).graph();
    ASSERT_EQ(graph.operators.size(), 1u);
    const dsl::Compute& compute = graph.operators[0].workload.compute;
    dsl::Arrays inputs;
    for (size_t i = 0; i < compute.inputs.size(); ++i)
      inputs[compute.inputs[i].name] =
          array_of(Float32, {8}, graph.operators[0].inputs[i] == "x0" ? a : b);
    Result<dsl::RoundingAnalysis> analysis = dsl::RoundingAnalysis::make(compute, inputs);
    ASSERT_TRUE(analysis) << analysis.error().message;
    for (size_t i = 0; i < a.size(); ++i) {
      double expected = std::fmod(a[i], b[i]);
      if (!truncates && expected * b[i] < 0) expected += b[i];
      const Result<dsl::Rounded> found =
          analysis->at(compute.outputs[0], {static_cast<int64_t>(i)});
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_EQ(found->value, static_cast<float>(expected)) << a[i] << " " << b[i];
      EXPECT_EQ(found->rounding, 0) << a[i] << " " << b[i];
      EXPECT_FALSE(found->overflows) << a[i] << " " << b[i];
    }
  }
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
  // With ceil_mode the last window reaches beyond the end. Only the elements that exist count.
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
  // The recurrence is h = relu(x + h / 2) over x = 2, 4, 8.
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

/// Returns the outputs Y and Y_h of h = relu(x + h / 2) over 3 steps, for a batch of 3 sequences of
/// lengths 3, 1 and 2. The lengths are constants if `are_known`, otherwise data.
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

/// Computes a Fourier transform by its definition. The last dimension has `parts` parts, real and
/// maybe imaginary.
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

// Short transforms are one matrix product. Longer ones are two short transforms if the length has
// factors, or one product if it is prime.
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

// 3 frames of 160 samples begin 100 samples apart and are multiplied by a window. The signal of
// real samples may lack its last dimension, of extent 1.
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

// SPDX-License-Identifier: Apache-2.0
#include "dsl/interpret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "dsl/parse.h"
#include "tests/dsl/random_expr.h"

namespace tw::dsl {
namespace {

using ::testing::HasSubstr;

Array array(DType type, std::vector<double> values) {
  Array a = *Array::make(type, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) a.set({static_cast<int64_t>(i)}, values[i]);
  return a;
}

/// Returns the elements of the compute's only output.
std::vector<double> run(const char* text, const Arrays& inputs = {}) {
  const auto compute = parse_compute(text);
  EXPECT_TRUE(compute) << compute.error().message;
  if (!compute) return {};
  const auto outputs = interpret(*compute, inputs);
  EXPECT_TRUE(outputs) << outputs.error().message;
  if (!outputs) return {};
  const Array& out = outputs->begin()->second;
  std::vector<double> values;
  for (int64_t i = 0; i < out.size(); ++i) values.push_back(out.get_float(i));
  return values;
}

std::string interpreting_error(const char* text, const Arrays& inputs = {}) {
  const auto outputs = interpret(*parse_compute(text), inputs);
  return outputs ? "ok" : outputs.error().message;
}

using Values = std::vector<double>;

TEST(Interpret, Reduces) {
  const Arrays a = {{"a", array(Float32, {3, -1, 4, 1})}};
  EXPECT_EQ(run("input a: f32[4]; t: f32[] = sum(k=4) a[k]", a), Values{7});
  EXPECT_EQ(run("input a: f32[4]; t: f32[] = prod(k=4) a[k]", a), Values{-12});
  EXPECT_EQ(run("input a: f32[4]; t: f32[] = min(k=4) a[k]", a), Values{-1});
  EXPECT_EQ(run("input a: f32[4]; t: f32[] = max(k=4) a[k]", a), Values{4});
  EXPECT_EQ(run("input a: f32[4]; t: f32[i=2] = sum(k=2) a[i * 2 + k]", a), (Values{2, 5}));
  EXPECT_EQ(run("input a: f32[4]; t: f32[] = max(k=0) a[k]", a), Values{-INFINITY});
}

TEST(Interpret, SumsOfDoublesKeepSmallTerms) {
  const Arrays a = {{"a", array(Float64, {1e16, 1, 1, -1e16})}};
  EXPECT_EQ(run("input a: f64[4]; t: f64[] = sum(k=4) a[k]", a), Values{2});
  EXPECT_EQ(run("input a: f64[4]; t: f64[] = sum(k=4) a[k] / 3.0f64", a).size(), 1u);
  const Arrays infinite = {{"a", array(Float64, {INFINITY, 1, 1, 2})}};
  EXPECT_EQ(run("input a: f64[4]; t: f64[] = sum(k=4) a[k]", infinite), Values{INFINITY});
}

TEST(Interpret, DoublesAreRoundedOnceToEveryType) {
  const Arrays a = {{"a", array(Float64, {1 + 0x1p-11 + 0x1p-50, 1 + 0x1p-8 - 0x1p-50, NAN})}};
  const Values halves = run("input a: f64[3]; t: f16[i=3] = f16(a[i])", a);
  EXPECT_EQ(halves[0], 1 + 0x1p-10);
  EXPECT_TRUE(std::isnan(halves[2]));
  const Values brains = run("input a: f64[3]; t: bf16[i=3] = bf16(a[i])", a);
  EXPECT_EQ(brains[1], 1);
  EXPECT_TRUE(std::isnan(brains[2]));
}

TEST(Interpret, ScansUpToAnElement) {
  const Arrays a = {{"a", array(Float32, {3, -1, 4, 1})}};
  EXPECT_EQ(run("input a: f32[4]; t: f32[j=4] = sum(k <= j) a[k]", a), (Values{3, 2, 6, 7}));
  EXPECT_EQ(run("input a: f32[4]; t: f32[j=4] = sum(k < j) a[k]", a), (Values{0, 3, 2, 6}));
  EXPECT_EQ(run("input a: f32[4]; t: f32[j=4] = prod(k <= j) a[k]", a), (Values{3, -3, -12, -12}));
  EXPECT_EQ(run("input a: f32[4]; t: f32[j=4] = max(k <= j) a[k]", a), (Values{3, 3, 4, 4}));
  EXPECT_EQ(run("input a: f32[4]; t: f32[j=4] = min(k < j) a[k]", a),
            (Values{INFINITY, 3, -1, -1}));
  EXPECT_EQ(run("input a: f32[4]; t: f32[j=4] = sum(k <= j) a[3 - k]", a), (Values{1, 5, 4, 7}));
  EXPECT_EQ(run("t: i64[i=2, j=3] = sum(k <= i) k * 10 + j", {}), (Values{0, 1, 2, 10, 12, 14}));
  EXPECT_EQ(run("t: i64[i=2, j=3] = sum(k <= j) i * 10 + k", {}), (Values{0, 1, 3, 10, 21, 33}));
  EXPECT_EQ(run("t: i8[j=3] = sum(k <= j) i8(100)"), (Values{100, -56, 44}));
  EXPECT_EQ(run("t: f32[j=0] = sum(k <= j) f32(k)"), Values{});
}

// An element that is evaluated by itself equals the running value of the whole scan.
TEST(Interpret, ElementsOfScansAreTheSameOneByOne) {
  const auto compute = parse_compute(
      "t: f32[i=3, j=4, l=2] = prod(k < j) f32(i + k) - f32(l); u: f32[i=3] = sum(l=2) t[i, 3, l]");
  const auto u = interpret(*compute, {});
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(*evaluate_at(*compute, {}, "u", {i}), u->at("u").get({i}));
}

TEST(Interpret, TermsOfScansAreEvaluatedOnce) {
  // If each element summed its terms again, the n^2 / 2 terms would take half an hour.
  const auto compute = parse_compute("t: f32[j=300000] = sum(k <= j) f32(1.0)");
  EXPECT_EQ(interpret(*compute, {})->at("t").get({299999}), 300000);
}

TEST(Interpret, IntegersWrapAndDivideTowardsMinusInfinity) {
  EXPECT_EQ(run("t: u8[i=3] = u8(i) * 200"), (Values{0, 200, 144}));
  EXPECT_EQ(run("t: i8[i=2] = i8(i) + 127"), (Values{127, -128}));
  EXPECT_EQ(run("t: i64[i=4] = (i - 2) / 2"), (Values{-1, -1, 0, 0}));
  EXPECT_EQ(run("t: i64[i=4] = (i - 2) % 3"), (Values{1, 2, 0, 1}));
  EXPECT_EQ(run("t: i8[i=1] = abs(i8(i) - 127i8 - 1)"), (Values{-128}));
  EXPECT_EQ(run("t: i32[i=2] = sum(k=3) 2147483647i32 * (i32(i) + 0 * i32(k))"),
            (Values{0, 2147483645}));
}

TEST(Interpret, FloatsRoundWhenStoredAndAtCasts) {
  EXPECT_EQ(run("t: f32[] = 16777216.0 + 1.0 - 16777216.0"), Values{1});
  EXPECT_EQ(run("s: f32[] = 16777216.0 + 1.0; t: f32[] = s[] - 16777216.0"), Values{0});
  EXPECT_EQ(run("t: f32[] = f32(bf16(1.001))"), Values{1});
  EXPECT_EQ(run("t: f16[i=1] = 60000.0f16 + f16(i) + 60000"), Values{INFINITY});
}

TEST(Interpret, CastsToIntegersTruncateAndSaturate) {
  const Arrays a = {{"a", array(Float32, {-1.5, 300, 2.9, NAN, INFINITY, -INFINITY})}};
  EXPECT_EQ(run("input a: f32[6]; t: u8[i=6] = u8(a[i])", a), (Values{0, 255, 2, 0, 255, 0}));
  EXPECT_EQ(run("input a: f32[6]; t: i8[i=6] = i8(a[i])", a), (Values{-1, 127, 2, 0, 127, -128}));
}

TEST(Interpret, Functions) {
  EXPECT_EQ(run("t: f32[] = sqrt(9.0) + floor(-1.5) + abs(-2.0)"), Values{3});
  EXPECT_NEAR(run("t: f32[] = exp(1.0) + log(2.0) + tanh(0.5) + erf(0.5)")[0],
              std::exp(1) + std::log(2) + std::tanh(0.5) + std::erf(0.5), 1e-6);
  EXPECT_NEAR(run("t: f32[] = sin(1.0) + cos(2.0) + sigmoid(0.5) + pow(3.0, 1.5)")[0],
              std::sin(1) + std::cos(2) + 1 / (1 + std::exp(-0.5)) + std::pow(3, 1.5), 1e-6);
  EXPECT_EQ(run("t: f32[] = sin(pi * 0.5)"), Values{1});
  const Arrays a = {{"a", array(Float32, {0.5, 1.5, 2.5, -0.5, -2.5, 2.4})}};
  EXPECT_EQ(run("input a: f32[6]; t: f32[i=6] = round(a[i])", a), (Values{0, 2, 2, 0, -2, 2}));
  // In f32 the literal is 1.5, a tie. In f64 it is less.
  EXPECT_EQ(run("t: f32[] = round(1.49999999)"), Values{2});
  EXPECT_EQ(run("t: f64[] = round(1.49999999f64)"), Values{1});
  const Arrays tenths = {{"a", array(Float32, {0.15, 0.25, 0.35})}};
  EXPECT_EQ(run("input a: f32[3]; t: f32[i=3] = round(a[i] / 0.1)", tenths), (Values{2, 2, 4}));
  const Arrays bases = {{"a", array(Float32, {-2, -2, 0, 0, 2, 1})}};
  EXPECT_EQ(run("input a: f32[6]; t: f32[i=6] = pow(a[i], f32(i) + 5.0)", bases),
            (Values{-32, 64, 0, 0, 512, 1}));
  EXPECT_TRUE(std::isnan(run("t: f32[] = pow(-2.0, 1.5)")[0]));
}

TEST(Interpret, DividesByAnyInteger) {
  const Arrays i32 = {{"a", array(Int32, {7, -7, 7, -7, 5, -2147483648.0})},
                      {"b", array(Int32, {2, 2, -2, -2, 0, -1})}};
  EXPECT_EQ(run("input a: i32[6]; input b: i32[6]; t: i32[i=6] = a[i] / b[i]", i32),
            (Values{3, -4, -4, 3, 0, -2147483648.0}));
  EXPECT_EQ(run("input a: i32[6]; input b: i32[6]; t: i32[i=6] = a[i] % b[i]", i32),
            (Values{1, 1, -1, -1, 0, 0}));
  const Arrays i8 = {{"a", array(Int8, {-128, -128, 100})}};
  EXPECT_EQ(run("input a: i8[3]; t: i8[i=3] = a[i] / -1", i8), (Values{-128, -128, -100}));
}

TEST(Interpret, PositionsOfExtremesAreThoseOfNumPy) {
  const double nan = NAN, inf = INFINITY;
  const std::tuple<Values, double, double> rows[] = {{{1, 5, 5, 0, 0}, 1, 3},
                                                     {{1, inf, nan, nan, -inf}, 2, 2},
                                                     {{-inf, nan, 3, nan, inf}, 1, 1},
                                                     {{nan, nan, nan, nan, nan}, 0, 0},
                                                     {{-inf, -inf, -inf, -inf, -inf}, 0, 0},
                                                     {{inf, inf, inf, inf, 2}, 0, 4}};
  for (const auto& [row, largest, smallest] : rows) {
    const Arrays a = {{"a", array(Float32, row)}};
    EXPECT_EQ(run("input a: f32[5]; t: i64[i=1] = argmax(j=5) a[j]", a), Values{largest});
    EXPECT_EQ(run("input a: f32[5]; t: i64[i=1] = argmin(j=5) a[j]", a), Values{smallest});
  }
}

TEST(Interpret, PositionsOfComputedValuesAreFound) {
  const Arrays a = {{"a", array(Float32, {0.1, 0.7, 0.3, 0.7, 0.2})}};
  const char* values[] = {"a[j] / 3.0", "a[j] * a[j]", "exp(a[j])", "a[j] + 0.1", "f32(f16(a[j]))"};
  for (const std::string value : values) {
    const std::string largest = "input a: f32[5]; t: i64[i=1] = argmax(j=5) " + value;
    const std::string smallest = "input a: f32[5]; t: i64[i=1] = argmin(j=5) " + value;
    EXPECT_EQ(run(largest.c_str(), a), Values{1}) << value;
    EXPECT_EQ(run(smallest.c_str(), a), Values{0}) << value;
  }
}

TEST(Interpret, SelectEvaluatesOnlyWhatItNeeds) {
  const Arrays a = {{"a", array(Float32, {1, 2})}};
  EXPECT_EQ(run("input a: f32[2]; t: f32[i=4] = select(1 <= i && i < 3, a[i - 1], 0)", a),
            (Values{0, 1, 2, 0}));
  EXPECT_EQ(run("input a: f32[2]; t: bool[i=3] = i < 2 && a[i] > 1.5", a), (Values{0, 1, 0}));
  EXPECT_EQ(run("input a: f32[2]; t: bool[i=3] = i >= 2 || a[i] > 1.5", a), (Values{0, 1, 1}));
}

TEST(Interpret, ReadsOutsideNameTensorAndIndex) {
  const Arrays a = {{"a", array(Float32, {1, 2})}};
  EXPECT_THAT(interpreting_error("input a: f32[2]; t: f32[i=3] = a[i]", a),
              HasSubstr("a[2] is read, 'a' has the shape [2]"));
  EXPECT_THAT(interpreting_error("input a: f32[2]; t: f32[i=3] = a[i - 1]", a), HasSubstr("a[-1]"));
}

TEST(Interpret, WrongInputsAreNamed) {
  const char* text = "input a: f32[2]; t: f32[i=2] = a[i]";
  EXPECT_THAT(interpreting_error(text), HasSubstr("'a' is missing"));
  EXPECT_THAT(interpreting_error(text, {{"a", array(Float32, {1})}}),
              HasSubstr("'a' is f32[1], expected f32[2]"));
  EXPECT_THAT(interpreting_error(text, {{"a", array(Int8, {1, 2})}}),
              HasSubstr("'a' is i8[2], expected f32[2]"));
  Array cut = array(Float32, {1, 2});
  cut.data.pop_back();
  EXPECT_THAT(interpreting_error(text, {{"a", cut}}), HasSubstr("expected f32[2]"));
}

TEST(Interpret, SamplesAgreeWithTheWhole) {
  const Compute compute = *parse_compute(
      "input a: f32[6, 5]; peak: f32[i=6] = max(j=5) a[i, j]; e: f32[i=6, j=5] = exp(a[i, j] - "
      "peak[i]);"
      "total: f32[i=6] = sum(j=5) e[i, j]; out: f32[i=6, j=5] = e[i, j] / total[i]");
  Arrays inputs = {{"a", *Array::make(Float32, {6, 5})}};
  Random random(1);
  fill_normal(inputs["a"], random);
  const Array out = interpret(compute, inputs)->at("out");
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 5; ++j)
      EXPECT_EQ(*evaluate_at(compute, inputs, "out", {i, j}), out.get({i, j}));
  EXPECT_FALSE(evaluate_at(compute, inputs, "out", {6, 0}));
  EXPECT_FALSE(evaluate_at(compute, inputs, "out", {0}));
  EXPECT_FALSE(evaluate_at(compute, inputs, "missing", {0}));
}

// Each stage reads the previous one twice. If it were computed again for each read, there would be
// 2^64 evaluations.
TEST(Interpret, Fault77_AChainOfStagesIsComputedOnce) {
  std::string text = "input a: f32[4]", before = "a";
  for (int i = 1; i <= 64; ++i) {
    text += "; s" + std::to_string(i) + ": f32[x=4] = " + before + "[x] * 0.5 + " + before +
            "[x] * 0.5";
    before = "s" + std::to_string(i);
  }
  const Compute compute = *parse_compute(text);
  Arrays inputs;
  inputs["a"] = Array::make(Float32, {4}).value();
  inputs["a"].set_float(3, 1.25);
  EXPECT_EQ(evaluate_at(compute, inputs, "s64", {3}).value(), 1.25);
}

TEST(Interpret, Fault06_IndicesBeyond2To31AreExact) {
  const Compute compute = *parse_compute("t: i64[i=100000, j=100000] = i * 100000 + j");
  EXPECT_EQ(*evaluate_at(compute, {}, "t", {99999, 99999}), 9999999999.0);
}

// Each term of the sum reads the maximum of its row. If the maximum were not kept, there would be a
// billion reads.
TEST(Interpret, OneElementOfALongRowReducesTheRowOnce) {
  const auto compute = parse_compute(R"(peak: f32[i=2] = max(j=30000) f32(j % 7)
total: f32[i=2] = sum(j=30000) f32(j % 7) - peak[i]
out: f32[i=2, j=30000] = total[i] + f32(j))");
  ASSERT_TRUE(compute) << compute.error().message;
  double total = 0;
  for (int j = 0; j < 30000; ++j) total += j % 7 - 6;
  EXPECT_NEAR(*evaluate_at(*compute, {}, "out", {1, 5}), total + 5, 1e-2);
}

TEST(Interpret, RowsWithoutColumnsTakeNoTime) {
  EXPECT_EQ(run("out: f32[i=1099511627776, j=0] = f32(i)"), Values{});
  EXPECT_EQ(run("out: f32[i=1] = sum(j=1099511627776, k=0) f32(j)"), Values{0});
}

TEST(Interpret, Fault08_SpecialValuesFollowTheirRules) {
  const double inf = INFINITY, nan = NAN, tiny = 0x1p-149;
  const Arrays a = {{"a", array(Float32, {nan, inf, -inf, -0.0, tiny})}};
  const Values sums = run("input a: f32[5]; t: f32[i=5] = a[i] + 1.0", a);
  EXPECT_TRUE(std::isnan(sums[0]));
  EXPECT_EQ(Values(sums.begin() + 1, sums.end()), (Values{inf, -inf, 1, 1}));
  const Values same = run("input a: f32[5]; t: f32[i=5] = a[i] * 1.0", a);
  EXPECT_TRUE(std::signbit(same[3]));
  EXPECT_EQ(same[4], tiny);
  const Values zero = run("input a: f32[5]; t: f32[i=5] = a[i] * 0.0", a);
  EXPECT_TRUE(std::isnan(zero[1]));
  const Values relu = run("input a: f32[5]; t: f32[i=5] = max(a[i], 0.0)", a);
  EXPECT_EQ((Values{relu[0], relu[1], relu[2]}), (Values{0, inf, 0}));  // min and max ignore a NaN
  EXPECT_EQ(run("input a: f32[5]; t: bool[i=1] = a[i] == a[i]", a), Values{0});
}

TEST(Interpret, RandomComputesNeverCrash) {
  Random random(6);
  int done = 0;
  for (int round = 0; round < 500; ++round) {
    const Compute compute = random_compute(random);
    Arrays inputs = {{"a", *Array::make(Float32, {5, 4})}, {"b", *Array::make(Float32, {3})}};
    for (auto& [name, values] : inputs) fill_special(values, random);
    const auto outputs = interpret(compute, inputs);
    done += outputs.has_value();
    if (!outputs) {
      EXPECT_THAT(outputs.error().message, HasSubstr("is read")) << to_text(compute);
    }
  }
  EXPECT_GT(done, 50);
}

}  // namespace
}  // namespace tw::dsl

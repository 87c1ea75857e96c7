// SPDX-License-Identifier: Apache-2.0
// The bound must hold for sums in any usual order. It must be far below the error of a kernel that
// leaves out a term.
#include "dsl/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "dsl/parse.h"

namespace tw::dsl {
namespace {

Compute compute_of(const std::string& text) {
  auto compute = parse_compute(text);
  if (!compute) throw std::runtime_error(compute.error().message);
  return std::move(*compute);
}

Array array_of(DType type, const std::vector<double>& values) {
  auto array = Array::make(type, {static_cast<int64_t>(values.size())}).value();
  for (size_t i = 0; i < values.size(); ++i) array.set_float(static_cast<int64_t>(i), values[i]);
  return array;
}

Array normal(DType type, int64_t size, uint64_t seed = 1) {
  auto array = Array::make(type, {size}).value();
  Random random(seed);
  fill_normal(array, random);
  return array;
}

Rounded at(const Compute& compute, const Array& x, const std::vector<int64_t>& indices = {0}) {
  const Arrays inputs = {{"x", x}};
  auto analysis = RoundingAnalysis::make(compute, inputs);
  if (!analysis) throw std::runtime_error(analysis.error().message);
  return analysis->at("out", indices).value();
}

std::vector<float> floats(const Array& x) {
  std::vector<float> values;
  for (int64_t i = 0; i < x.size(); ++i) values.push_back(static_cast<float>(x.get_float(i)));
  return values;
}

/// Returns the sum of x in the order in which vectors of `lanes` lanes compute it.
float lane_sum(const std::vector<float>& x, size_t lanes) {
  std::vector<float> sums(lanes, 0);
  for (size_t i = 0; i < x.size(); ++i) sums[i % lanes] += x[i];
  float total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

float pairwise_sum(const float* x, size_t size) {
  if (size == 1) return *x;
  return pairwise_sum(x, size / 2) + pairwise_sum(x + size / 2, size - size / 2);
}

TEST(Rounding, OfWhatNeedsNoneIsZero) {
  const Compute sum = compute_of("input x: f32[1000]; out: f32[i=1] = sum(k=1000) x[k] * x[k]");
  auto integers = Array::make(Float32, {1000}).value();
  Random random(1);
  fill_integers(integers, random);
  EXPECT_EQ(at(sum, integers).rounding, 0);
  EXPECT_GT(at(sum, normal(Float32, 1000)).rounding, 0);
}

TEST(Rounding, OfDoublesComparesWithSumsThatLoseNothing) {
  const Compute sum = compute_of("input x: f64[1000]; out: f64[i=1] = sum(k=1000) x[k] * x[k]");
  auto integers = Array::make(Float64, {1000}).value();
  Random random(1);
  fill_integers(integers, random);
  EXPECT_EQ(at(sum, integers).rounding, 0);
  const Array x = normal(Float64, 1000);
  long double exact = 0;
  double plain = 0;
  for (int64_t k = 0; k < 1000; ++k) {
    const double square = x.get_float(k) * x.get_float(k);
    exact += static_cast<long double>(square);
    plain += square;
  }
  const Rounded rounded = at(sum, x);
  EXPECT_EQ(rounded.value, static_cast<double>(exact));
  EXPECT_LE(std::fabs(plain - rounded.value), rounded.rounding);
  EXPECT_LT(rounded.rounding, 1e-13 * rounded.value);
}

TEST(Rounding, OfDoublesKnowsTheirRange) {
  const Array x = array_of(Float64, {1e200, 1});
  const Compute squared = compute_of("input x: f64[2]; out: f64[i=2] = x[i] * x[i]");
  EXPECT_TRUE(at(squared, x, {0}).overflows);
  EXPECT_FALSE(at(squared, x, {1}).overflows);
  EXPECT_EQ(at(squared, x, {1}).rounding, 0);
  const Compute third = compute_of("input x: f64[2]; out: f64[i=2] = x[i] / 3.0f64");
  EXPECT_GT(at(third, x, {1}).rounding, 0);
  EXPECT_LT(at(third, x, {1}).rounding, 1e-15);
}

TEST(Rounding, TellsOverflowFromValuesThatAreMeant) {
  const Array x = array_of(Float32, {1, 0.01, -1});
  const Compute scaled = compute_of("input x: f32[3]; out: f32[i=3] = x[i] * 1e38 * 10.0");
  EXPECT_TRUE(at(scaled, x, {0}).overflows);
  EXPECT_FALSE(at(scaled, x, {1}).overflows);
  // exp(1e38) is infinite in f64, too, so that nothing is known of results that are computed from
  // it.
  EXPECT_TRUE(
      at(compute_of("input x: f32[3]; out: f32[i=3] = 1.0 / exp(x[i] * 1e38)"), x).overflows);
  // exp(100) is infinite in f32 only.
  const Array large = array_of(Float32, {100, 1, 1});
  for (const char* body : {"exp(x[i])", "exp(x[i]) / exp(x[i])", "tanh(exp(x[i]))"}) {
    const Compute power = compute_of(std::string("input x: f32[3]; out: f32[i=3] = ") + body);
    EXPECT_TRUE(at(power, large, {0}).overflows) << body;
    EXPECT_FALSE(at(power, large, {1}).overflows) << body;
  }
  EXPECT_FALSE(at(compute_of("input x: f32[3]; out: f32[i=3] = min(x[i], -inf)"), x).overflows);
  EXPECT_FALSE(at(compute_of("input x: f32[3]; out: f32[i=3] = sqrt(x[i])"), x, {2}).overflows);
}

TEST(Rounding, ElementsThatDependOnANaNAreUndefined) {
  const Array x = array_of(Float32, {-1, 2});
  for (const char* body :
       {"out: f32[i=2] = log(x[i])", "out: f32[i=2] = exp(log(x[i]))",
        "out: i32[i=2] = i32(log(x[i]))", "out: f32[i=2] = f32(i32(log(x[i])))",
        "out: f32[i=2] = select(log(x[i]) < 0.0, 1.0, 2.0)",
        "out: f32[i=2] = select(x[i] < 5.0 && log(x[i]) < 0.0, 1.0, 2.0)",
        "out: f32[i=2] = select(x[i] > 5.0 || log(x[i]) < 0.0, 1.0, 2.0)",
        "out: f32[i=2] = pow(log(x[i]), 2.5)", "out: f32[i=2] = max(log(x[i]), 0.0)",
        "out: f32[i=2] = sum(k=3) x[i] * sqrt(x[i] - f32(k) * 0.1)",
        "out: f32[i=2] = max(k=3) log(x[i] + f32(k) * 0.1)",
        "y: f32[i=2] = log(x[i]); out: f32[i=2] = y[i] * 2.0",
        "out: f32[i=2] = x[clamp(i64(log(x[i])), 0, 1)]",
        "out: f32[i=2] = (x[i] - 2.0) * inf - (x[i] - 2.0) * inf + 0.0 * x[i]"}) {
    const Compute compute = compute_of(std::string("input x: f32[2]; ") + body);
    EXPECT_TRUE(at(compute, x, {0}).is_undefined) << body;
  }
  for (const char* body : {"out: f32[i=2] = exp(log(x[i]))", "out: f32[i=2] = f32(i32(log(x[i])))",
                           "out: f32[i=2] = select(log(x[i]) < 0.0, 1.0, 2.0)",
                           "out: f32[i=2] = sum(k=3) log(x[i] + f32(k))"})
    EXPECT_FALSE(at(compute_of(std::string("input x: f32[2]; ") + body), x, {1}).is_undefined)
        << body;
}

TEST(Rounding, ElementsThatDoNotDependOnANaNAreDefined) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array x = array_of(Float32, {-1, nan, 2});
  // The NaN is in the branch that is not chosen, or in the operand that does not decide.
  for (const char* body : {"out: f32[i=3] = select(x[i] > 0.0, log(x[i]), 0.0)",
                           "out: bool[i=3] = x[i] > 0.0 && log(x[i]) > 0.0",
                           "out: bool[i=3] = x[i] < 0.0 || log(x[i]) > 0.0"})
    EXPECT_FALSE(at(compute_of(std::string("input x: f32[3]; ") + body), x).is_undefined) << body;
  // The NaN comes from the input. The computation does not make it.
  for (const char* body : {"out: f32[i=3] = exp(x[i])", "out: f32[i=3] = sum(k=3) x[i] * f32(k)",
                           "out: f32[i=3] = pow(x[i], 2.5)", "out: i32[i=3] = i32(x[i])"})
    EXPECT_FALSE(at(compute_of(std::string("input x: f32[3]; ") + body), x, {1}).is_undefined)
        << body;
  // `x <= inf` is false only for NaN. argmax() uses this comparison to find the first NaN.
  EXPECT_FALSE(
      at(compute_of("input x: f32[3]; out: bool[i=3] = log(x[i]) <= inf"), x).is_undefined);
  const Rounded first = at(compute_of("input x: f32[3]; out: i64[i=1] = argmax(k=3) log(x[k])"), x);
  EXPECT_EQ(first.value, 0);
  EXPECT_FALSE(first.is_undefined);
}

TEST(Rounding, BoundsSumsInAnyUsualOrder) {
  for (const int64_t n : {2, 37, 1000, 25088, 300000}) {
    const auto size = std::to_string(n);
    const Compute sum =
        compute_of("input x: f32[" + size + "]; out: f32[i=1] = sum(k=" + size + ") x[k]");
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const Array x = normal(Float32, n, seed);
      const Rounded bound = at(sum, x);
      const std::vector<float> values = floats(x);
      for (const double got : {lane_sum(values, 1), lane_sum(values, 8), lane_sum(values, 64),
                               pairwise_sum(values.data(), values.size()),
                               lane_sum({values.rbegin(), values.rend()}, 1)})
        EXPECT_LE(std::fabs(got - bound.value), bound.rounding) << n;
      // A kernel that left out a term would be off by about 1.
      EXPECT_LT(bound.rounding, 0.15) << n;
    }
  }
}

TEST(Rounding, FollowsTheLengthOfTheSum) {
  const auto of = [](int64_t n) {
    const auto size = std::to_string(n);
    const Compute mean = compute_of("input x: f32[" + size + "]; s: f32[i=1] = sum(k=" + size +
                                    ") x[k] * x[k]; out: f32[i=1] = s[i] / " + size + ".0");
    const Rounded rounded = at(mean, normal(Float32, n));
    return rounded.rounding / rounded.value;
  };
  // If all terms are positive, the bound grows with the square root of their number, and also with
  // the error of the loop as declared.
  const double growth = of(25088) / of(25088 / 16);
  EXPECT_GT(growth, 3);
  EXPECT_LT(growth, 6);
  EXPECT_LT(of(25088), 4e-5);
}

TEST(Rounding, OfSumsThatLoseTheirTermsIsWhatTheDeclaredLoopLoses) {
  const Compute sum = compute_of("input x: f16[5000]; out: f16[i=1] = sum(k=5000) x[k]");
  const Rounded rounded = at(sum, array_of(Float16, std::vector<double>(5000, 1)));
  // In f16 a sum of 2048 or more does not change if 1 is added.
  EXPECT_EQ(rounded.value, 5000);
  EXPECT_GE(rounded.rounding, 5000 - 2048);
}

TEST(Rounding, PassesThroughDivisionsRootsAndFunctions) {
  const int64_t n = 4096;
  const Array x = normal(Float32, n);
  const std::vector<float> values = floats(x);
  const Compute norm = compute_of(
      "input x: f32[4096]; s: f32[i=1] = sum(k=4096) x[k] * x[k]; out: f32[i=1] = sqrt(s[i])");
  const Compute logsumexp = compute_of(
      "input x: f32[4096]; p: f32[i=1] = max(k=4096) x[k]; "
      "s: f32[i=1] = sum(k=4096) exp(x[k] - p[i]); out: f32[i=1] = p[i] + log(s[i])");
  const Compute variance = compute_of(
      "input x: f32[4096]; s: f32[i=1] = sum(k=4096) x[k]; m: f32[i=1] = s[i] / 4096.0; "
      "v: f32[i=1] = sum(k=4096) (x[k] - m[i]) * (x[k] - m[i]); out: f32[i=1] = v[i] / 4096.0");
  float squares = 0, exps = 0, deviations = 0;
  const float peak = *std::max_element(values.begin(), values.end());
  const float mean = lane_sum(values, 1) / 4096;
  for (const float v : values) {
    squares += v * v;
    exps += std::exp(v - peak);
    deviations += (v - mean) * (v - mean);
  }
  const auto expect = [&](const Compute& compute, double got) {
    const Rounded rounded = at(compute, x);
    EXPECT_LE(std::fabs(got - rounded.value), rounded.rounding) << to_line(compute);
    EXPECT_LT(rounded.rounding, 4e-5 * rounded.value) << to_line(compute);
  };
  expect(norm, std::sqrt(squares));
  expect(logsumexp, peak + std::log(exps));
  expect(variance, deviations / 4096);
}

TEST(Rounding, BoundsFunctionsOfRoundedOperands) {
  const int64_t n = 4096;
  const Array x = normal(Float32, n);
  const std::vector<float> values = floats(x);
  float sum = 0;
  for (const float v : values) sum += v;
  const std::pair<std::string, float> functions[] = {
      {"sin(s[i])", std::sin(sum)},
      {"cos(s[i])", std::cos(sum)},
      {"sigmoid(s[i])", 1 / (1 + std::exp(-sum))},
      {"pow(abs(s[i]), 1.7)", std::pow(std::fabs(sum), 1.7f)},
      {"pow(1.01, s[i])", std::pow(1.01f, sum)}};
  for (const auto& [text, got] : functions) {
    const Rounded rounded = at(compute_of("input x: f32[4096]; s: f32[i=1] = sum(k=4096) x[k]; "
                                          "out: f32[i=1] = " +
                                          text),
                               x);
    EXPECT_LE(std::fabs(got - rounded.value), rounded.rounding) << text;
    EXPECT_LT(rounded.rounding, 1e-2 * std::max(1.0, std::fabs(rounded.value))) << text;
  }
}

/// In f32, exp(-100) is a subnormal number, and exp(-110) is 0.
TEST(Rounding, OfNumbersThatAreNotNormalIsThatOfTheLeastNormalOne) {
  const Array x = array_of(Float32, {-100, -110, 3e-30});
  const Compute power = compute_of("input x: f32[3]; out: f32[i=3] = exp(x[i])");
  EXPECT_GE(at(power, x, {0}).rounding, 0x1p-150);
  EXPECT_LT(at(power, x, {0}).rounding, 0x1p-145);
  EXPECT_GE(at(power, x, {1}).rounding, std::exp(-110));
  const Compute square = compute_of("input x: f32[3]; out: f32[i=3] = x[i] * x[i]");
  EXPECT_GE(at(square, x, {2}).rounding, 9e-60);
  const Compute half = compute_of("input x: f32[3]; out: f16[i=3] = f16(exp(x[i] * 0.138))");
  EXPECT_GE(at(half, x, {0}).rounding, 0x1p-24);  // exp(-13.8) is 1e-6
  const Compute logarithm = compute_of("input x: f32[3]; out: f32[i=3] = log(exp(x[i]))");
  EXPECT_FALSE(at(logarithm, x, {0}).overflows);
  EXPECT_GE(at(logarithm, x, {0}).rounding, 1e-5);
  EXPECT_LT(at(logarithm, x, {0}).rounding, 1);
  EXPECT_TRUE(at(logarithm, x, {1}).overflows);
}

/// The sine of a huge number has no correct digit; it is some number in [-1, 1].
TEST(Rounding, OfSinesOfHugeNumbersIsTwo) {
  const Compute sine = compute_of("input x: f32[1]; out: f32[i=1] = sin(x[i])");
  EXPECT_NEAR(at(sine, array_of(Float32, {1e30})).rounding, 2, 1e-6);
  EXPECT_LT(at(sine, array_of(Float32, {1e6})).rounding, 1e-6);
}

TEST(Rounding, CountsItsWorkAndKeepsReductions) {
  const Compute rows =
      compute_of("input x: f32[100]; s: f32[i=1] = sum(k=100) x[k]; out: f32[i=7] = s[0] + x[i]");
  const Array x = normal(Float32, 100);
  const Arrays inputs = {{"x", x}};
  auto analysis = RoundingAnalysis::make(rows, inputs).value();
  for (int64_t i = 0; i < 7; ++i) (void)analysis.at("out", {i}).value();
  EXPECT_EQ(analysis.evaluations(), 100 + 1 + 7);
  EXPECT_EQ(analysis.at("out", {7}).error().code, ErrorCode::Invalid);
  EXPECT_EQ(analysis.at("missing", {0}).error().code, ErrorCode::Usage);
}

TEST(Rounding, Fault08_OfWhatIsNotANumberIsZero) {
  const Compute sum = compute_of("input x: f32[3]; out: f32[i=1] = sum(k=3) x[k]");
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(at(sum, array_of(Float32, {1, inf, 1})).rounding, 0);
  EXPECT_EQ(at(sum, array_of(Float32, {1, inf, -inf})).rounding, 0);
}

}  // namespace
}  // namespace tw::dsl

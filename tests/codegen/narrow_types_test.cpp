// SPDX-License-Identifier: Apache-2.0
// Tests sums of products of narrow types, with random schedules of their spaces. The object code of
// this machine's instruction set and of narrower ones must agree with the definition, and so must
// the program's meaning. Factors reach the ends of their types; only if both factors have 16 bits,
// they are smaller.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/program/dot_products.h"
#include "schedules/space/space.h"
#include "tests/codegen/runs.h"
#include "tests/nightly.h"
#include "tests/schedules/agreement.h"

namespace tw::codegen {
namespace {

std::string pick(Random& random, const std::vector<std::string>& texts) {
  return texts[static_cast<size_t>(random.below(static_cast<int64_t>(texts.size())))];
}

/// Returns the expression of a data factor: the widened element, in some cases minus a zero point.
/// If `inside` is a condition, the factor is 0 where it does not hold.
std::string data_of(Random& random, const std::string& element, const std::string& wide,
                    const std::string& inside) {
  std::string data = fmt::format("{}({})", wide, element);
  if (wide == "i32" && random.chance(0.4))
    data = fmt::format("({} - {})", data, pick(random, {"1", "128", "255", "-128"}));
  return inside.empty()
             ? data
             : fmt::format("select({}, {}, {})", inside, data, wide == "i32" ? "0" : "0.0");
}

/// Returns a random product or one-dimensional convolution. Stage `c` has the sums, and a further
/// stage may scale or requantize them.
std::string narrow_product(Random& random) {
  const auto extent = [&](int64_t most) { return 1 + random.below(most); };
  const bool is_float = random.chance(0.2), has_digits = !is_float && random.chance(0.2);
  const std::string wide = is_float ? "f32" : "i32";
  const std::string data = is_float ? "bf16" : pick(random, {"u8", "u8", "i8", "i8", "i16", "u16"});
  const std::string weights = is_float     ? "bf16"
                              : has_digits ? "u8"
                                           : pick(random, {"i8", "i8", "i8", "u8", "i16"});
  const int64_t m = extent(7), n = extent(40), k = extent(20), taps = extent(3);
  const bool is_conv = random.chance(0.5), is_padded = is_conv && random.chance(0.5);
  const int64_t stride = 1 + random.below(2), begin = is_padded ? 1 : 0;
  const int64_t width = std::max<int64_t>((m - 1) * stride + taps - 2 * begin, 1);
  const std::string at = fmt::format("x * {} + r - {}", stride, begin);
  const std::string element = is_conv ? fmt::format("a[k, {}]", at) : "a[x, k]";
  const std::string weight = is_conv ? "w[n, k, r]" : "w[k, n]";
  const std::string inside = is_padded ? fmt::format("0 <= {} && {} < {}", at, at, width) : "";
  std::string text = is_conv ? fmt::format("input a: {}[{}, {}]\nweight w: {}[{}, {}, {}]\n", data,
                                           k, width, weights, n, k, taps)
                             : fmt::format("input a: {}[{}, {}]\nweight w: {}[{}, {}]\n", data, m,
                                           k, weights, k, n);
  std::string factor = fmt::format("{}({})", wide, weight);
  if (has_digits)
    factor = pick(random, {"(i32({}) >> 4i32 & 15i32)", "(i32({}) & 15i32)", "(i32({}) & 127i32)"});
  if (has_digits) factor.replace(factor.find("{}"), 2, weight);
  text += fmt::format("c: {}[x={}, n={}] = sum(k={}{}) {} * {}\n", wide, m, n, k,
                      is_conv ? fmt::format(", r={}", taps) : "",
                      data_of(random, element, wide, inside), factor);
  const std::string result = pick(random, {"", "", "u8", "i8", "f32"});
  if (result == "f32") text += fmt::format("out: f32[x={}, n={}] = f32(c[x, n]) * 0.25\n", m, n);
  if (result != "u8" && result != "i8") return text;
  const std::pair<int, int> limits = result == "u8" ? std::pair(0, 255) : std::pair(-128, 127);
  return text + fmt::format(
                    "weight s: f32[{}]\nout: {}[x={}, n={}] = {}(min(max(round(f32(c[x, n]) * "
                    "s[n]) + {}.0, {}.0), {}.0))\n",
                    n, result, m, n, result, random.below(3) - 1, limits.first, limits.second);
}

/// Returns random integers, many of which are the least or the largest of the type. If
/// `is_bounded`, those of 16-bit types are in -4095..4095. Inputs of f32 are scales: powers of 2,
/// some negated.
dsl::Array random_values(const dsl::Input& input, bool is_bounded, Random& random) {
  dsl::Array array = dsl::Array::make(input.type, input.shape).value();
  if (input.type == Float32) {
    for (int64_t i = 0; i < array.size(); ++i)
      array.set_float(i,
                      std::ldexp(random.chance(0.2) ? -1 : 1, -static_cast<int>(random.below(14))));
    return array;
  }
  IntegerLimits limits = is_float(input.type) ? IntegerLimits{-8, 8} : integer_limits(input.type);
  if (is_bounded && !is_float(input.type) && size_bytes(input.type) == 2)
    limits = {std::max<int64_t>(limits.least, -4095), 4095};
  const double extremes = random.unit();
  for (int64_t i = 0; i < array.size(); ++i)
    schedules::set(array, i,
                   random.chance(extremes)
                       ? (random.chance(0.5) ? limits.least : limits.largest)
                       : limits.least + random.below(limits.largest - limits.least + 1));
  return array;
}

/// Returns random values of all inputs. Sums of at most 60 products of these fit into 32 bits.
dsl::Arrays random_arrays(const dsl::Compute& compute, Random& random) {
  const auto is_wide = [&](const char* name) {
    return size_bytes(compute.find_input(name)->type) == 2;
  };
  dsl::Arrays arrays;
  for (const dsl::Input& input : compute.inputs)
    arrays[input.name] = random_values(input, is_wide("a") && is_wide("w"), random);
  return arrays;
}

/// Returns the outputs of the definition in the layouts of the program.
Storage defined_outputs(const Program& program, const dsl::Arrays& outputs) {
  Storage storage;
  for (const schedules::Argument& argument : program.arguments)
    if (argument.is_output)
      storage[argument.buffer.name] =
          schedules::packed(argument, outputs.at(argument.buffer.name), 0);
  return storage;
}

class NarrowTypes : public testing::TestWithParam<int> {};

TEST_P(NarrowTypes, RandomSchedulesOfRandomProductsAgree) {
  const std::vector<Target> targets = runnable_targets();
  Random random(static_cast<uint64_t>(GetParam()));
  const int wanted = cases_of(63, 3125);
  int computed = 0, with_dots = 0, dots = 0;
  for (int i = 0; computed < wanted && !HasFailure(); ++i) {
    ASSERT_LT(i, 4 * wanted) << "most schedules are illegal";
    const std::string text = narrow_product(random);
    const auto compute = dsl::parse_compute(text);
    ASSERT_TRUE(compute) << text << compute.error().message;
    const Target& target = targets[static_cast<size_t>(i) % targets.size()];
    schedules::Problem problem{*compute};
    problem.algorithms = true;
    problem.most_error = 0;  // only algorithms that round nothing
    const auto space = schedules::Space::derive(problem, target);
    ASSERT_TRUE(space) << text << space.error().message;
    const schedules::Point point = space->sample(random);
    const schedules::Schedule schedule = space->schedule(point);
    const auto program = schedule.program(schedules::limits_of(target));
    if (!program) continue;
    SCOPED_TRACE(fmt::format("{}{}\n{}", text, schedule.to_string(), target.to_string()));
    const dsl::Arrays arrays = random_arrays(*compute, random);
    Storage inputs;
    for (const schedules::Argument& argument : program->arguments)
      if (!argument.is_output && !argument.prepared)
        inputs[argument.buffer.name] =
            schedules::packed(argument, arrays.at(argument.buffer.name), 0);
    const auto defined = dsl::interpret(*compute, arrays);
    ASSERT_TRUE(defined) << defined.error().message;
    const Storage expected = defined_outputs(*program, *defined);
    Storage meant = inputs;
    ASSERT_TRUE(schedules::evaluate(*program, meant));
    EXPECT_EQ(difference(*program, expected, meant, 0, 0), "") << "the program's meaning";
    const auto actual = run_object(*program, inputs, target);
    ASSERT_TRUE(actual) << actual.error().message;
    EXPECT_EQ(difference(*program, expected, *actual, 0, 0), "") << "the object code";
    ++computed;
    if (schedules::dot_speed(target, *compute) == 1) continue;
    ++with_dots;
    dots += space->to_string(point).find(" dot=") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(5 * dots, with_dots) << "most samples have no dot products";
}

INSTANTIATE_TEST_SUITE_P(Seeds, NarrowTypes, testing::Range(1, 17));

}  // namespace
}  // namespace tw::codegen

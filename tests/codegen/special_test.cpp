// SPDX-License-Identifier: Apache-2.0
// Tests kernels on NaN, infinities, -0 and denormals. Their results must be those of the
// interpreter, with any schedule. Nothing is promised of a maximum with a NaN (docs/codegen.md).

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"
#include "schedules/space/space.h"
#include "tests/codegen/runs.h"
#include "tests/schedules/agreement.h"

namespace tw::codegen {
namespace {

using ::testing::Each;

/// Returns inputs in which about one of `rarity` elements is special, so that some sums stay
/// finite.
dsl::Arrays special_inputs(const dsl::Compute& compute, bool with_nan, Random& random) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr int64_t rarity = 9;
  const std::vector<double> values = {
      infinity, -infinity, -0.0,
      0x1p-149, -0x1p-130, with_nan ? std::numeric_limits<double>::quiet_NaN() : infinity};
  dsl::Arrays inputs;
  for (const dsl::Input& input : compute.inputs) {
    dsl::Array array = dsl::Array::make(input.type, input.shape).value();
    dsl::fill_integers(array, random);
    for (int64_t i = 0; i < array.size(); ++i)
      if (random.below(rarity) == 0)
        array.set_float(i, values[static_cast<size_t>(random.below(values.size()))]);
    inputs.emplace(input.name, std::move(array));
  }
  return inputs;
}

void expect_special_values_survive(const char* key, bool with_nan = true, bool gives_any = true) {
  SCOPED_TRACE(key);
  const dsl::Workload workload = dsl::parse_workload(key).value();
  const auto space = schedules::Space::derive(workload.compute, host_target());
  Random random(8);
  int finite = 0, special = 0, compared = 0;
  for (int round = 0; round < 8; ++round) {
    const auto schedule = space.schedule(round == 0 ? space.default_point() : space.sample(random));
    const auto program = schedule.program();
    if (!program) continue;
    SCOPED_TRACE(schedule.to_string());
    const dsl::Arrays inputs = special_inputs(workload.compute, with_nan, random);
    const dsl::Arrays expected = dsl::interpret(workload.compute, inputs).value();
    Storage storage;
    for (const auto& argument : program->arguments)
      if (!argument.is_output)
        storage[argument.buffer.name] =
            schedules::packed(argument, inputs.at(argument.buffer.name));
    const auto actual = run_object(*program, storage);
    ASSERT_TRUE(actual) << actual.error().message;
    ++compared;
    for (const auto& argument : program->arguments) {
      if (!argument.is_output) continue;
      const dsl::Array& wanted = expected.at(argument.buffer.name);
      const auto& bytes = actual->at(argument.buffer.name);
      schedules::for_each_index(
          argument.shape, [&](const std::vector<int64_t>& indices, int64_t position) {
            const double x = wanted.get_float(position);
            const double y = load_float(argument.buffer.type, bytes.data(),
                                        argument.layout.offset(argument.shape, indices));
            ++(std::isfinite(x) ? finite : special);
            EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= 1e-5)
                << argument.buffer.name << "[" << position << "] is " << y << ", expected " << x;
          });
    }
  }
  EXPECT_GT(compared, 3);
  EXPECT_GT(finite, 0);
  EXPECT_EQ(special > 0, gives_any);
}

TEST(Special, Fault08_SumsOfProducts) {
  expect_special_values_survive("dense m=5 n=19 k=2 f32 fast");
  expect_special_values_survive("dense m=5 n=19 k=2 f32 strict");
  expect_special_values_survive("conv2d n=1 c=2 h=7 w=9 k=5 r=1 s=1 f32 fast");
  expect_special_values_survive("batch_matmul b=2 m=3 n=17 k=2 f32 fast");
}

TEST(Special, Fault08_SumsAndElementwise) {
  expect_special_values_survive("reduce_sum rows=19 cols=3 f32 fast");
  expect_special_values_survive("transpose rows=5 cols=19 f32 fast");
}

TEST(Special, Fault08_MaximaWithoutNaN) {
  expect_special_values_survive("add_relu n=1 c=2 h=5 w=7 f32 fast", false);
  expect_special_values_survive("max_pool2d n=1 c=3 h=8 w=8 kernel=2 stride=2 f32 fast", false);
}

TEST(Special, Fault08_ArgmaxWithNaN) {
  for (const char* type : {"f32", "f16", "bf16"})
    for (const std::string op : {"argmax", "argmin"})
      expect_special_values_survive((op + " rows=9 cols=23 " + type + " fast").c_str(), true,
                                    false);
}

/// Runs the kernel of `expression` with the value `number` for every element a[i]. Returns the
/// results.
std::vector<double> values_at(const std::string& expression, float number) {
  SCOPED_TRACE(expression);
  constexpr int64_t count = 37;
  const auto compute = dsl::parse_compute(
      fmt::format("input a: f32[{0}]; out: f32[i={0}] = {1}", count, expression));
  if (!compute) throw std::runtime_error(compute.error().message);
  const auto space = schedules::Space::derive(*compute, host_target());
  const auto program = space.schedule(space.default_point()).program();
  if (!program) throw std::runtime_error(program.error().message);
  Storage storage;
  for (const auto& argument : program->arguments) {
    if (argument.is_output) continue;
    dsl::Array array = dsl::Array::make(Float32, {count}).value();
    for (int64_t i = 0; i < count; ++i) array.set_float(i, number);
    storage[argument.buffer.name] = schedules::packed(argument, array);
  }
  const auto actual = run_object(*program, storage);
  if (!actual) throw std::runtime_error(actual.error().message);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(load_float(Float32, actual->at("out").data(), i));
  return values;
}

/// LLVM assumes that sums and functions are finite, so `x` is also computed.
TEST(Special, Fault08_ComparisonsWithInfinity) {
  const auto expect = [](const std::string& condition, float number, bool holds) {
    const std::string expression = fmt::format("select({}, 1.0, 7.0)", condition);
    EXPECT_THAT(values_at(expression, number), Each(holds ? 1.0 : 7.0)) << expression << number;
  };
  for (const std::string x : {"a[i]", "(a[i] + 1.0)", "(a[i] * 3.0 - 1.0)", "exp(a[i])"}) {
    for (const auto& [comparison, if_infinite, if_finite] : {std::tuple("==", true, false),
                                                             {"!=", false, true},
                                                             {"<", false, true},
                                                             {"<=", true, true}}) {
      expect(fmt::format("{} {} inf", x, comparison), HUGE_VALF, if_infinite);
      expect(fmt::format("{} {} inf", x, comparison), 2, if_finite);
    }
    expect("inf <= " + x, HUGE_VALF, true);
    expect("inf <= " + x, 2, false);
    expect("inf < " + x, HUGE_VALF, false);
    expect("-inf < " + x, HUGE_VALF, true);
    expect("-inf <= " + x, 2, true);
  }
  expect("(a[i] - 1.0) == -inf", -HUGE_VALF, true);
  expect("-inf < (a[i] - 1.0)", -HUGE_VALF, false);
  expect("(a[i] - 1.0) <= -inf", -HUGE_VALF, true);
  expect("(a[i] - 1.0) <= -inf", 2, false);
  expect("(a[i] - 1.0) <= inf", std::numeric_limits<float>::quiet_NaN(), false);
}

/// Compares kernels of the compute with the interpreter. Its inputs `a` and `c` have 37 elements,
/// which are -1 and 1, or false and true, by turns.
void expect_agreement_on_signs(const std::string& text) {
  SCOPED_TRACE(text);
  const auto compute = dsl::parse_compute(text);
  ASSERT_TRUE(compute) << compute.error().message;
  const auto space = schedules::Space::derive(*compute, host_target());
  const auto program = space.schedule(space.default_point()).program();
  ASSERT_TRUE(program) << program.error().message;
  dsl::Array a = dsl::Array::make(Float32, {37}).value(), c = dsl::Array::make(Bool, {37}).value();
  for (int64_t i = 0; i < a.size(); ++i) {
    a.set_float(i, i % 2 == 0 ? -1 : 1);
    c.set_int(i, i % 2);
  }
  Storage storage;
  for (const auto& argument : program->arguments)
    if (!argument.is_output)
      storage[argument.buffer.name] =
          schedules::packed(argument, argument.buffer.name == "a" ? a : c);
  expect_agreement(*program, storage, 1e-5);
}

// Attention masks are such expressions. LLVM takes floats to be finite, and must not conclude from
// that which bits select(c, 0, -inf) has: a conversion to 16 bits computes with these bits.
TEST(Special, Fault08_InfiniteLiteralsAreRoundedTo16Bits) {
  for (const std::string type : {"f16", "bf16"})
    for (const std::string finite : {"0.0", "1.0"})
      for (const std::string infinite : {"inf", "-inf"})
        for (const std::string form :
             {"{0}(select(c[i], {1}, {2}))", "{0}(-select(0.0 < a[i], {1}, {2}))",
              "{0}(select(5 < i, {1}f64, {2}f64))", "select(c[i], {1}{0}, {2}{0})",
              "select(c[i], {1}{0}, {0}({2}))", "round(select(c[i], {1}{0}, {2}{0}))",
              "{0}(select(c[i], exp(a[i]) - {1}, {2}))", "{0}(-select(c[i], exp(a[i]), {2}))",
              "{0}(abs(select(c[i], a[i], {2})))", "{0}(floor(select(c[i], abs(a[i]), {2})))",
              "{0}(max(select(c[i], {1}, {2}), a[i] - 9.0))",
              "{0}(select(c[3], select(c[i], {1}, 1.0), {2}))"})
          expect_agreement_on_signs(
              fmt::format("input a: f32[37]\ninput c: bool[37]\nout: {}[i=37] = {}", type,
                          fmt::format(fmt::runtime(form), type, finite, infinite)));
}

// In the order of the expression, all intermediate results fit into f32. If the two literals were
// added first, they would overflow.
TEST(Special, Fault08_LiteralsOfSumsAreKeptApartWhereTheyOverflow) {
  for (const auto& [expression, number, expected] :
       {std::tuple("a[i] - 3e38 - 3e38", 3.2e38F, -2.8e38),
        {"a[i] + 3e38 + 3e38", -3.2e38F, 2.8e38},
        {"3e38 - a[i] + 3e38", 3.2e38F, 2.8e38},
        {"a[i] * 3.2e38 - 3e38 - 3e38", 1.0F, -2.8e38},
        {"a[i] * 3e38 + a[i] * 3e38", 0.5F, 3e38}})
    for (const double value : values_at(expression, number))
      ASSERT_NEAR(value / expected, 1, 1e-5) << expression;
}

}  // namespace
}  // namespace tw::codegen

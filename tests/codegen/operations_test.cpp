// SPDX-License-Identifier: Apache-2.0
// Tests that every operation and every conversion of every element type gives the same results in
// the interpreter, the C and the object code.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/codegen/gpu_runs.h"
#include "tests/codegen/kernels.h"
#include "tests/codegen/runs.h"
#include "tests/nightly.h"

namespace tw::codegen {
namespace {

using dsl::BinaryOp;
using dsl::UnaryOp;

constexpr UnaryOp unary_ops[] = {
#define X(name, text) UnaryOp::name,
    TW_UNARY_OPS(X)
#undef X
};
constexpr BinaryOp binary_ops[] = {
#define X(name, text, precedence) BinaryOp::name,
    TW_BINARY_OPS(X)
#undef X
};
constexpr int64_t count = 38;  // no multiple of a vector

std::vector<DType> integer_types() {
  std::vector<DType> types;
  for (const DType type : all_dtypes)
    if (!is_float(type) && type != Bool) types.push_back(type);
  return types;
}

/// Stores `value` for each i in [0, extent), in vectors of `lanes` lanes. The last vector may have
/// fewer.
Block in_vectors(const std::string& buffer, const Expr& value, int64_t extent, int64_t lanes) {
  const auto store = [&](const Expr& index) {
    return assign(buffer, {index}, dsl::substitute(value, "i", index));
  };
  Block body;
  const int64_t whole = extent / lanes;
  if (whole > 0)
    body.push_back(serial("o", whole, {vector("v", lanes, {store(var("o") * lanes + var("v"))})}));
  if (whole * lanes < extent)
    body.push_back(vector("v", extent - whole * lanes, {store(var("v") + whole * lanes)}));
  return body;
}

/// Returns the number of lanes of vectors in loops over `count` elements. 19 and 38 are no
/// multiples of the lanes of any register. They divide `count`, so that there is no second loop for
/// a tail: the compiler takes seconds for each loop with functions of f64.
int64_t lanes_of(DType type) { return size_bytes(type) == 1 ? count : 19; }

/// Returns the targets to test. Without TW_NIGHTLY, programs with f64 run with the vectors of this
/// machine only.
std::vector<Target> targets_of(const Program& program) {
  const bool has_doubles = std::ranges::any_of(
      program.arguments, [](const auto& a) { return a.buffer.type == Float64; });
  return has_doubles && !is_nightly() ? std::vector<Target>{host_target()} : runnable_targets();
}

/// Returns a program that computes each of the expressions over a[i] and b[i]. Each is stored to an
/// output of its own, which has the expression's type.
Program elementwise(DType type, const std::vector<std::pair<std::string, Expr>>& results,
                    bool vectorized) {
  Program program;
  program.arguments = {argument("a", type, {count}, false), argument("b", type, {count}, false)};
  Block body;
  for (const auto& [name, value] : results) {
    program.arguments.push_back(argument(name, value.type(), {count}, true));
    if (vectorized)
      for (Stmt& stmt : in_vectors(name, value, count, lanes_of(type)))
        body.push_back(std::move(stmt));
    else
      body.push_back(serial("i", count, {assign(name, {var("i")}, value)}));
  }
  program.phases = {{"elementwise", {}, schedules::block(std::move(body))}};
  return program;
}

/// Returns all operations that the type allows. The operands of functions with a restricted domain
/// are kept inside of it.
std::vector<std::pair<std::string, Expr>> operations(DType type) {
  const Expr a = dsl::read("a", {var("i")}, type), b = dsl::read("b", {var("i")}, type);
  std::vector<std::pair<std::string, Expr>> results;
  for (const UnaryOp op : unary_ops) {
    if (dsl::type_error(op, type)) continue;
    const bool is_partial = op == UnaryOp::Log || op == UnaryOp::Sqrt;
    const Expr operand = is_partial ? dsl::abs(a) + dsl::constant(type, 0.5) : a;
    results.push_back({fmt::format("u_{}", dsl::to_string(op)), dsl::unary(op, operand)});
  }
  for (size_t i = 0; i < std::size(binary_ops); ++i) {
    const BinaryOp op = binary_ops[i];
    if (dsl::type_error(op, type)) continue;
    Expr divisor = b;
    if (op == BinaryOp::Div || op == BinaryOp::Mod)
      divisor = is_float(type) ? dsl::abs(b) + dsl::constant(type, 1) : dsl::constant_int(type, 3);
    const Expr base = op == BinaryOp::Pow ? dsl::abs(a) + dsl::constant(type, 0.5) : a;
    results.push_back({fmt::format("b{}", i), dsl::binary(op, base, divisor)});
  }
  results.push_back({"chosen", dsl::select(dsl::eq(a, b), a, b)});
  return results;
}

/// Replaces vector loops by thread loops.
Block with_threads(const Block& body) {
  Block result;
  for (const Stmt& stmt : body) {
    const auto* l = stmt.as<schedules::Loop>();
    result.push_back(!l ? stmt
                        : loop(l->variable, l->begin, l->end,
                               l->kind == LoopKind::Vector ? LoopKind::Thread : l->kind,
                               with_threads(*l->body)));
  }
  return result;
}

/// Checks each program on the CPU at once. At the end of a test, checks the texts for GPUs of all
/// its programs together.
class Operations : public testing::Test {
 protected:
  void expect(const Program& program, const Storage& inputs, double relative = 0,
              double absolute = 0) {
    expect_agreement(program, inputs, relative, absolute, targets_of(program));
    for (const auto& argument : program.arguments)
      if (argument.buffer.type == Float64) return;  // GPU tests have no f64
    Program on_gpu = program;
    for (auto& phase : on_gpu.phases) phase.body = schedules::block(with_threads(*phase.body));
    cases_.push_back(gpu_case("", on_gpu, inputs, relative));
  }

  void TearDown() override {
    if (cases_.empty()) return;
    expect_emulation_agrees(cases_);
    if (const auto device = opencl_device()) expect_opencl_agrees(**device, cases_);
    if (const auto nvrtc = open_nvrtc()) expect_nvrtc_compiles(*nvrtc, cases_);
  }

 private:
  std::vector<GpuCase> cases_;
};

TEST_F(Operations, EveryTypeAndOperation) {
  for (const DType type : all_dtypes) {
    const double tolerance = type == Float32    ? 2e-6
                             : type == Float64  ? 2e-15
                             : type == Float16  ? 1e-3
                             : type == BFloat16 ? 8e-3
                                                : 0;
    for (const bool vectorized : {false, true}) {
      // Scalar loops have no cases that vectors lack, except some that are the same for all types.
      if (type != Float32 && !vectorized && !is_nightly()) continue;
      const Program program = elementwise(type, operations(type), vectorized);
      expect(program, real_inputs(program, 11), tolerance, tolerance / 10);
    }
  }
}

TEST_F(Operations, EveryConversion) {
  for (const DType from : all_dtypes) {
    const Expr a = dsl::read("a", {var("i")}, from);
    std::vector<std::pair<std::string, Expr>> results;
    for (const DType to : all_dtypes)
      if (to != Float64)
        results.push_back({fmt::format("to_{}", tw::to_string(to)), dsl::cast(to, a)});
    for (const auto& converted : {results, {{"to_f64", dsl::cast(Float64, a)}}}) {
      const Program program = elementwise(from, converted, true);
      expect(program, real_inputs(program, 12));
    }
  }
}

/// If a double were rounded to f32 first, numbers next to the middle between two f16 or bf16 would
/// become that middle, and could then be rounded the wrong way.
TEST_F(Operations, DoublesAreRoundedOnce) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {1 + 0x1p-11 + 0x1p-50,
                                      1 + 0x1p-11 - 0x1p-50,
                                      1 + 0x1p-11,
                                      1 + 3 * 0x1p-11,
                                      -(1 + 0x1p-11 + 0x1p-40),
                                      1 + 0x1p-8 + 0x1p-50,
                                      1 + 0x1p-8 - 0x1p-50,
                                      1 + 0x1p-8,
                                      -(1 + 0x1p-8 + 0x1p-45),
                                      65520 - 0x1p-30,
                                      65520,
                                      65504,
                                      0x1p-25,
                                      0x1p-25 + 0x1p-70,
                                      0x1p-24 + 0x1p-25,
                                      0x1p-24 + 0x1p-25 - 0x1p-70,
                                      0x1p-60,
                                      0x1.ffp127,
                                      0x1.fefffffffffp127,
                                      1e300,
                                      -1e300,
                                      1e-300,
                                      -0.0,
                                      infinity,
                                      -infinity,
                                      1 + 0x1p-24 + 0x1p-52,
                                      0x1.fffffefffffffp127,
                                      0x1.ffffffp127};
  const Expr a = dsl::read("a", {var("i")}, Float64);
  for (const DType to : {Float16, BFloat16, Float32}) {
    const Program program = elementwise(Float64, {{"rounded", dsl::cast(to, a)}}, true);
    Storage inputs = integer_inputs(program, 23);
    for (size_t i = 0; i < values.size(); ++i)
      store_float(Float64, inputs["a"].data(), static_cast<int64_t>(i), values[i]);
    expect(program, inputs);
  }
  EXPECT_EQ(round_to(Float16, 1 + 0x1p-11 + 0x1p-50), 1 + 0x1p-10);
  EXPECT_EQ(round_to(BFloat16, 1 + 0x1p-8 + 0x1p-50), 1 + 0x1p-7);
  EXPECT_EQ(round_to(BFloat16, 1 + 0x1p-8 - 0x1p-50), 1);
}

TEST_F(Operations, NaNsOfDoublesStayNaN) {
  const Expr a = dsl::read("a", {var("i")}, Float64);
  for (const DType to : {Float16, BFloat16, Float32})
    for (const uint64_t bits :
         {0x7ff8000000000000u, 0xfff8000000000000u, 0x7ff0000000000001u, 0x7fffffffffffffffu}) {
      const Program program = elementwise(Float64, {{"rounded", dsl::cast(to, a)}}, true);
      Storage inputs = integer_inputs(program, 24);
      for (int64_t i = 0; i < count; ++i)
        store_float(Float64, inputs["a"].data(), i, std::bit_cast<double>(bits));
      for (const Target& target : runnable_targets()) {
        const auto outputs = run_object(program, inputs, target);
        ASSERT_TRUE(outputs) << outputs.error().message;
        for (int64_t i = 0; i < count; ++i)
          EXPECT_TRUE(std::isnan(load_float(to, outputs->at("rounded").data(), i)))
              << tw::to_string(to) << " of " << std::hex << bits << " for " << target.to_string();
      }
      const auto outputs = run_c(program, inputs);
      ASSERT_TRUE(outputs) << outputs.error().message;
      for (int64_t i = 0; i < count; ++i)
        EXPECT_TRUE(std::isnan(load_float(to, outputs->at("rounded").data(), i))) << "C";
    }
}

TEST_F(Operations, FloatsSaturateAsIntegers) {
  const Expr a = dsl::read("a", {var("i")}, Float32);
  std::vector<std::pair<std::string, Expr>> results;
  for (const DType to : integer_types())
    results.push_back({fmt::format("to_{}", tw::to_string(to)), dsl::cast(to, a)});
  const Program program = elementwise(Float32, results, true);
  Storage inputs = integer_inputs(program, 13);
  const double values[] = {1e30,          -1e30,        127.9,        128,
                           -128.5,        -129,         255.5,        256,
                           -0.5,          2147483647.0, 2147483648.0, -2147483648.0,
                           -2147484000.0, 9.3e18,       -9.3e18,      2147483520.0};
  for (size_t i = 0; i < std::size(values); ++i)
    store_float(Float32, inputs["a"].data(), static_cast<int64_t>(i), values[i]);
  expect(program, inputs);
}

/// Sums, shifts, quotients and conversions of integers that were converted from floats. Halide
/// would simplify u32(i32(f)) to u32(f), which is undefined if f is negative.
TEST_F(Operations, FloatsBecomeIntegersBeforeOtherOperations) {
  const double values[] = {-3.7, -3.5, -40, -370.2, 3, 130.9, 3e9, -3e9, 1e12, -1e12, 0.4, -40000};
  for (const DType from : {Float32, Float64, Float16}) {
    const Expr a = dsl::read("a", {var("i")}, from);
    std::vector<std::pair<std::string, Expr>> results;
    for (const DType type : integer_types()) {
      const Expr whole = dsl::cast(type, a);
      const auto add = [&](std::string_view what, const Expr& value) {
        results.push_back({fmt::format("{}_{}", tw::to_string(type), what), value});
      };
      const Expr three = dsl::constant_int(type, 3);
      add("sum", whole + three);
      add("quotient", whole / three);
      add("shifted", dsl::binary(BinaryOp::Shl, whole, dsl::constant_int(type, 1)));
      if (is_signed(type)) add("negated", -whole);
      for (const DType to : integer_types()) add(tw::to_string(to), dsl::cast(to, whole));
    }
    const Program program = elementwise(from, results, true);
    Storage inputs = integer_inputs(program, 27);
    for (size_t i = 0; i < std::size(values); ++i)
      store_float(from, inputs["a"].data(), static_cast<int64_t>(i),
                  from == Float16 ? std::clamp(values[i], -60000.0, 60000.0) : values[i]);
    expect(program, inputs);
  }
}

/// f32 is exact only for integers of 24 bits. If these values were rounded to f32 first, they would
/// become ties between two numbers of 16 bits.
TEST_F(Operations, IntegersAreRoundedToHalvesOnce) {
  const int64_t values[] = {(1 << 24) + (1 << 16) + 1,
                            (1 << 24) + (1 << 16) - 1,
                            0x7fffffff,
                            -(1 << 24) - (1 << 16) - 1,
                            65503,
                            -65503,
                            2049,
                            2051};
  for (const DType from : {Int32, UInt32, Int64})
    for (const DType to : {Float16, BFloat16}) {
      const Expr a = dsl::read("a", {var("i")}, from);
      const Program program = elementwise(from, {{"rounded", dsl::cast(to, a)}}, true);
      Storage inputs = integer_inputs(program, 28);
      for (size_t i = 0; i < std::size(values); ++i)
        store_int(from, inputs["a"].data(), static_cast<int64_t>(i),
                  from == UInt32 ? std::abs(values[i]) : values[i]);
      expect(program, inputs);
    }
}

TEST_F(Operations, ProductsOfNarrowIntegersInDouble) {
  for (const DType from : {UInt8, UInt16, Int8, Bool}) {
    const Expr a = dsl::cast(Float64, dsl::read("a", {var("i")}, from));
    const auto literal = [](double value) { return dsl::constant(Float64, value); };
    const Program program =
        elementwise(from,
                    {{"product", a * literal(1.5)},
                     {"quotient", a / literal(2)},
                     {"of_sum", (a + literal(1)) * literal(0.5)},
                     {"of_least", dsl::min(a, literal(3)) * literal(0.25)},
                     {"of_both", a * literal(1.5) + a * a * literal(65504)},
                     {"of_truth", dsl::cast(Float64, literal(3) < a) * literal(1.5)}},
                    true);
    expect(program, integer_inputs(program, 29), 1e-15);
  }
}

TEST_F(Operations, IntegersWrap) {
  for (const DType type : integer_types()) {
    const Expr a = dsl::read("a", {var("i")}, type), b = dsl::read("b", {var("i")}, type);
    std::vector<std::pair<std::string, Expr>> results = {{"sum", a + b},
                                                         {"difference", a - b},
                                                         {"product", a * b},
                                                         {"negated", -a},
                                                         {"magnitude", dsl::abs(a)}};
    // An optimizer that assumes that there is no overflow would fold this comparison to true.
    results.push_back({"grows", dsl::cast(Int32, a < a + dsl::constant_int(type, 1))});
    results.push_back({"halved", a * dsl::constant_int(type, 2) / dsl::constant_int(type, 2)});
    const Program program = elementwise(type, results, true);
    Storage inputs = integer_inputs(program, 18);
    const int64_t least = *dsl::as_int(dsl::identity(Combine::Max, type));
    const int64_t largest = *dsl::as_int(dsl::identity(Combine::Min, type));
    const int64_t values[] = {least, largest, least + 1, largest - 1, largest / 2 + 1};
    for (int64_t i = 0; i < 25; ++i) {
      store_int(type, inputs["a"].data(), i, values[i / 5]);
      store_int(type, inputs["b"].data(), i, values[i % 5]);
    }
    expect(program, inputs);
  }
}

/// Shift counts that are negative, or not below the number of bits, are taken modulo that number.
TEST_F(Operations, BitsOfEveryInteger) {
  for (const DType type : integer_types()) {
    const Expr a = dsl::read("a", {var("i")}, type), b = dsl::read("b", {var("i")}, type);
    const auto literal = [&](int64_t value) { return dsl::constant_int(type, value); };
    const int64_t bits = 8 * size_bytes(type);
    const std::vector<std::pair<std::string, Expr>> results = {
        {"left", a << b},
        {"right", a >> b},
        {"both", a & b},
        {"either", a | b},
        {"one", a ^ b},
        {"half", a >> literal(1)},
        {"sign", a >> literal(bits - 1)},
        {"around", (a << literal(bits + 1)) ^ (a >> literal(-1))},
        {"nibbles", (a >> literal(4)) + (a & literal(15)) * (b | literal(1))},
        {"odd", dsl::cast(type, dsl::eq(a & literal(1), literal(1)))}};
    const int64_t least = *dsl::as_int(dsl::identity(Combine::Max, type));
    const int64_t largest = *dsl::as_int(dsl::identity(Combine::Min, type));
    const int64_t values[] = {least, largest, 0, is_signed(type) ? -1 : bits, 3, bits - 1};
    for (const bool vectorized : {false, true}) {
      const Program program = elementwise(type, results, vectorized);
      Storage inputs = integer_inputs(program, 25);
      for (int64_t i = 0; i < 36; ++i) {
        store_int(type, inputs["a"].data(), i, values[i / 6]);
        store_int(type, inputs["b"].data(), i, values[i % 6]);
      }
      expect(program, inputs);
    }
  }
}

TEST_F(Operations, IntegersAreDividedByAnyInteger) {
  for (const DType type : integer_types()) {
    const Expr a = dsl::read("a", {var("i")}, type), b = dsl::read("b", {var("i")}, type);
    const std::vector<std::pair<std::string, Expr>> results = {
        {"quotient", a / b},
        {"remainder", a % b},
        {"by_literal", is_signed(type) ? a / dsl::constant_int(type, -3) : a / b}};
    const int64_t least = *dsl::as_int(dsl::identity(Combine::Max, type));
    const int64_t largest = *dsl::as_int(dsl::identity(Combine::Min, type));
    const int64_t values[] = {
        least, largest, 0, is_signed(type) ? -1 : 1, 7, is_signed(type) ? -3 : 3};
    for (const bool vectorized : {false, true}) {
      const Program program = elementwise(type, results, vectorized);
      Storage inputs = integer_inputs(program, 19);
      for (int64_t i = 0; i < 36; ++i) {
        store_int(type, inputs["a"].data(), i, values[i / 6]);
        store_int(type, inputs["b"].data(), i, values[i % 6]);
      }
      expect(program, inputs);
    }
  }
}

/// Operations on elements of i64 need 64 bits even if 32 bits are enough for all indices of the
/// phase.
TEST_F(Operations, WideElementsStandBesideNarrowIndices) {
  const Expr i = var("i"), a = dsl::read("a", {i}, Int64), b = dsl::read("b", {i}, Int64);
  const int64_t least = std::numeric_limits<int64_t>::min();
  const int64_t values[] = {int64_t{1} << 40, -(int64_t{1} << 33) - 5, 3, least, 35, -1, 63};
  const auto expect_of = [&](const Program& program) {
    Storage inputs = integer_inputs(program, 27);
    for (int64_t k = 0; k < count; ++k) {
      store_int(Int64, inputs["a"].data(), k, values[k % 7]);
      store_int(Int64, inputs["b"].data(), k, values[k / 7]);
    }
    expect(program, inputs);
  };
  for (const Expr& value : {a % 7, a / 7, a % b, a / b, i % b, a % (i + 1), dsl::min(a, b),
                            dsl::max(a, i), i >> b, i << b, (i - 20) >> b, a >> i})
    for (const bool vectorized : {false, true})
      expect_of(elementwise(Int64, {{"result", value}}, vectorized));
  Program largest = elementwise(Int64, {{"result", i}}, false);
  Block body = *largest.phases[0].body;
  body.push_back(serial(
      "j", count, {assign("result", {var("j")}, dsl::read("a", {var("j")}, Int64), Combine::Max)}));
  largest.phases[0].body = schedules::block(std::move(body));
  expect_of(largest);
}

/// In attention, masks with minus infinity are added to scores, and rows that are masked as a whole
/// are found by a comparison with it.
TEST_F(Operations, InfiniteLiteralsAreOperands) {
  const Expr a = f32("a", {var("i")}), b = f32("b", {var("i")}), zero = dsl::constant(Float32, 0);
  const Expr least = dsl::identity(Combine::Max, Float32);
  const Expr mask = dsl::select(b < zero, least, zero);
  for (const bool vectorized : {false, true}) {
    const Program program = elementwise(Float32,
                                        {{"sum", a + mask},
                                         {"difference", a - dsl::select(b < zero, -least, zero)},
                                         {"is_least", dsl::eq(a + mask, least)},
                                         {"is_greater", least < a + mask}},
                                        vectorized);
    expect(program, integer_inputs(program, 22));
  }
}

TEST_F(Operations, RoundsHalvesToEven) {
  const Program program =
      elementwise(Float32, {{"rounded", dsl::round(f32("a", {var("i")}))}}, true);
  Storage inputs = integer_inputs(program, 20);
  const double values[] = {0.5,        1.5,     2.5,      -0.5, -1.5, -2.5,
                           0.49999997, 8388609, -8388609, 3e38, 2.4};
  for (size_t i = 0; i < std::size(values); ++i)
    store_float(Float32, inputs["a"].data(), static_cast<int64_t>(i), values[i]);
  expect(program, inputs);
}

/// The product of two 16-bit floats is rounded to 16 bits before it is rounded to an integer. These
/// products are ties between two numbers of f16 or bf16, but not in f32.
TEST_F(Operations, ProductsOfHalvesAreRoundedBeforeTheyBecomeWhole) {
  for (const DType half : {Float16, BFloat16}) {
    const Expr a = dsl::read("a", {var("i")}, half), b = dsl::read("b", {var("i")}, half);
    const Program program = elementwise(half, {{"rounded", dsl::round(a * b)}}, true);
    Storage inputs = integer_inputs(program, 30);
    const double step = half == Float16 ? 0x1p-11 : 0x1p-8;  // half of the spacing above 1
    for (int64_t i = 0; i < count; ++i) {                    // the product is near 2 + i / 2
      store_float(half, inputs["a"].data(), i, (2 + static_cast<double>(i) / 2) * (1 + 2 * step));
      store_float(half, inputs["b"].data(), i, 1 - (i % 2 ? 2 : 1) * step);
    }
    expect(program, inputs);
  }
}

/// 0.45000002 / 0.02 is above 22.5 and must be rounded to 23. Multiplying by the reciprocal of
/// 0.02, rounded to f32, would give 22.
TEST_F(Operations, QuotientsAreDividedBeforeTheyBecomeWhole) {
  const Expr a = f32("a", {var("i")}), b = f32("b", {var("i")});
  const Program program = elementwise(
      Float32,
      {{"by_literal", dsl::round(a / dsl::constant(Float32, 0.02))},
       {"by_element", dsl::round(a / b)},
       {"of_positive",
        dsl::round(dsl::max(a, dsl::constant(Float32, 0)) / dsl::constant(Float32, 0.02))}},
      true);
  Storage inputs = integer_inputs(program, 31);
  for (int64_t i = 0; i < count; ++i) {
    store_float(Float32, inputs["a"].data(), i, static_cast<float>(i - 10) * 0.05f);
    store_float(Float32, inputs["b"].data(), i, 0.02);
  }
  expect_agreement(program, inputs, 0, 0, targets_of(program));
}

/// Both the product and the quotient are rounded to f32. The definition computes in f64 and rounds
/// neither, so that this test computes the expected values itself.
TEST_F(Operations, QuantizedNumbersChangeTheirScaleInTwoOperations) {
  const Expr scaled =
      dsl::cast(Float32, dsl::read("a", {var("i")}, Int8)) * dsl::constant(Float32, 0.05);
  const Program program =
      elementwise(Int8, {{"changed", dsl::round(scaled / dsl::constant(Float32, 0.02))}}, true);
  Storage inputs = integer_inputs(program, 33);
  for (int64_t i = 0; i < count; ++i) store_int(Int8, inputs["a"].data(), i, i - 49);
  for (const Target& target : runnable_targets()) {
    const auto outputs = run_object(program, inputs, target);
    ASSERT_TRUE(outputs) << outputs.error().message;
    for (int64_t i = 0; i < count; ++i) {
      const float x = static_cast<float>(i - 49) * 0.05f;
      EXPECT_EQ(load_float(Float32, outputs->at("changed").data(), i), std::nearbyint(x / 0.02f))
          << i << " for " << target.to_string();
    }
  }
}

/// The argument is in radians. Its reduction subtracts a multiple of pi / 2, which is large if the
/// argument is.
TEST_F(Operations, SinesOfLargeArgumentsKeepTheirDigits) {
  constexpr int64_t points = 2000;
  const Expr x = f32("a", {var("i")});
  Block body = in_vectors("sine", dsl::sin(x), points, 16);
  for (Stmt& stmt : in_vectors("cosine", dsl::cos(x), points, 16)) body.push_back(std::move(stmt));
  const Program program = single_phase(
      {argument("a", Float32, {points}, false), argument("sine", Float32, {points}, true),
       argument("cosine", Float32, {points}, true)},
      {}, std::move(body));
  Storage inputs = integer_inputs(program, 21);
  for (int64_t i = 0; i < points; ++i)
    store_float(Float32, inputs["a"].data(), i,
                (i % 2 ? -1 : 1) * std::pow(1.01, static_cast<double>(i)) * 1e-3);
  expect(program, inputs, 1e-6, 2e-7);
}

TEST_F(Operations, PowersOfEveryKindOfBase) {
  const Expr a = f32("a", {var("i")}), b = f32("b", {var("i")});
  const Program program = elementwise(Float32, {{"power", dsl::pow(a, b)}}, true);
  Storage inputs = integer_inputs(program, 22);
  const double bases[] = {0, 1, -1, 2, -2, 0.5, 1e-38, 1e-42, 3e38, -7.25, 1.0000001, 10};
  const double exponents[] = {3, -2, 7};
  for (int64_t i = 0; i < 36; ++i) {
    store_float(Float32, inputs["a"].data(), i, bases[i / 3]);
    store_float(Float32, inputs["b"].data(), i, bases[i / 3] == 0 ? 2.5 : exponents[i % 3]);
  }
  expect(program, inputs, 1e-6, 1e-37);
}

TEST_F(Operations, HalfPrecisionRoundsToNearestEven) {
  for (const DType half : {Float16, BFloat16}) {
    const Expr a = dsl::read("a", {var("i")}, Float32);
    const Program program = elementwise(Float32, {{"rounded", dsl::cast(half, a)}}, true);
    Storage inputs = integer_inputs(program, 14);
    const double values[] = {1.0 + 1.0 / 256,
                             1.0 + 3.0 / 256,
                             1.0 + 1.0 / 2048,
                             1.0 + 3.0 / 2048,
                             6.1e-5,
                             5.9e-8,
                             2.9e-8,
                             3.0e-8,
                             65504,
                             65519,
                             1e-40,
                             -0.1,
                             0.3333333};
    for (size_t i = 0; i < std::size(values); ++i)
      store_float(Float32, inputs["a"].data(), static_cast<int64_t>(i), values[i]);
    expect(program, inputs, 0, half == BFloat16 ? 1e-40 : 0);
  }
}

TEST_F(Operations, EveryCombination) {
  for (const DType type : {Float32, Float64, Float16, BFloat16, Int8, UInt8, Int32, Int64}) {
    Program program;
    program.arguments = {argument("a", type, {5, count}, false)};
    Block body;
    for (const Combine combine : {Combine::Sum, Combine::Prod, Combine::Min, Combine::Max}) {
      const std::string name(dsl::to_string(combine));
      program.arguments.push_back(argument(name, type, {count}, true));
      body.push_back(vector("i", count, {assign(name, {var("i")}, dsl::identity(combine, type))}));
      body.push_back(serial(
          "k", 5,
          {vector(
              "i", count,
              {assign(name, {var("i")}, dsl::read("a", {var("k"), var("i")}, type), combine)})}));
    }
    program.phases = {{"combine", {}, schedules::block(std::move(body))}};
    expect(program, integer_inputs(program, 15));
  }
}

TEST_F(Operations, FunctionsAreAccurateOverTheirRange) {
  constexpr int64_t points = 4001;
  const Expr x = f32("a", {var("i")});
  const Program program = single_phase(
      {argument("a", Float32, {points}, false), argument("exp", Float32, {points}, true),
       argument("tanh", Float32, {points}, true), argument("erf", Float32, {points}, true),
       argument("log", Float32, {points}, true), argument("sqrt", Float32, {points}, true),
       argument("sigmoid", Float32, {points}, true), argument("pow", Float32, {points}, true)},
      {},
      {serial(
          "i", points,
          {assign("exp", {var("i")}, dsl::exp(x)), assign("tanh", {var("i")}, dsl::tanh(x)),
           assign("erf", {var("i")}, dsl::erf(x)), assign("log", {var("i")}, dsl::log(dsl::abs(x))),
           assign("sqrt", {var("i")}, dsl::sqrt(dsl::abs(x))),
           assign("sigmoid", {var("i")}, dsl::sigmoid(x)),
           assign("pow", {var("i")}, dsl::pow(dsl::abs(x), x * dsl::constant(Float32, 0.25)))})});
  Storage inputs = integer_inputs(program, 16);
  for (int64_t i = 0; i < points; ++i) {
    const double t = static_cast<double>(i - points / 2) / (points / 2.0);
    store_float(Float32, inputs["a"].data(), i, 80 * t * t * t + 1e-6);  // dense around 0
  }
  // exp subtracts a multiple of ln 2 from its argument. Without fused multiply-adds it rounds this
  // multiple, which adds an error of half of the spacing of floats at 80, 3.8e-6.
  expect(program, inputs, host_target().has("fma") ? 2e-6 : 6e-6, 1e-37);
}

TEST_F(Operations, BoundedFunctionsOfLargeNumbersHaveTheirLimits) {
  const Expr x = f32("a", {var("i")});
  const Program program = elementwise(
      Float32, {{"tanh", dsl::tanh(x)}, {"erf", dsl::erf(x)}, {"sigmoid", dsl::sigmoid(x)}}, false);
  Storage inputs = integer_inputs(program, 23);
  for (int64_t i = 0; i < 36; ++i)
    store_float(Float32, inputs["a"].data(), i, std::pow(-10.0, static_cast<double>(i + 1)));
  expect(program, inputs, 2e-6, 1e-37);
}

TEST_F(Operations, ExponentialsOfLargeNumbersAreInfiniteOrZero) {
  const Program program = elementwise(Float32, {{"power", dsl::exp(f32("a", {var("i")}))}}, true);
  Storage inputs = integer_inputs(program, 24);
  const double infinity = std::numeric_limits<double>::infinity();
  const double values[] = {88.5, 89,     200,       1.4e9, 1.6e9, 1e30, infinity, -200,
                           -1e9, -1.6e9, -infinity, -87.5, -90,   -95,  -100,     -103.5};
  for (int64_t i = 0; i < count; ++i)
    store_float(Float32, inputs["a"].data(), i, values[static_cast<size_t>(i) % std::size(values)]);
  expect(program, inputs, 2e-6, 0x1p-149);
}

/// Infinity is not tested, because kernels compute 88.72 as its logarithm (docs/codegen.md).
TEST_F(Operations, LogarithmsOfTheLeastAndTheLargestNumbers) {
  const Program program = elementwise(Float32, {{"log", dsl::log(f32("a", {var("i")}))}}, true);
  Storage inputs = integer_inputs(program, 32);
  const double values[] = {0,        -0.0,           0x1p-149, 0x1p-148,      0x1p-127,     1e-39,
                           0x1p-126, 0x1.fffffep127, 1,        0x1.fffffep-1, 0x1.000002p0, 1e-30};
  for (int64_t i = 0; i < count; ++i)
    store_float(Float32, inputs["a"].data(), i, values[static_cast<size_t>(i) % std::size(values)]);
  expect(program, inputs, 1e-6);
}

/// Halide's IR shares common parts of these expressions. As trees, without sharing, they would have
/// up to 10^9 nodes.
TEST_F(Operations, NestedFunctionsAreCompiledAsGraphs) {
  const auto mish = [](const Expr& x) {
    return x * dsl::tanh(dsl::log(dsl::constant(x.type(), 1) + dsl::exp(x)));
  };
  for (const DType type : {Float32, Float64}) {
    const Expr x = dsl::read("a", {var("i")}, type);
    const Expr exponent = dsl::constant(type, 1.7);
    const Expr positive = dsl::abs(x) + dsl::constant(type, 0.5);
    const Program program =
        elementwise(type,
                    {{"sines", dsl::sin(dsl::sin(dsl::sin(dsl::sin(x))))},
                     {"powers", dsl::pow(dsl::pow(positive, exponent), exponent)},
                     {"sigmoids", dsl::sigmoid(dsl::sigmoid(dsl::sigmoid(dsl::sigmoid(x))))},
                     {"mish", mish(mish(x))}},
                    true);
    const double tolerance = type == Float32 ? 1e-5 : 1e-14;
    expect(program, real_inputs(program, 25), tolerance, tolerance);
  }
}

TEST_F(Operations, FunctionsOfDoublesAreAccurateOverTheirRange) {
  constexpr int64_t points = 4001;
  const Expr x = dsl::read("a", {var("i")}, Float64), positive = dsl::abs(x);
  const std::vector<std::pair<std::string, Expr>> functions = {
      {"exp", dsl::exp(x)},
      {"tanh", dsl::tanh(x)},
      {"erf", dsl::erf(x)},
      {"log", dsl::log(positive)},
      {"sqrt", dsl::sqrt(positive)},
      {"sigmoid", dsl::sigmoid(x)},
      {"sine", dsl::sin(x)},
      {"cosine", dsl::cos(x)},
      {"pow", dsl::pow(positive, x * dsl::constant(Float64, 0.15))}};
  std::vector<schedules::Argument> arguments = {argument("a", Float64, {points}, false)};
  Block body;
  for (const auto& [name, value] : functions) {
    arguments.push_back(argument(name, Float64, {points}, true));
    body.push_back(assign(name, {var("i")}, value));
  }
  const Program program = single_phase(arguments, {}, {serial("i", points, body)});
  Storage inputs = integer_inputs(program, 16);
  for (int64_t i = 0; i < points; ++i) {
    const double t = static_cast<double>(i - points / 2) / (points / 2.0);
    store_float(Float64, inputs["a"].data(), i, 700 * t * t * t + 1e-6);  // dense around 0
  }
  expect(program, inputs, 1e-15, 1e-16);
}

TEST_F(Operations, PowersOfDoublesOfEveryKindOfBase) {
  const Expr a = dsl::read("a", {var("i")}, Float64), b = dsl::read("b", {var("i")}, Float64);
  const Program program = elementwise(Float64, {{"power", dsl::pow(a, b)}}, true);
  Storage inputs = integer_inputs(program, 22);
  const double bases[] = {0, 1, -1, 2, -2, 0.5, 1e-308, 1e-320, 1e300, -7.25, 1.0000001, 10};
  const double exponents[] = {3, -0.75, 7};
  for (int64_t i = 0; i < 36; ++i) {
    const double base = bases[i / 3], exponent = exponents[i % 3];
    store_float(Float64, inputs["a"].data(), i, base);
    store_float(Float64, inputs["b"].data(), i,
                base == 0  ? 2.5
                : base < 0 ? std::floor(exponent)
                           : exponent);
  }
  expect(program, inputs, 1e-15, 1e-320);
}

TEST_F(Operations, PowersOfZeroInShortLoops) {
  constexpr int64_t points = 2;
  const Expr power =
      dsl::pow(dsl::read("a", {var("i")}, Float64), dsl::read("b", {var("i")}, Float64));
  const Program program = single_phase(
      {argument("a", Float64, {points}, false), argument("b", Float64, {points}, false),
       argument("power", Float64, {points}, true)},
      {}, {serial("i", points, {assign("power", {var("i")}, power)})});
  Storage inputs = integer_inputs(program, 24);
  for (int64_t i = 0; i < points; ++i) {
    store_float(Float64, inputs["a"].data(), i, 0);
    store_float(Float64, inputs["b"].data(), i, 2.5);
  }
  expect(program, inputs, 0, 0);
}

}  // namespace
}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
// Tests that the interpreter, the emitted C and the object code agree on kernels written by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "codegen/cpu_codegen.h"
#include "codegen/inspect.h"
#include "schedules/program/legality.h"
#include "tests/codegen/kernels.h"
#include "tests/codegen/runs.h"
#include "tests/isa_targets.h"
#include "tests/schedules/random_bulk_product.h"

namespace tw::codegen {
namespace {

TEST(Agreement, BlockedGemm) {
  for (const int64_t block_size : {5, 8, 20}) {
    const Program program = blocked_gemm(12, 64, 13, block_size);
    expect_agreement(program, integer_inputs(program, 1));
  }
}

TEST(Agreement, BulkCopiesAreLoops) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    const Program program = schedules::random_bulk_product(random).schedule.program().value();
    expect_agreement(program, integer_inputs(program, seed));
  }
}

TEST(Agreement, RealValuesWithinRounding) {
  const Program program = blocked_gemm(6, 32, 29, 8);
  expect_agreement(program, real_inputs(program, 2), 1e-5, 1e-5);
}

/// Returns the product c = a b by dot products of `depth` neighbouring terms, in tiles of 3 rows
/// and two vectors of columns. b is stored in blocks with the columns of a vector and `depth` terms
/// each. `factor` maps an element of b to the second factor. Sums are i32, or f32 if a is a float
/// type.
Program dot_products(
    DType a, DType b, int64_t depth, int64_t lanes,
    const std::function<Expr(const Expr&)>& factor = [](const Expr& element) { return element; },
    int64_t groups = 5) {
  const int64_t m = 6, columns = 2 * lanes;
  const DType wide = is_float(a) ? Float32 : Int32;
  const auto element = [&](DType type, const std::string& buffer, std::vector<Expr> indices) {
    return dsl::cast(wide, dsl::read(buffer, std::move(indices), type));
  };
  const Expr row = var("x") * 3 + var("i"), column = var("v") * lanes + var("n");
  const Stmt sum = assign("acc", {var("i"), var("v"), var("n")},
                          element(a, "a", {row, var("g") * depth + var("k")}) *
                              factor(element(b, "b", {var("v"), var("g"), var("n"), var("k")})),
                          Combine::Sum);
  const auto tile = [&](Block body) {
    return unrolled("i", 3, {unrolled("v", 2, {vector("n", lanes, std::move(body))})});
  };
  const std::vector<Expr> own = {var("i"), var("v"), var("n")};
  return single_phase(
      {argument("a", a, {m, groups * depth}, false),
       argument("b", b, {2, groups, lanes, depth}, false), argument("c", wide, {m, columns}, true)},
      {{"x", m / 3}},
      {allocate("acc", wide, {3, 2, lanes}, Scope::Register,
                {tile({assign("acc", own, dsl::cast(wide, dsl::constant_int(Int32, 0)))}),
                 serial("g", groups, {tile({vector("k", depth, {sum})})}),
                 tile({assign("c", {row, column}, dsl::read("acc", own, wide))})})});
}

TEST(Agreement, DotProducts) {
  for (const DType a : {Int8, UInt8, Int16, UInt16, Int32})
    for (const DType b : {Int8, UInt8, Int16})
      for (const int64_t depth : {2, 3, 4}) {
        // 8 lanes are whole vectors; 5 lanes are not.
        const int64_t lanes = depth == 3 || b == Int16 ? 5 : 8;
        const Program program = dot_products(a, b, depth, lanes);
        ASSERT_TRUE(schedules::check_legal(program, {})) << to_string(program);
        expect_agreement(program, integer_inputs(program, 1));
        expect_agreement(program, extreme_inputs(program));
      }
}

TEST(Agreement, DotProductsOfFloats) {
  for (const int64_t lanes : {5, 8, 16}) {
    const Program program = dot_products(BFloat16, BFloat16, 2, lanes);
    ASSERT_TRUE(schedules::check_legal(program, {})) << to_string(program);
    expect_agreement(program, integer_inputs(program, 1));
    expect_agreement(program, real_inputs(program, 2), 1e-5, 1e-5);
  }
}

/// Returns a function from an element to its digit of `bits` bits, the lowest of which is bit
/// `shift`.
std::function<Expr(const Expr&)> digit_at(const Expr& shift, int bits) {
  return [=](const Expr& element) {
    return element >> dsl::cast(Int32, shift) & dsl::constant_int(Int32, (1 << bits) - 1);
  };
}

TEST(Agreement, DotProductsOfDigits) {
  const auto expect_digits = [](const Program& program) {
    ASSERT_TRUE(schedules::check_legal(program, {})) << to_string(program);
    expect_agreement(program, integer_inputs(program, 1));
    expect_agreement(program, extreme_inputs(program));
  };
  const Expr in_turns = var("g") % 2 * 4, beyond = var("g") * 4;
  for (const DType a : {Int8, UInt8}) {
    for (const Expr& shift : {Expr(0), Expr(4), in_turns, beyond})
      expect_digits(dot_products(a, UInt8, 4, 8, digit_at(shift, 4)));
    expect_digits(dot_products(a, UInt8, 4, 8, digit_at(0, 7)));
    expect_digits(dot_products(a, UInt8, 4, 5, digit_at(0, 8)));
  }
  expect_digits(dot_products(Int16, UInt8, 2, 8, digit_at(4, 4)));
  expect_digits(dot_products(Int8, UInt8, 4, 5, digit_at(4, 4)));
  // The shift fits into 8 bits, but g, from which it is computed, does not.
  expect_digits(dot_products(Int8, UInt8, 4, 8, digit_at(var("g") / 300 * 4, 4), 600));
}

std::string instructions_of(const Program& program, const std::string& target) {
  const Target compiled_for = parse_target(target).value();
  const NamedProgram named{"k", &program};
  const auto compiled = compile_cpu({&named, 1}, compiled_for);
  if (!compiled) throw std::runtime_error(compiled.error().message);
  return disassemble(compiled->object, compiled_for).value();
}

TEST(Agreement, DotProductsAreInstructions) {
  const auto instructions = [](const std::string& target, DType a, DType b, int64_t depth) {
    return instructions_of(dot_products(a, b, depth, target == "x86-64-v3" ? 8 : 16), target);
  };
  using testing::HasSubstr, testing::Not;
  const std::string avx2 = instructions("x86-64-v3", UInt8, Int8, 2);
  EXPECT_THAT(avx2, HasSubstr("vpmaddwd"));
  EXPECT_THAT(avx2, Not(HasSubstr("vpmulld")));
  const std::string zen4 = target_text_of_isa("avx512_bf16");
  EXPECT_THAT(instructions(zen4, UInt8, Int8, 4), HasSubstr("vpdpbusd"));
  EXPECT_THAT(instructions(zen4, Int8, Int8, 2), HasSubstr("vpdpwssd"));
  const std::string floats = instructions(zen4, BFloat16, BFloat16, 2);
  EXPECT_THAT(floats, HasSubstr("vdpbf16ps"));
  EXPECT_THAT(floats, Not(HasSubstr("vfmadd")));
  EXPECT_THAT(instructions("x86-64-v3", BFloat16, BFloat16, 2), HasSubstr("vfmadd"));
}

TEST(Agreement, DotProductsOfSapphireRapidsAreInstructions) {
  using testing::HasSubstr;
  const std::string target = target_text_of_isa("amx");
  EXPECT_THAT(instructions_of(dot_products(UInt8, Int8, 4, 16), target), HasSubstr("vpdpbusd"));
  EXPECT_THAT(instructions_of(dot_products(BFloat16, BFloat16, 2, 16), target),
              HasSubstr("vdpbf16ps"));
}

TEST(Agreement, DotProductsOfDigitsAreInstructions) {
  using testing::HasSubstr, testing::Not;
  const Program program = dot_products(Int8, UInt8, 4, 8, digit_at(4, 4));
  for (const char* target : {"x86-64-linux-sse4_1", "x86-64-v3", "x86-64-v4"}) {
    const std::string code = instructions_of(program, target);
    EXPECT_THAT(code, HasSubstr("pmaddubsw")) << target;
    EXPECT_THAT(code, HasSubstr("pmaddwd")) << target;
    EXPECT_THAT(code, Not(HasSubstr("pmulld"))) << target;
  }
  const std::string zen4 = target_text_of_isa("avx512_bf16");
  EXPECT_THAT(instructions_of(program, zen4), HasSubstr("vpdpbusd"));
  EXPECT_THAT(instructions_of(program, "arm-64-linux-asimddp"), HasSubstr("sdot"));
  // For three of the five values of g, the shift g * 4 is not below the 8 bits of an element.
  EXPECT_THAT(
      instructions_of(dot_products(Int8, UInt8, 4, 8, digit_at(var("g") * 4, 4)), "x86-64-v3"),
      Not(HasSubstr("vpmaddubsw")));
}

TEST(Agreement, DotProductsRunOnArm) {
  for (const Program& program : {dot_products(Int8, Int8, 4, 8), dot_products(UInt8, UInt8, 4, 8),
                                 dot_products(Int8, UInt8, 4, 8, digit_at(4, 4))})
    for (const Storage& inputs : {integer_inputs(program, 1), extreme_inputs(program)}) {
      Storage expected = inputs;
      ASSERT_TRUE(schedules::evaluate(program, expected));
      const auto actual = run_arm(program, inputs, "arm-64-linux-asimddp");
      if (!actual && actual.error().message.find("cannot be started") != std::string::npos)
        GTEST_SKIP() << "[SKIP] " << actual.error().message;
      ASSERT_TRUE(actual) << actual.error().message;
      EXPECT_EQ(difference(program, expected, *actual, 0, 0), "");
    }
  EXPECT_THAT(instructions_of(dot_products(Int8, Int8, 4, 8), "arm-64-linux-asimddp"),
              testing::HasSubstr("sdot"));
  EXPECT_THAT(instructions_of(dot_products(UInt8, UInt8, 4, 8), "arm-64-linux-asimddp"),
              testing::HasSubstr("udot"));
}

TEST(Agreement, GuardedTails) {
  for (const int64_t n : {1, 15, 16, 17, 37}) {
    const Program program = guarded_tail(n);
    expect_agreement(program, integer_inputs(program, 3));
  }
}

TEST(Agreement, Fault78_PartialVectors) {
  for (const DType type : {Float32, Float64, UInt8, BFloat16})
    for (const int64_t step : {1, 3})
      for (const int64_t n : {1, 16, 37}) {
        const Program program = partial_sums(n, step, type);
        expect_agreement(program, integer_inputs(program, 3));
      }
}

TEST(Agreement, PaddingBySelect) {
  for (const DType type : {Float32, Float64, BFloat16, Float16, Int32, Int8, UInt8}) {
    const Program program = padded_row_conv(3, 7, type);
    expect_agreement(program, integer_inputs(program, 4));
  }
}

TEST(Agreement, PhasesShareScratch) {
  const Program program = subtract_mean(5, 8);
  expect_agreement(program, integer_inputs(program, 5), 1e-6, 1e-6);
}

TEST(Agreement, DataDependentIndices) {
  for (const DType type : {Int32, Int64, Int8}) {
    const Program program = gather(19, 3, type);
    expect_agreement(program, integer_inputs(program, 6));
  }
}

TEST(Agreement, MaximumFromMinusInfinity) {
  const Program program = max_pool(13);
  expect_agreement(program, integer_inputs(program, 7));
}

TEST(Agreement, LocalBufferOfManyPages) {
  const Program program = large_local(96);
  expect_agreement(program, integer_inputs(program, 8));
}

TEST(Agreement, DirectConv) {
  const Program program = direct_conv(32, 32, 3, 14, 2, 7);
  expect_agreement(program, integer_inputs(program, 9));
}

TEST(Agreement, PlainTargetWithoutVectorExtensions) {
  const auto plain = parse_target("x86-64-linux");
  ASSERT_TRUE(plain);
  for (const Program& program : {direct_conv(16, 16, 2, 4, 1, 4), padded_row_conv(3, 7, BFloat16),
                                 padded_row_conv(3, 7, Float16), guarded_tail(37)}) {
    const Storage inputs = integer_inputs(program, 10);
    Storage expected = inputs;
    ASSERT_TRUE(schedules::evaluate(program, expected));
    const auto actual = run_object(program, inputs, *plain);
    ASSERT_TRUE(actual) << actual.error().message;
    EXPECT_EQ(difference(program, expected, *actual, 0, 0), "");
  }
}

}  // namespace
}  // namespace tw::codegen

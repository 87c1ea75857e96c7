// SPDX-License-Identifier: Apache-2.0
#include "dsl/expr.h"

#include <gtest/gtest.h>

#include <limits>

namespace tw::dsl {
namespace {

const Expr x = var("x"), y = var("y");

TEST(Expr, PrintsWithTheFewestParentheses) {
  EXPECT_EQ(to_string(x + y * 2), "x + y * 2");
  EXPECT_EQ(to_string((x + y) * 2), "(x + y) * 2");
  EXPECT_EQ(to_string(x - (y - 1)), "x - (y - 1)");
  EXPECT_EQ(to_string(x - y - 1), "x - y - 1");
  EXPECT_EQ(to_string(x / 2 % 3), "x / 2 % 3");
  EXPECT_EQ(to_string(min(x, y) + max(x, 3)), "min(x, y) + max(x, 3)");
  EXPECT_EQ(to_string(x >= 1 && x < 8), "1 <= x && x < 8");
  EXPECT_EQ(to_string((x < 1 || y < 2) && !(x < y)), "(x < 1 || y < 2) && not(x < y)");
  EXPECT_EQ(to_string(select(x < 1, read("a", {x - 1}, Float32), constant(Float32, 0))),
            "select(x < 1, a[x - 1], 0.0)");
}

TEST(Expr, PrintsBitsBetweenComparisonsAndSums) {
  const Expr a = read("a", {x}, UInt8), b = read("b", {x}, UInt8);
  EXPECT_EQ(to_string((a >> 4) & 15), "a[x] >> 4u8 & 15u8");
  EXPECT_EQ(to_string(a >> (b & 7)), "a[x] >> (b[x] & 7u8)");
  EXPECT_EQ(to_string((a + b) << 1), "a[x] + b[x] << 1u8");
  EXPECT_EQ(to_string(a + (b << 1)), "a[x] + (b[x] << 1u8)");
  EXPECT_EQ(to_string((a | b) ^ (a & b)), "(a[x] | b[x]) ^ a[x] & b[x]");
  EXPECT_EQ(to_string((a & b) < (a | b)), "a[x] & b[x] < a[x] | b[x]");
  EXPECT_EQ(to_string(a & dsl::cast(UInt8, a < b)), "a[x] & u8(a[x] < b[x])");
}

TEST(Expr, BitsOfLiteralsFold) {
  EXPECT_TRUE(is_int(Expr(-9) >> 1, -5));
  EXPECT_TRUE(is_int(Expr(1) << 65, 2));
  EXPECT_TRUE(is_int(Expr(1) >> -63, 0));
  EXPECT_TRUE(is_int(constant_int(UInt8, 200) << constant_int(UInt8, 1), 144));
  EXPECT_TRUE(is_int(constant_int(Int8, 1) << constant_int(Int8, 7), -128));
  EXPECT_TRUE(is_int(constant_int(Int8, -128) >> constant_int(Int8, -1), -1));
  EXPECT_TRUE(is_int(constant_int(Int32, 1) << constant_int(Int32, 33), 2));
  EXPECT_TRUE(is_int(Expr(12) & 10, 8));
  EXPECT_TRUE(is_int(Expr(12) | 3, 15));
  EXPECT_TRUE(is_int(Expr(12) ^ -1, -13));
  const Expr a = read("a", {x}, Int32);
  EXPECT_TRUE(equal(a >> 0, a));
  EXPECT_TRUE(equal(a | 0, a));
  EXPECT_TRUE(equal(a & a, a));
  EXPECT_TRUE(is_int(a ^ a, 0));
  EXPECT_EQ(to_string(a & 15), "a[x] & 15i32");
}

// Shifts and masks of indices become divisions and remainders, which the analyses of indices
// understand.
TEST(Expr, ShiftsAndMasksOfIndicesAreArithmetic) {
  EXPECT_EQ(to_string(x >> 3), "x / 8");
  EXPECT_EQ(to_string(x << 2), "x * 4");
  EXPECT_EQ(to_string(x & 7), "x % 8");
  EXPECT_EQ(to_string(Expr(1) & x), "x % 2");
  EXPECT_EQ(to_string(x & 5), "x & 5");
  EXPECT_EQ(to_string(x << 63), "x << 63");
  EXPECT_EQ(to_string(x & -8), "x & -8");
  EXPECT_EQ(to_string(x & ((int64_t{1} << 62) - 1)), "x % 4611686018427387904");
  EXPECT_EQ(to_string(x & std::numeric_limits<int64_t>::max()), "x & 9223372036854775807");
}

TEST(Expr, PrintsConstantsInTheirTypes) {
  EXPECT_EQ(to_string(constant(Float32, 0.1)), "0.1");
  EXPECT_EQ(to_string(constant(Float32, -0.0)), "-0.0");
  EXPECT_EQ(to_string(constant(Float16, 2)), "2.0f16");
  EXPECT_EQ(to_string(constant(BFloat16, std::numeric_limits<double>::infinity())), "infbf16");
  EXPECT_EQ(to_string(constant(Float64, 0.1)), "0.1f64");
  EXPECT_EQ(to_string(constant(Float64, 0.1f)), "0.10000000149011612f64");
  EXPECT_EQ(to_string(constant(Float64, 3)), "3.0f64");
  EXPECT_EQ(to_string(constant(Float64, -std::numeric_limits<double>::infinity())), "-inff64");
  EXPECT_EQ(to_string(constant_int(UInt8, 255)), "255u8");
  EXPECT_EQ(to_string(constant_int(Bool, 1)), "true");
  EXPECT_EQ(to_string(Expr(-3)), "-3");
}

TEST(Expr, FoldsIntegersAndTheirNeutralElements) {
  EXPECT_TRUE(is_int(Expr(7) / 2, 3));
  EXPECT_TRUE(is_int(Expr(-7) / 2, -4));
  EXPECT_TRUE(is_int(Expr(-7) % 4, 1));
  EXPECT_TRUE(equal(x * 1 + 0, x));
  EXPECT_TRUE(is_int(x * 0, 0));
  EXPECT_TRUE(is_int(x - x, 0));
  EXPECT_TRUE(is_int(x % 1, 0));
  EXPECT_TRUE(equal(constant_int(Bool, 1) && x < y, x < y));
}

TEST(Expr, NeverFoldsAFloatThatMayBeNan) {
  const Expr a = read("a", {x}, Float32);
  EXPECT_EQ(to_string(a * 0), "a[x] * 0.0");
  EXPECT_EQ(to_string(a - a), "a[x] - a[x]");
}

TEST(Expr, FoldingAtTheEndsOfTheIntegersDoesNotTrap) {
  const Expr least(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(to_string(least / -1), "-9223372036854775808 / -1");
  EXPECT_EQ(to_string(Expr(1) / 0), "1 / 0");
  EXPECT_EQ(to_string(Expr(1) % 0), "1 % 0");
  EXPECT_EQ(to_string(Expr(7) / -2), "7 / -2");
  EXPECT_EQ(to_string(Expr(0) - least), "0 - -9223372036854775808");
  EXPECT_EQ(to_string(-least), "neg(-9223372036854775808)");
}

TEST(Expr, EqualsByStructure) {
  EXPECT_TRUE(equal(x + y, x + y));
  EXPECT_FALSE(equal(x + y, y + x));
  EXPECT_FALSE(equal(constant(Float32, 0.0), constant(Float32, -0.0)));
  EXPECT_EQ((x + y).hash(), (x + y).hash());
}

TEST(Expr, SubstitutesAndFolds) {
  const Expr e = read("a", {x * 4 + y}, Float32);
  EXPECT_EQ(to_string(substitute(e, {{"x", Expr(2)}, {"y", var("z") - 8}})), "a[8 + (z - 8)]");
  EXPECT_TRUE(uses_var(e, "y"));
  EXPECT_FALSE(uses_var(e, "z"));
  EXPECT_TRUE(substitute(e, {{"q", Expr(1)}}).same_node(e));
}

TEST(Expr, TransformRewritesBottomUp) {
  const Expr e = transform(x + (x + 1), [](const Expr& node) -> std::optional<Expr> {
    if (node.as<Var>()) return Expr(3);
    return std::nullopt;
  });
  EXPECT_TRUE(is_int(e, 7));
}

TEST(Expr, TypeErrorsNameTheOperation) {
  EXPECT_EQ(type_error(UnaryOp::Exp, Int32), "'exp' needs a float, not i32");
  EXPECT_EQ(type_error(BinaryOp::And, Float32), "'&&' needs bools, not f32");
  EXPECT_EQ(type_error(BinaryOp::Mod, Float32), "'%' needs integers, not f32");
  EXPECT_EQ(type_error(BinaryOp::Shr, Float32), "'>>' needs integers, not f32");
  EXPECT_EQ(type_error(BinaryOp::BitAnd, Bool), "'&' needs integers, not bool");
  EXPECT_EQ(type_error(BinaryOp::Add, Float16), std::nullopt);
}

TEST(Expr, SizeCountsTheTreeAsItIsWritten) {
  const Expr x = var("x"), sum = x + 1;
  EXPECT_EQ(x.node().size, 1);
  EXPECT_EQ(sum.node().size, 3);
  EXPECT_EQ((sum * sum).node().size, 7);
  EXPECT_EQ(read("t", {sum, x}, Float32).node().size, 5);
  EXPECT_EQ(select(x < 1, sum, x).node().size, 8);
}

}  // namespace
}  // namespace tw::dsl

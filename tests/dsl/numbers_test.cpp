// SPDX-License-Identifier: Apache-2.0
// Tests of C++ numbers in declarations, as operands beside expressions and as sizes of axes. The
// test is compiled with -Wconversion and -Wsign-conversion as errors (CMakeLists.txt), because
// programs that use the headers may be compiled with them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "dsl/compute.h"

namespace tw::dsl {
namespace {

using ::testing::HasSubstr;

const Axis m("m", 8), n("n", 4);
const Expr f = read("f", {m}, Float32), d = read("d", {m}, Float64), h = read("h", {m}, Float16);
const Expr b = read("b", {m}, UInt8);

TEST(Numbers, StandOnEitherSideOfAnOperator) {
  EXPECT_EQ(to_string(f * 0.5f), "f[m] * 0.5");
  EXPECT_EQ(to_string(0.5f * f), "0.5 * f[m]");
  EXPECT_EQ(to_string(2 * f), "2.0 * f[m]");
  EXPECT_EQ(to_string(f + 1), "f[m] + 1.0");
  EXPECT_EQ(to_string(1.0f - f), "1.0 - f[m]");
  EXPECT_EQ(to_string(1.0 / f), "1.0 / f[m]");
  EXPECT_EQ(to_string(f / 3u), "f[m] / 3.0");
  EXPECT_EQ(to_string(f > 0.0), "0.0 < f[m]");
  EXPECT_EQ(to_string(1 <= f), "1.0 <= f[m]");
  EXPECT_EQ(to_string(1e-5 + f), "1e-05 + f[m]");
}

TEST(Numbers, TakeTheTypeOfTheExpression) {
  for (const Expr& e : {f * 0.5f, f * 0.5, 2 * f, f + std::size_t{1}})
    EXPECT_EQ(e.type(), Float32) << to_string(e);
  for (const Expr& e : {d * 0.5f, d * 0.5, 2 * d, d + 1}) EXPECT_EQ(e.type(), Float64);
  EXPECT_EQ((h * 0.5).type(), Float16);
  EXPECT_EQ(to_string(b + 1), "b[m] + 1u8");
  EXPECT_EQ(to_string(std::int64_t{3} * b), "3u8 * b[m]");
  EXPECT_EQ(to_string(b + 257), "b[m] + 1u8");  // wraps
  EXPECT_EQ(to_string(b << 1u), "b[m] << 1u8");
  EXPECT_EQ(to_string(m + std::size_t{1}), "m + 1");
  EXPECT_EQ(to_string(std::size_t{7} - m), "7 - m");
  EXPECT_EQ(to_string(d * (std::uint64_t{1} << 63)), "d[m] * 9.223372036854776e+18f64");
}

TEST(Numbers, KeepTheirDigitsBesideADouble) {
  EXPECT_EQ(to_string(d * 0.1), "d[m] * 0.1f64");
  EXPECT_EQ(to_string(d * 0.1f), "d[m] * 0.10000000149011612f64");
  EXPECT_EQ(to_string(f * 0.1), "f[m] * 0.1");
}

TEST(Numbers, AreOperandsOfFunctions) {
  EXPECT_EQ(to_string(max(f, 0.0f)), "max(f[m], 0.0)");
  EXPECT_EQ(to_string(min(6, f)), "min(6.0, f[m])");
  EXPECT_EQ(to_string(clamp(d, 0, 0.1)), "max(min(d[m], 0.1f64), 0.0f64)");
  EXPECT_EQ(to_string(clamp(m + 1, 0, n)), "max(min(m + 1, n), 0)");
  EXPECT_EQ(to_string(pow(f, 2.5)), "pow(f[m], 2.5)");
  EXPECT_EQ(to_string(eq(b, 3)), "b[m] == 3u8");
  EXPECT_EQ(to_string(ne(0.5, f)), "0.5 != f[m]");
  EXPECT_EQ(to_string(select(m < 3, d, 0.1)), "select(m < 3, d[m], 0.1f64)");
  EXPECT_EQ(to_string(select(m < 3, 0, b)), "select(m < 3, 0u8, b[m])");
  EXPECT_EQ(to_string(select(m < 3, 1, 0.5)), "select(m < 3, 1.0, 0.5)");
  EXPECT_EQ(to_string(select(m < 3, std::uint64_t{1} << 20, 0.5)), "select(m < 3, 1048576.0, 0.5)");
  EXPECT_EQ(select(m < 3, std::uint64_t{1} << 63, 0.5).as<Select>()->a.as<Const>()->float_value,
            0x1p63);
  EXPECT_EQ(select(m < 3, 1, 2).type(), Int64);
}

TEST(Numbers, AloneAreFloat32OrInt64) {
  EXPECT_EQ(Expr(0.5).type(), Float32);
  EXPECT_EQ(Expr(0.5f).type(), Float32);
  EXPECT_EQ(Expr(2u).type(), Int64);
  EXPECT_EQ(Expr(std::size_t{2}).type(), Int64);
  const Compute halves = *build(compute("halves", {m}, 0.5f));
  EXPECT_EQ(halves.stages[0].type, Float32);
}

TEST(Numbers, IndexTensors) {
  const Tensor a = input("a", Float32, {m, n});
  const std::size_t row = 3;
  EXPECT_EQ(to_string(a(row, n)), "a[3, n]");
  EXPECT_EQ(to_string(a(m, 2u)), "a[m, 2]");
  static_assert(!std::is_invocable_v<const Tensor&, Axis, float>);
}

TEST(Numbers, BesideAnIntegerOfOtherTypeEndTheProcess) {
  EXPECT_DEATH(b * 0.5f, "one type does not hold in .\\*. of u8 and f32: cast");
}

template <typename Size>
void expect_extent(Size size) {
  const Axis i("i", size);
  EXPECT_EQ(i.extent, static_cast<std::int64_t>(size));
  const Compute doubled = *build(compute("out", {i}, input("in", Float32, {i})(i) * 2));
  EXPECT_EQ(doubled.shape_of("in"), std::vector<std::int64_t>{static_cast<std::int64_t>(size)});
}

TEST(Numbers, SizesOfAxesAreOfAnyIntegerType) {
  expect_extent(std::size_t{64});
  expect_extent(std::int64_t{64});
  expect_extent(64);
  expect_extent(64u);
  expect_extent(64l);
  expect_extent(64ll);
  expect_extent(64ull);
  expect_extent(short{64});
  expect_extent(static_cast<unsigned char>(200));
  expect_extent(std::size_t{std::numeric_limits<std::int64_t>::max()} / 8);
  expect_extent(0u);
}

std::string error_of_size(const Axis& i) {
  const auto built = build(compute("out", {i}, input("in", Int8, {i})(i) * 2));
  return built ? "ok" : built.error().message;
}

TEST(Numbers, SizesThatInt64DoesNotHoldAreRefused) {
  EXPECT_THAT(error_of_size(Axis("i", std::numeric_limits<std::size_t>::max())),
              HasSubstr("extent overflow: axis 'i' of 'in' leaves 64 bits"));
  EXPECT_THAT(error_of_size(Axis("i", std::uint64_t{1} << 63)), HasSubstr("extent overflow"));
  EXPECT_THAT(error_of_size(Axis("i", -2)), HasSubstr("an extent of -2, expected 0 or more"));
  EXPECT_THAT(error_of_size(Axis("i", std::int8_t{-1})), HasSubstr("has no extent"));
  const Axis huge("i", std::numeric_limits<std::size_t>::max());
  EXPECT_FALSE(build(compute("out", {huge}, Expr(huge)), {{huge, 4}}));  // it is not unbound
}

}  // namespace
}  // namespace tw::dsl

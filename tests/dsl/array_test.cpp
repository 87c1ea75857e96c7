// SPDX-License-Identifier: Apache-2.0
#include "dsl/array.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tw::dsl {
namespace {

TEST(Array, SetsAndGetsEveryType) {
  for (const DType type : {Float32, Float64, Float16, BFloat16, Int8, UInt8, Int32, Int64, Bool}) {
    Array array = *Array::make(type, {2, 3});
    array.set({1, 2}, 1);
    EXPECT_EQ(array.get({1, 2}), 1) << to_string(type);
    EXPECT_EQ(array.get({0, 0}), 0) << to_string(type);
    EXPECT_EQ(array.size(), 6);
    EXPECT_EQ(array.offset({1, 2}), 5);
  }
}

TEST(Array, Fault05_ExtentOverflowIsAnErrorBeforeAllocation) {
  const auto array = Array::make(Float32, {int64_t{1} << 40, int64_t{1} << 40});
  ASSERT_FALSE(array);
  EXPECT_EQ(array.error().code, ErrorCode::Unsupported);
  EXPECT_NE(array.error().message.find("extent overflow"), std::string::npos);
  EXPECT_FALSE(Array::make(Int64, {int64_t{1} << 61}));  // the elements fit, the bytes do not
  EXPECT_FALSE(Array::make(Float32, {-1}));
}

TEST(Array, FillsAreReproducibleAndInRange) {
  for (const DType type : {Float32, Float64, BFloat16, Int8, UInt8, Bool}) {
    Array a = *Array::make(type, {1000}), b = a;
    Random first(7), second(7);
    fill_integers(a, first);
    fill_integers(b, second);
    EXPECT_EQ(a.data, b.data);
    double least = 9, largest = -9;
    for (int64_t i = 0; i < a.size(); ++i) {
      least = std::min(least, a.get_float(i));
      largest = std::max(largest, a.get_float(i));
    }
    EXPECT_EQ(least, type == UInt8 || type == Bool ? 0 : -4);
    EXPECT_EQ(largest, type == Bool ? 1 : 4);
  }
}

TEST(Array, NormalFillHasMeanZeroAndVarianceOne) {
  Array a = *Array::make(Float32, {20000});
  Random random(1);
  fill_normal(a, random);
  double total = 0, squares = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    total += a.get_float(i);
    squares += a.get_float(i) * a.get_float(i);
  }
  EXPECT_NEAR(total / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.05);
}

TEST(Array, Fault08_SpecialFillHasEveryKind) {
  for (const DType type : {Float32, Float64, Float16, BFloat16}) {
    Array a = *Array::make(type, {4000});
    Random random(3);
    fill_special(a, random);
    int nans = 0, plus = 0, minus = 0, denormals = 0, zeros = 0;
    for (int64_t i = 0; i < a.size(); ++i) {
      const double v = a.get_float(i);
      nans += std::isnan(v);
      plus += std::isinf(v) && v > 0;
      minus += std::isinf(v) && v < 0;
      denormals += v != 0 && std::fabs(v) < (type == Float16 ? 0x1p-14 : 0x1p-126);
      zeros += v == 0 && std::signbit(v);
    }
    for (const int count : {nans, plus, minus, denormals, zeros})
      EXPECT_GT(count, 20) << to_string(type);
  }
}

}  // namespace
}  // namespace tw::dsl

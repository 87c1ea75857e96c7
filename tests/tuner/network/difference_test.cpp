// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/difference.h"

#include <gtest/gtest.h>

#include <limits>

namespace tw::tuner {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

dsl::Array array_of(const std::vector<double>& values) {
  dsl::Array array = dsl::Array::make(Float32, {std::ssize(values)}).value();
  for (size_t i = 0; i < values.size(); ++i) array.set_float(static_cast<int64_t>(i), values[i]);
  return array;
}

double difference(const std::vector<double>& values, const std::vector<double>& expected) {
  return largest_difference({array_of(values)}, {array_of(expected)});
}

TEST(LargestDifference, IsRelativeToTheLargestElementOfAnOutput) {
  EXPECT_EQ(difference({1, -8, 2}, {1, -8, 2}), 0);
  EXPECT_EQ(difference({1, -8, 2}, {1, -8, 4}), 0.25);
  const double of_two =
      largest_difference({array_of({1, 2}), array_of({100})}, {array_of({1, 2}), array_of({200})});
  EXPECT_EQ(of_two, 0.5);
}

TEST(LargestDifference, IsOfIntegersToo) {
  dsl::Array found = dsl::Array::make(Int64, {1}).value(), expected = found;
  found.set_int(0, 3);
  expected.set_int(0, 4);
  EXPECT_EQ(largest_difference({found}, {expected}), 0.25);
}

TEST(LargestDifference, IsInfiniteWhereOneElementIsNotFinite) {
  for (const double lost : {nan, infinity, -infinity}) {
    EXPECT_EQ(difference({1, lost}, {1, 2}), infinity) << lost;
    EXPECT_EQ(difference({1, 2}, {1, lost}), infinity) << lost;
    EXPECT_EQ(difference({1, lost}, {1, lost}), 0) << lost;
  }
  EXPECT_EQ(difference({infinity, 1}, {-infinity, 1}), infinity);
  EXPECT_EQ(difference({nan, 1}, {infinity, 1}), infinity);
  EXPECT_EQ(difference({1e-9}, {0}), infinity);
}

}  // namespace
}  // namespace tw::tuner

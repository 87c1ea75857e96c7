// SPDX-License-Identifier: Apache-2.0
// What verification compares and how; broken_kernels_test.cpp tells whether that is enough.
#include "tuner/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

dsl::Array array_of(DType type, std::vector<double> values) {
  auto array = dsl::Array::make(type, {static_cast<int64_t>(values.size())}).value();
  for (size_t i = 0; i < values.size(); ++i) array.set({static_cast<int64_t>(i)}, values[i]);
  return array;
}

TEST(RelativeError, IsMeasuredAgainstTheLargestElement) {
  const dsl::Array expected = array_of(Float32, {100, 1, -200});
  EXPECT_EQ(relative_error(expected, expected), 0);
  EXPECT_DOUBLE_EQ(relative_error(array_of(Float32, {100, 2, -200}), expected), 1.0 / 200);
  EXPECT_DOUBLE_EQ(relative_error(array_of(Float32, {100, 1, 200}), expected), 2);
}

TEST(RelativeError, Fault08_WhatIsNotANumberEqualsOnlyItself) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  const dsl::Array special = array_of(Float32, {nan, inf, 1});
  EXPECT_EQ(relative_error(special, special), 0);
  EXPECT_EQ(relative_error(array_of(Float32, {0, inf, 1}), special), inf);
  EXPECT_EQ(relative_error(array_of(Float32, {nan, -inf, 1}), special), inf);
  EXPECT_EQ(relative_error(array_of(Float32, {nan, inf, nan}), special), inf);
}

TEST(RelativeError, WhereAllIsZeroNothingElseIsAllowed) {
  const dsl::Array zeros = array_of(Float32, {0, 0});
  EXPECT_EQ(relative_error(array_of(Float32, {0, -0.0}), zeros), 0);
  EXPECT_GT(relative_error(array_of(Float32, {0, 1e-30}), zeros), 1);
}

TEST(Tolerance, FollowsTypesAndTheAccuracyClass) {
  const auto of = [](const char* key) { return tolerance_of(workload_of(key)); };
  EXPECT_EQ(of("dense m=2 n=2 k=2 i8 fast"), 0);
  EXPECT_LT(of("dense m=2 n=2 k=2 f32 strict"), of("dense m=2 n=2 k=2 f32 fast"));
  EXPECT_LT(of("dense m=2 n=2 k=2 f32 fast"), of("dense m=2 n=2 k=2 f16 fast"));
  EXPECT_LT(of("dense m=2 n=2 k=2 f16 fast"), of("dense m=2 n=2 k=2 bf16 fast"));
}

TEST(Compare, TellsTheErrorOfTheWorstOutput) {
  Reference reference;
  reference.normal.allowed = {{"a", 1e-3}, {"b", 1e-3}};
  reference.normal.outputs = {{"a", array_of(Float32, {1, 2})}, {"b", array_of(Float32, {4})}};
  dsl::Arrays outputs = reference.normal.outputs;
  EXPECT_EQ(compare(outputs, reference).status, db::TrialStatus::Ok);
  outputs["b"] = array_of(Float32, {4.001});
  const Verdict close = compare(outputs, reference);
  EXPECT_EQ(close.status, db::TrialStatus::Ok);
  EXPECT_NEAR(close.error, 0.00025, 1e-6);
  outputs["a"] = array_of(Float32, {1, 2.1});
  const Verdict wrong = compare(outputs, reference);
  EXPECT_EQ(wrong.status, db::TrialStatus::Wrong);
  EXPECT_NE(wrong.reason.find("0.05"), std::string::npos) << wrong.reason;
}

}  // namespace
}  // namespace tw::tuner

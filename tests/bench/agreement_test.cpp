// SPDX-License-Identifier: Apache-2.0
#include "bench/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "dsl/random_inputs.h"

namespace tw::bench {
namespace {

using testing::HasSubstr;

dsl::Workload parsed(const std::string& text) {
  const auto compute = dsl::parse_compute(text);
  EXPECT_TRUE(compute) << compute.error().message;
  auto workload = dsl::workload(*compute);
  EXPECT_TRUE(workload);
  return *workload;
}

struct Case {
  dsl::Workload workload;
  dsl::Arrays inputs, exact;
};

Case make_case(const std::string& text) {
  Case c{parsed(text), {}, {}};
  c.inputs = *dsl::random_inputs(c.workload.compute, 7);
  c.exact = *dsl::interpret(c.workload.compute, c.inputs);
  return c;
}

constexpr const char* product = R"(
input a: f32[16, 32]
weight b: f32[32, 24]
c: f32[m=16, n=24] = sum(k=32) a[m, k] * b[k, n])";

TEST(Agreement, EqualResultsAgree) {
  const Case c = make_case(product);
  const auto agreement = check_agreement(c.workload, c.inputs, c.exact, c.exact, 100, 1);
  ASSERT_TRUE(agreement) << agreement.error().message;
  EXPECT_LT(agreement->ours, 1e-6);
  EXPECT_EQ(agreement->apart, 0);
}

TEST(Agreement, OneWrongElementIsFound) {
  const Case c = make_case(product);
  dsl::Arrays wrong = c.exact;
  wrong.at("c").set_float(200, wrong.at("c").get_float(200) + 0.01);
  const auto ours = check_agreement(c.workload, c.inputs, wrong, c.exact, 5, 1);
  ASSERT_FALSE(ours);
  EXPECT_EQ(ours.error().code, ErrorCode::Invalid);
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, c.exact, wrong, 5, 1));
}

TEST(Agreement, AllowsThePeerItsOwnRounding) {
  const Case c = make_case(product);
  dsl::Arrays rounded = c.exact;
  double largest = 0;
  for (int64_t i = 0; i < rounded.at("c").size(); ++i)
    largest = std::max(largest, std::abs(c.exact.at("c").get_float(i)));
  rounded.at("c").set_float(200, rounded.at("c").get_float(200) + 5e-4 * largest);
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, c.exact, rounded, 400, 1));
  EXPECT_TRUE(check_agreement(c.workload, c.inputs, c.exact, rounded, 400, 1, 1e-3));
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, c.exact, rounded, 400, 1, 1e-4));
  // The tolerance is for the peer only. Our kernel must round as the definition does.
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, rounded, c.exact, 400, 1, 1e-3));
}

// If both sides are wrong in the same way, the comparison with the interpreter shows it.
TEST(Agreement, SamplesAreComparedWithTheInterpreter) {
  const Case c = make_case(product);
  dsl::Arrays wrong = c.exact;
  for (int64_t i = 0; i < wrong.at("c").size(); ++i) wrong.at("c").set_float(i, 1);
  const auto agreement = check_agreement(c.workload, c.inputs, wrong, wrong, 20, 1);
  ASSERT_FALSE(agreement);
  EXPECT_THAT(agreement.error().message, HasSubstr("our kernel is wrong"));
}

TEST(Agreement, NotANumberIsNoAgreement) {
  const Case c = make_case(product);
  dsl::Arrays wrong = c.exact;
  wrong.at("c").set_float(3, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, wrong, c.exact, 1, 1));
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, c.exact, {}, 1, 1));
}

TEST(Agreement, IntegersRoundedFromFloatsMayDifferByOneSeldom) {
  const Case c = make_case(R"(
input a: f32[20000]
out: u8[i=20000] = u8(clamp(floor(a[i] * 40.0 + 128.0), 0, 255)))");
  dsl::Arrays one = c.exact, many = c.exact, far = c.exact;
  const auto bump = [&](dsl::Arrays& arrays, int64_t i, int by) {
    const int64_t value = c.exact.at("out").get_int(i);
    arrays.at("out").set_int(i, value > 128 ? value - by : value + by);
  };
  bump(one, 5, 1);
  for (int64_t i = 0; i < 50; ++i) bump(many, i, 1);
  bump(far, 5, 2);
  EXPECT_TRUE(check_agreement(c.workload, c.inputs, one, c.exact, 50, 1));
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, many, c.exact, 50, 1));
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, far, c.exact, 50, 1));
}

TEST(Agreement, IntegersAreExact) {
  const Case c = make_case("input a: i32[64]\nout: i32[i=64] = a[i] * 3");
  dsl::Arrays wrong = c.exact;
  wrong.at("out").set_int(9, wrong.at("out").get_int(9) + 1);
  EXPECT_TRUE(check_agreement(c.workload, c.inputs, c.exact, c.exact, 10, 1));
  EXPECT_FALSE(check_agreement(c.workload, c.inputs, wrong, c.exact, 10, 1));
}

}  // namespace
}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
// Interpreter, C and object code agree on kernels written by hand.

#include <gtest/gtest.h>

#include "tests/codegen/kernels.h"
#include "tests/codegen/runs.h"
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

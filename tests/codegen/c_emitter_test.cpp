// SPDX-License-Identifier: Apache-2.0
#include "codegen/c_emitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/abi.h"
#include "tests/codegen/kernels.h"
#include "tests/codegen/runs.h"

namespace tw::codegen {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string c_text_of(const Program& program) {
  const auto text = emit_c(program, "k");
  return text ? *text : text.error().message;
}

TEST(CEmitter, PrintsLoopsAsTheyAre) {
  const std::string text = c_text_of(blocked_gemm(12, 64, 13, 8));
  const std::string phase = text.substr(text.find("/* out"));
  EXPECT_EQ(phase, R"(/* out: 4 tasks */
TW_EXPORT int32_t k_p0(void* const* buffers, void* scratch, int32_t task) {
  const float* const a = (const float*)buffers[0];
  const float* const b = (const float*)buffers[1];
  float* const c = (float*)buffers[2];
  (void)scratch;
  const int32_t m_0 = task / 2;
  const int32_t n_0 = task % 2;
  for (int32_t k_0 = 0; k_0 < 2; ++k_0) {
    {
      TW_ALIGNED float acc[192];
      if (k_0 == 0) {
        for (int32_t m_1 = 0; m_1 < 6; ++m_1) {  /* unrolled */
          for (int32_t r = 0; r < 2; ++r) {  /* unrolled */
            for (int32_t v = 0; v < 16; ++v) {  /* vector */
              acc[(m_1 * 2 + r) * 16 + v] = 0.0f;
            }
          }
        }
      }
      if (1 <= k_0) {
        for (int32_t m_1 = 0; m_1 < 6; ++m_1) {  /* unrolled */
          for (int32_t r = 0; r < 2; ++r) {  /* unrolled */
            for (int32_t v = 0; v < 16; ++v) {  /* vector */
              acc[(m_1 * 2 + r) * 16 + v] = c[(m_0 * 6 + m_1) * 64 + n_0 * 32 + r * 16 + v];
            }
          }
        }
      }
      for (int32_t k_1 = 0; k_1 < (int32_t)tw_min(8, 13 - k_0 * 8); ++k_1) {
        for (int32_t m_1 = 0; m_1 < 6; ++m_1) {  /* unrolled */
          for (int32_t r = 0; r < 2; ++r) {  /* unrolled */
            for (int32_t v = 0; v < 16; ++v) {  /* vector */
              acc[(m_1 * 2 + r) * 16 + v] += a[(m_0 * 6 + m_1) * 13 + k_0 * 8 + k_1] * b[(k_0 * 8 + k_1) * 64 + n_0 * 32 + r * 16 + v];
            }
          }
        }
      }
      for (int32_t m_1 = 0; m_1 < 6; ++m_1) {  /* unrolled */
        for (int32_t r = 0; r < 2; ++r) {  /* unrolled */
          for (int32_t v = 0; v < 16; ++v) {  /* vector */
            c[(m_0 * 6 + m_1) * 64 + n_0 * 32 + r * 16 + v] = acc[(m_1 * 2 + r) * 16 + v];
          }
        }
      }
    }
  }
  return 0;
}
)");
}

TEST(CEmitter, CarriesOnlyTheFunctionsThatItUses) {
  EXPECT_THAT(c_text_of(guarded_tail(37)), Not(HasSubstr("tw_")));
  const std::string half = c_text_of(padded_row_conv(3, 7, BFloat16));
  EXPECT_THAT(half, HasSubstr("static inline float tw_from_bf16"));
  EXPECT_THAT(half, Not(HasSubstr("tw_from_f16")));
}

TEST(CEmitter, NamesNeverCollide) {
  const Expr i = var("for"), j = var("a.1");
  const Program program = single_phase(
      {argument("task", Float32, {4, 4}, false), argument("a_1", Float32, {4, 4}, true)}, {},
      {serial("for", 4, {serial("a.1", 4, {assign("a_1", {i, j}, f32("task", {i, j}))})})});
  expect_agreement(program, integer_inputs(program, 1));
}

TEST(CEmitter, NegativeOperandsDivideByFloor) {
  const Expr x = var("x");
  const Expr shifted = x - 5;
  const Program program =
      single_phase({argument("in", Float32, {8}, false), argument("quotient", Int64, {10}, true),
                    argument("modulo", Int64, {10}, true), argument("taken", Float32, {10}, true)},
                   {{"x", 10}},
                   {assign("quotient", {x}, shifted / 3), assign("modulo", {x}, shifted % 3),
                    assign("taken", {x}, f32("in", {(x / 3) + shifted % 4}))});
  EXPECT_THAT(c_text_of(program), HasSubstr("tw_floor_div(x - 5, 3)"));
  EXPECT_THAT(c_text_of(program), HasSubstr("x / 3"));
  expect_agreement(program, integer_inputs(program, 2));
}

TEST(CEmitter, LiteralsReadBackExactly) {
  Block body;
  Program program;
  const double values[] = {0.1,
                           1e-40,
                           3.4028234663852886e38,
                           -0.0,
                           16777216,
                           1.0 / 3,
                           std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i < std::size(values); ++i)
    body.push_back(
        assign("out", {Expr(static_cast<int64_t>(i))}, dsl::constant(Float32, values[i])));
  program = single_phase({argument("out", Float32, {int64_t{std::size(values)}}, true)}, {}, body);
  expect_agreement(program, {});
}

TEST(ScratchLayout, BuffersAreAlignedAndInOrder) {
  Program program;
  program.scratch = {{"a", Int8, {3}, Scope::Scratch},
                     {"b", Float32, {17}, Scope::Scratch},
                     {"c", Float32, {1}, Scope::Scratch}};
  const ScratchLayout layout = scratch_layout(program);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 64, 192}));
  EXPECT_EQ(layout.bytes, 256);
}

TEST(LinearIndex, OfALoopThatWasFusedIsTheLoop) {
  const schedules::Buffer b{"b", Float32, {5, 14, 28}, schedules::Scope::Argument};
  const Expr f = var("f");
  const Expr fused = linear_index(b, {f / 28 / 14, f / 28 % 14, f % 28});
  EXPECT_EQ(dsl::to_string(fused), "f");
  const Expr rows = linear_index(b, {f / 14, f % 14, var("x")});
  EXPECT_EQ(dsl::to_string(rows), "f * 28 + x");
  // Here quotient and remainder cannot be combined: they have different divisors, or different
  // variables.
  EXPECT_EQ(dsl::to_string(linear_index(b, {f / 13, f % 14, 0})), "(f / 13 * 14 + f % 14) * 28");
  EXPECT_EQ(dsl::to_string(linear_index(b, {f / 14, var("x") % 14, 0})),
            "(f / 14 * 14 + x % 14) * 28");
}

}  // namespace
}  // namespace tw::codegen

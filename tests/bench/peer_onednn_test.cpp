// SPDX-License-Identifier: Apache-2.0
// Tests that oneDNN's primitives compute our workloads, i.e. that layouts, groups, dilation and
// padding are mapped correctly.
#include <gtest/gtest.h>

#include <dnnl.hpp>

#include "base/isa.h"
#include "base/target.h"
#include "bench/agreement.h"
#include "bench/peers/peer.h"
#include "dsl/random_inputs.h"

namespace tw::bench {
namespace {

void expect_same(const std::string& key, int threads, int64_t rotated_bytes) {
  const auto workload = dsl::parse_workload(key);
  ASSERT_TRUE(workload) << workload.error().message;
  const auto inputs = dsl::random_inputs(workload->compute, 3);
  ASSERT_TRUE(inputs);
  const auto expected = dsl::interpret(workload->compute, *inputs);
  ASSERT_TRUE(expected) << expected.error().message;
  const auto forms =
      onednn_peer().make("", {&*workload, &*inputs, threads, CacheState::Hot, rotated_bytes});
  ASSERT_TRUE(forms) << forms.error().message;
  ASSERT_FALSE(forms->empty());
  for (const auto& form : *forms)
    for (int64_t call = 0; call < 5; ++call) {
      ASSERT_TRUE(form->run(call));
      const auto outputs = form->outputs();
      ASSERT_TRUE(outputs);
      const auto agreement = check_agreement(*workload, *inputs, *outputs, *expected, 20, 1);
      EXPECT_TRUE(agreement) << key << " " << form->description() << ": "
                             << agreement.error().message;
    }
}

/// Returns the numbers of threads that one process may ask for.
std::vector<int> thread_counts() {
  return onednn_peer().keeps_threads ? std::vector{1} : std::vector{1, 2};
}

TEST(OneDnn, KeepsItsThreadsOrSaysSo) {
  expect_same("dense m=4 n=16 k=16 f32 fast", 1, 0);
  if (!onednn_peer().keeps_threads) GTEST_SKIP() << "[SKIP] this build takes any number";
  const auto workload = dsl::parse_workload("dense m=4 n=16 k=16 f32 fast");
  const auto inputs = dsl::random_inputs(workload->compute, 3);
  const auto forms = onednn_peer().make("", {&*workload, &*inputs, 2, CacheState::Hot, 0});
  ASSERT_FALSE(forms);
  EXPECT_EQ(forms.error().code, ErrorCode::Usage) << forms.error().message;
}

TEST(OneDnn, ComputesOurWorkloads) {
  for (const int threads : thread_counts())
    for (const char* key : {
             "conv2d n=1 c=5 h=9 w=7 k=6 r=3 s=3 pad=1 f32 fast",
             "conv2d n=2 c=16 h=8 w=8 k=32 r=1 s=1 f32 fast",
             "conv2d n=1 c=3 h=12 w=10 k=8 r=5 s=3 stride_h=2 stride_w=1 pad_top=2 pad_left=1 "
             "pad_bottom=1 pad_right=0 f32 fast",
             "conv2d n=1 c=4 h=11 w=11 k=4 r=3 s=3 pad=2 dilation=2 f32 fast",
             "conv2d n=1 c=12 h=6 w=6 k=8 r=3 s=3 pad=1 groups=4 f32 fast",
             "conv2d n=1 c=20 h=7 w=7 k=20 r=3 s=3 pad=1 groups=20 f32 fast",
             "dense m=7 n=9 k=13 f32 fast",
             "dense m=1 n=64 k=32 f32 fast",
             "batch_matmul b=3 m=8 n=6 k=10 f32 fast",
         })
      expect_same(key, threads, 0);
}

TEST(OneDnn, ComputesProductsOfBf16) {
  if (!host_target().has("avx512bw")) GTEST_SKIP() << "[SKIP] oneDNN has bf16 with AVX-512 alone";
  expect_same("conv2d n=1 c=16 h=8 w=8 k=32 r=3 s=3 pad=1 bf16 fast", 1, 0);
  expect_same("dense m=7 n=9 k=13 bf16 fast", 1, 0);
}

TEST(OneDnn, ComputesQuantizedProducts) {
  for (const char* key : {
           "qlinear_conv2d n=1 c=5 h=9 w=7 k=6 r=3 s=3 pad=1 f32 fast",
           "qlinear_conv2d n=2 c=16 h=8 w=8 k=32 r=1 s=1 stride=2 f32 fast",
           "qlinear_conv2d n=1 c=12 h=6 w=6 k=8 r=3 s=3 pad=1 groups=4 f32 fast",
           "qlinear_conv2d n=1 c=20 h=7 w=7 k=20 r=3 s=3 pad=1 groups=20 f32 fast",
           "qlinear_dense m=7 n=9 k=13 f32 fast",
       })
    expect_same(key, 1, 0);
}

// The tests <name>.avx2 and <name>.sse41 run this test with a limit of the instruction set.
TEST(OneDnn, Fault73_IsLimitedAsWeAre) {
  expect_same("dense m=4 n=16 k=16 f32 fast", 1, 0);
  const auto limit = max_isa();
  if (!limit) GTEST_SKIP() << "[SKIP] there is no limit";
  const dnnl::cpu_isa used = dnnl::get_effective_cpu_isa();
  if (*limit == "sse41") {
    EXPECT_EQ(used, dnnl::cpu_isa::sse41);
  }
  if (*limit == "avx2") {
    EXPECT_TRUE(used == dnnl::cpu_isa::avx2 || used == dnnl::cpu_isa::avx);
  }
}

TEST(OneDnn, RotatesCopiesOfTheWeights) {
  expect_same("conv2d n=1 c=16 h=8 w=8 k=32 r=3 s=3 pad=1 f32 fast", 1, 64 << 10);
  expect_same("dense m=4 n=16 k=16 f32 fast", 1, 16 << 10);
}

TEST(OneDnn, RefusesWhatItDoesNotCompare) {
  for (const char* key : {"softmax rows=4 cols=4 f32 fast", "dense m=4 n=4 k=4 relu=1 f32 fast",
                          "dense m=4 n=4 k=4 f16 fast", "dense m=4 n=4 k=4 i8 fast",
                          "qlinear_dense m=4 n=4 k=4 bf16 fast"}) {
    const auto workload = dsl::parse_workload(key);
    ASSERT_TRUE(workload) << workload.error().message;
    const auto inputs = dsl::random_inputs(workload->compute, 1);
    ASSERT_TRUE(inputs);
    const auto forms = onednn_peer().make("", {&*workload, &*inputs, 1, CacheState::Hot, 0});
    ASSERT_FALSE(forms) << key;
    EXPECT_EQ(forms.error().code, ErrorCode::Unsupported);
  }
}

}  // namespace
}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
// Tests that GGML's products are those of `dense_q4` and `dense_q8`, with scales in f16.
#include <gtest/gtest.h>

#include "base/isa.h"
#include "bench/agreement.h"
#include "bench/peers/peer.h"
#include "dsl/random_inputs.h"

namespace tw::bench {
namespace {

Result<std::vector<std::unique_ptr<Contender>>> forms_of(const dsl::Workload& workload,
                                                         const dsl::Arrays& inputs, int threads,
                                                         CacheState cache = CacheState::Hot,
                                                         int64_t rotated_bytes = 0) {
  TW_TRY(const Peer peer, find_peer("ggml", false, {}));
  return peer.make("", {&workload, &inputs, threads, cache, rotated_bytes});
}

#define SKIP_WITHOUT_GGML()                                               \
  if (const auto ggml = find_peer("ggml", false, {}); !ggml || max_isa()) \
  GTEST_SKIP() << "[SKIP] " << (ggml ? "there is a limit" : ggml.error().message)

TEST(Ggml, ComputesProductsOfFewBits) {
  SKIP_WITHOUT_GGML();
  for (const char* key : {"dense_q4 m=1 n=64 k=128 f32 fast", "dense_q4 m=5 n=60 k=96 f32 fast",
                          "dense_q8 m=3 n=64 k=128 f32 fast"})
    for (const int threads : {1, 2})
      for (const int64_t rotated : {0, 40'000}) {
        const auto workload = dsl::parse_workload(key);
        const auto inputs = dsl::random_inputs(workload->compute, 3);
        const auto expected = dsl::interpret(workload->compute, *inputs);
        const auto forms = forms_of(*workload, *inputs, threads, CacheState::Cold, rotated);
        ASSERT_TRUE(forms) << forms.error().message;
        for (const auto& form : *forms)
          for (int64_t call = 0; call < 5; ++call) {
            ASSERT_TRUE(form->time_ns(call, 1, false, [] { return int64_t{0}; }));
            const auto outputs = form->outputs();
            ASSERT_TRUE(outputs);
            const auto agreement = check_agreement(*workload, *inputs, *expected, *outputs, 20, 1,
                                                   form->own_rounding());
            EXPECT_TRUE(agreement)
                << key << " " << form->description() << ": " << agreement.error().message;
          }
      }
}

TEST(Ggml, RefusesWhatItDoesNotCompare) {
  SKIP_WITHOUT_GGML();
  for (const char* key : {"dense m=4 n=4 k=32 f32 fast", "dense_q4 m=1 n=4 k=33 f32 fast",
                          "dense_q4 m=1 n=4 k=32 relu=1 f32 fast"}) {
    const auto workload = dsl::parse_workload(key);
    const auto inputs = dsl::random_inputs(workload->compute, 1);
    const auto forms = forms_of(*workload, *inputs, 1);
    ASSERT_FALSE(forms) << key;
    EXPECT_EQ(forms.error().code, ErrorCode::Unsupported) << forms.error().message;
  }
}

}  // namespace
}  // namespace tw::bench

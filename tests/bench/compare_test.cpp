// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"

#include <gtest/gtest.h>

namespace tw::bench {
namespace {

TEST(Compare, KernelsAreTunedInTheStateThatIsTimed) {
  Item item;
  item.workload = dsl::make_workload("dense", {{"m", 1}, {"n", 4}, {"k", 4}}).value();
  CompareOptions options;
  const auto state = [&](const char* target, CacheState cache) {
    options.target = parse_target(target).value();
    options.cache = cache;
    return tuned_workload(item, options).state;
  };
  EXPECT_EQ(state("x86-64-v3", CacheState::Hot), dsl::CacheState::Hot);
  EXPECT_EQ(state("x86-64-v3", CacheState::Cold), dsl::CacheState::NetworkMemory);
  EXPECT_EQ(state("x86-64-v3", CacheState::Network), dsl::CacheState::NetworkMemory);
  EXPECT_EQ(state("cuda:sm_90a", CacheState::Cold), dsl::CacheState::Hot) << "GPUs are tuned hot";
}

}  // namespace
}  // namespace tw::bench

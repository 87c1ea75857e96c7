// SPDX-License-Identifier: Apache-2.0
#include "bench/cache_state.h"

#include <gtest/gtest.h>

namespace tw::bench {
namespace {

TEST(CacheStates, PrintWhatParses) {
  for (const CacheState state : {CacheState::Hot, CacheState::Cold, CacheState::Network})
    EXPECT_EQ(parse_cache_state(to_string(state)), state);
  EXPECT_FALSE(parse_cache_state("warm"));
}

// Arrays of any size and alignment keep their content.
TEST(CacheStates, ArraysKeepWhatTheyHold) {
  std::vector<std::byte> memory(1000);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7);
  const std::vector<std::byte> before = memory;
  for (const size_t offset : {0, 1, 63, 64})
    for (const size_t size : {0, 1, 64, 65, 900}) {
      const Bytes part(memory.data() + offset, size);
      enter_network_state({{part}, {part}, {part}});
    }
  EXPECT_EQ(memory, before);
}

}  // namespace
}  // namespace tw::bench

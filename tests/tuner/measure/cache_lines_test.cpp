// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/cache_lines.h"

#include <gtest/gtest.h>

#include "tuner/processes/guarded_buffer.h"

namespace tw::tuner {
namespace {

// Arrays of any size and alignment keep their content, and so does the memory beside them.
TEST(CacheLines, ArraysKeepWhatTheyHold) {
  std::vector<std::byte> memory(1000);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7);
  const std::vector<std::byte> before = memory;
  for (const size_t offset : {0, 1, 63, 64})
    for (const size_t size : {0, 1, 64, 65, 900}) {
      const Bytes part(memory.data() + offset, size);
      evict(part);
      rewrite(part);
    }
  EXPECT_EQ(memory, before);
}

// Constants are shared by kernels and write-protected. Entering a state of the caches writes
// activations only.
TEST(CacheLines, AStateIsEnteredWithConstantsThatMustNotBeWritten) {
  auto constants = GuardedBuffer::make(4000).value();
  auto activations = GuardedBuffer::make(4000).value();
  constants.poison(Poison::First);
  activations.poison(Poison::Second);
  ASSERT_TRUE(constants.make_read_only());
  runtime::ThreadPool pool({.threads = 2});
  CacheSweep sweep(Machine(), monotonic_clock());
  const Roles roles = {.activations = {{activations.data(), activations.size()}},
                       .constants = {{constants.data(), constants.size()}}};
  for (const auto state : {dsl::CacheState::NetworkL3, dsl::CacheState::NetworkMemory})
    for (const int threads : {1, 2}) sweep.enter(state, roles, pool, threads);
  EXPECT_EQ(constants.poisoned(4, Poison::First), 1000);
  EXPECT_EQ(activations.poisoned(4, Poison::Second), 1000);
}

}  // namespace
}  // namespace tw::tuner

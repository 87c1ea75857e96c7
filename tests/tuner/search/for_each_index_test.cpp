// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/for_each_index.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <new>

#include "tests/sanitizers.h"

namespace tw::tuner {
namespace {

TEST(ForEachIndex, CallsEachOnce) {
  for (const int workers : {1, 3, 100}) {
    std::vector<std::atomic<int>> calls(50);
    for_each_index(calls.size(), workers, [&](size_t i) { ++calls[i]; });
    for (const std::atomic<int>& each : calls) EXPECT_EQ(each, 1);
  }
  for_each_index(0, 4, [](size_t) { FAIL(); });
}

TEST(ForEachIndex, ThrowsWhatACallThrows) {
  for (const int workers : {1, 4}) {
    std::atomic<int> calls = 0;
    const auto fail_at_3 = [&](size_t i) {
      ++calls;
      if (i == 3) throw std::bad_alloc();
    };
    EXPECT_THROW(for_each_index(1'000'000, workers, fail_at_3), std::bad_alloc);
    EXPECT_LT(calls, 1'000'000);
  }
}

/// The process has no address space left for the stack of another thread.
TEST(ForEachIndex, WorksWithTheThreadsThatItGets) {
  if (has_shadow_memory) GTEST_SKIP() << "[SKIP] sanitizers need address space";
  const auto call_all = [] {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = static_cast<rlim_t>(pages) * 4096 + (1 << 20);
    const rlimit limit = {bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    std::atomic<int> calls = 0;
    for_each_index(8, 8, [&](size_t) { ++calls; });
    std::_Exit(calls == 8 ? 0 : 3);
  };
  EXPECT_EXIT(call_all(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tw::tuner

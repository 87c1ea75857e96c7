// SPDX-License-Identifier: Apache-2.0
#include "bench/throughput.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tw::bench {
namespace {

Throughput tuned(const char* name, double seconds, std::map<std::string, int64_t> trials) {
  Throughput result{name, "w", "budget used", 1, {}};
  result.progress.elapsed_s = seconds;
  result.progress.working_s = seconds / 2;
  result.progress.trials = std::move(trials);
  return result;
}

// A mean of the rates would let the fast layers hide the slow ones.
TEST(Throughput, TheTotalIsAllCandidatesOverAllSeconds) {
  const std::vector<Throughput> results = {tuned("a", 1, {{"ok", 40}}),
                                           tuned("b", 9, {{"ok", 8}, {"duplicate", 2}})};
  const Total total = total_of(results);
  EXPECT_EQ(total.candidates, 50);
  EXPECT_DOUBLE_EQ(total.per_second(), 5);
  EXPECT_DOUBLE_EQ(total.working_share(), 0.5);
  EXPECT_EQ(as_json(results)["total"]["trials"]["ok"], 48);
  EXPECT_THAT(as_table(results), testing::HasSubstr("total"));
  EXPECT_EQ(total_of({}).per_second(), 0);
}

}  // namespace
}  // namespace tw::bench

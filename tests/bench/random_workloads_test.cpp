// SPDX-License-Identifier: Apache-2.0
#include "bench/random_workloads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/target.h"
#include "schedules/space/space.h"

namespace tw::bench {
namespace {

using testing::HasSubstr;

constexpr int64_t draws = 12;

TEST(RandomWorkloads, AreWithinTheLimitsAndParseBack) {
  for (const Kind& kind : kinds()) {
    std::set<std::string> different;
    for (int64_t number = 0; number < draws; ++number) {
      const auto item = draw_item(kind, 1, number);
      ASSERT_TRUE(item) << kind.name << ": " << item.error().message;
      const dsl::Compute& compute = item->workload.compute;
      const double bytes = dsl::compulsory_traffic(compute).bytes(),
                   work = std::max(dsl::count_flops(compute), bytes);
      EXPECT_GE(work, 1e4) << item->workload.text();
      EXPECT_LE(work, 1e9) << item->workload.text();
      EXPECT_LE(bytes, 64e6) << item->workload.text();
      const auto parsed = dsl::parse_workload(item->workload.text());
      ASSERT_TRUE(parsed) << parsed.error().message;
      EXPECT_EQ(parsed->text(), item->workload.text());
      different.insert(item->workload.text());
    }
    EXPECT_EQ(std::ssize(different), draws) << kind.name;
  }
}

TEST(RandomWorkloads, AreTheSameForASeedAndANumber) {
  const Kind& kind = *choose_kinds("conv").value()[0];
  const std::string text = draw_item(kind, 5, 3)->workload.text();
  EXPECT_EQ(draw_item(kind, 5, 3)->workload.text(), text);
  EXPECT_NE(draw_item(kind, 6, 3)->workload.text(), text);
  EXPECT_EQ(draw_item(kind, 5, 3)->name, "conv_3");
}

// Other compilers and libraries must draw the same workloads, because a corpus may be continued by
// another build.
TEST(RandomWorkloads, AreTheSameInEachBuild) {
  std::string texts;
  for (const Kind& kind : kinds())
    for (int64_t number = 0; number < 4; ++number)
      texts += draw_item(kind, 1, number)->workload.text() + "\n";
  EXPECT_EQ(short_hash(texts), "80063f44a3465cc5");
}

TEST(RandomWorkloads, EachKindHasASpaceOnEachProcessor) {
  for (const Kind& kind : kinds())
    for (const char* target : {"x86-64-linux-sse4_1", "x86-64-v3", "x86-64-v4"}) {
      const auto item = draw_item(kind, 2, 0);
      ASSERT_TRUE(item) << kind.name;
      const auto space = schedules::Space::derive(schedules::Problem{item->workload.compute},
                                                  *parse_target(target));
      ASSERT_TRUE(space) << kind.name << ": " << space.error().message;
      EXPECT_TRUE(space->schedule(space->default_point()).program()) << kind.name;
    }
}

TEST(RandomWorkloads, KindsAreChosenByName) {
  EXPECT_EQ(choose_kinds("")->size(), kinds().size());
  const auto some = choose_kinds("dense, rows,dense");
  ASSERT_TRUE(some);
  ASSERT_EQ(some->size(), 2u);
  EXPECT_EQ((*some)[0]->name, "dense");
  EXPECT_EQ((*some)[1]->name, "rows");
  const auto none = choose_kinds("dense,sense");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Usage);
  EXPECT_THAT(none.error().message, HasSubstr("'sense': expected some of conv, depthwise"));
}

}  // namespace
}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/random_workloads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/target.h"
#include "schedules/space.h"

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
      EXPECT_LE(dsl::count_flops(compute), 1e9) << item->workload.text();
      EXPECT_LE(dsl::compulsory_traffic(compute).bytes(), 64e6) << item->workload.text();
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
  const auto some = choose_kinds("dense, rows");
  ASSERT_TRUE(some);
  EXPECT_EQ((*some)[0]->name, "dense");
  EXPECT_EQ((*some)[1]->name, "rows");
  const auto none = choose_kinds("dense,sense");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Usage);
  EXPECT_THAT(none.error().message, HasSubstr("'sense': expected some of conv, depthwise"));
}

}  // namespace
}  // namespace tw::bench

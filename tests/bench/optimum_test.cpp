// SPDX-License-Identifier: Apache-2.0
#include "bench/search/optimum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dsl/workload.h"
#include "tests/nightly.h"

namespace tw::bench {
namespace {

using testing::HasSubstr;

Result<Optimum> optimum_of(const std::string& key, int64_t samples) {
  const Item item{"row", dsl::parse_workload(key).value()};
  int64_t now_ns = 0;
  return measure_optimum(item, parse_target("cuda:sm_90a").value(),
                         {.samples = samples, .workers = 2, .seed = 7},
                         [&now_ns] { return now_ns += 1'000'000; });
}

// Before anything is measured, the program chooses a schedule that is about as good, by the cost
// model, as the best of many samples. Without TW_NIGHTLY, only every second workload is compared.
TEST(Optimum, ChoicesAreAsGoodAsTheBestOfManySamples) {
  const std::vector<std::string> keys = {
      "dense m=512 n=512 k=512 bf16 fast",
      "dense m=49 n=512 k=2048 f32 fast",
      "dense m=1 n=1000 k=2048 f32 fast",
      "conv2d n=1 c=256 h=14 w=14 k=256 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast",
      "conv2d n=32 c=64 h=56 w=56 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 bf16 fast "
      "{in=NHWC out=NHWC}",
      "attention b=12 m=128 n=128 d=64 f32 fast"};
  for (const std::string& key : due(keys, 2)) {
    const auto row = optimum_of(key, cases_of(300, 2'000));
    ASSERT_TRUE(row) << row.error().message;
    EXPECT_GE(row->samples, cases_of(300, 2'000)) << key;
    EXPECT_LE(row->ratio(), most_behind)
        << key << "\nchosen: " << row->chosen << "\nbest sample: " << row->best;
  }
}

TEST(Optimum, ReportsTheChoiceAndTheBestSample) {
  const Optimum row = optimum_of("dense m=16 n=1000 k=2048 f32 fast", 20).value();
  EXPECT_EQ(row.samples, 20);
  EXPECT_GE(row.drawn, row.samples);
  EXPECT_DOUBLE_EQ(row.choosing_s, 1e-3);
  EXPECT_THAT(row.chosen, HasSubstr("gpu_"));
  EXPECT_THAT(row.best, HasSubstr("gpu_"));
  Optimum behind = row;
  behind.chosen_ns = 1.1 * row.best_ns;
  const nlohmann::json json = as_json({row, behind});
  EXPECT_DOUBLE_EQ(json[1].at("ratio"), 1.1);
  EXPECT_DOUBLE_EQ(json[0].at("chosen_us").get<double>() / json[0].at("best_us").get<double>(),
                   json[0].at("ratio").get<double>());
  EXPECT_THAT(as_table({behind}), HasSubstr("1 of 1 choices are more than 3 % behind"));
}

}  // namespace
}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/pipeline_stages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "dsl/workload.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"

namespace tw::tools {
namespace {

using testing::_;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;

/// Returns the pipelines of a product with blocks of 128 x 128 elements and 32 terms. Seven stages
/// of 32 KiB fit in the 227 KiB of shared memory that a block may have.
std::vector<PipelineStages> product_with(int stages) {
  const Target hopper = parse_target("cuda:sm_90a").value();
  const auto workload = dsl::parse_workload("dense m=1024 n=1024 k=1024 f32 fast").value();
  const auto space = schedules::Space::derive(workload.compute, hopper);
  const auto point = space.parse(
      "out: gpu_mma warps.rows=2 warps.columns=4 tiles=4 block.rows=128 copy.rows=1 "
      "block.columns=128 copy.columns=2 stages=2 copies=0 unroll=1 raster=1 split=1");
  EXPECT_TRUE(point);
  const std::string text =
      std::regex_replace(space.schedule(point.value()).to_string(), std::regex("(pipeline .*) 2"),
                         fmt::format("$1 {}", stages));
  const auto pipelines = pipeline_stages(workload, text, hopper);
  EXPECT_TRUE(pipelines) << pipelines.error().message;
  return *pipelines;
}

TEST(PipelineStages, TheModelExpectsATimeOfOneMore) {
  const std::vector<PipelineStages> two = product_with(2), three = product_with(3);
  ASSERT_EQ(two.size(), 1u);
  EXPECT_EQ(two[0].stage, "out");
  EXPECT_EQ(two[0].depth, 2);
  ASSERT_TRUE(two[0].deeper_ns && three[0].deeper_ns);
  EXPECT_GT(*two[0].deeper_ns, *three[0].deeper_ns);
  EXPECT_THAT(
      as_facts(two),
      ElementsAre(Pair("stages", StartsWith("2 in shared memory; with 3 the model expects "))));
  EXPECT_EQ(as_json(two),
            nlohmann::json::parse(fmt::format(
                R"([{{"stage": "out", "depth": 2, "deeper_ns": {}}}])", *two[0].deeper_ns)));
}

TEST(PipelineStages, OneMoreMayBeIllegal) {
  const std::vector<PipelineStages> seven = product_with(7);
  EXPECT_FALSE(seven.at(0).deeper_ns);
  EXPECT_THAT(as_facts(seven),
              ElementsAre(Pair("stages", AllOf(StartsWith("7 in shared memory; 8 are illegal: "),
                                               HasSubstr("2 to 7 iterations deep")))));
  EXPECT_EQ(as_json(seven)[0]["illegal_because"], seven[0].illegal_because);
}

TEST(PipelineStages, ASimpleScheduleHasNone) {
  const auto workload = dsl::parse_workload("dense m=16 n=16 k=16 f32 fast").value();
  const auto none = pipeline_stages(workload, "tw1\nparallel out m\nbind out n",
                                    parse_target("cuda:sm_90a").value());
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_THAT(*none, IsEmpty());
  EXPECT_THAT(as_facts(*none), IsEmpty());
}

TEST(PipelineStages, SeveralAreNamed) {
  EXPECT_THAT(as_facts({{"qk", 3, 1000.0, ""}, {"out", 2, 2000.0, ""}}),
              ElementsAre(Pair("stages of qk", _), Pair("stages of out", _)));
}

}  // namespace
}  // namespace tw::tools

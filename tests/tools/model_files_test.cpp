// SPDX-License-Identifier: Apache-2.0
#include "tools/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tw::tools {
namespace {

using testing::ElementsAre;

/// Returns a model of seven steps that run one kernel without arguments. The last step uses one
/// thread, the others two.
runtime::ModelFile seven_steps(std::vector<runtime::ModelBand> bands) {
  runtime::ModelFile model;
  model.target = "x86-64-linux";
  model.threads = 2;
  model.kernels.resize(1);
  model.kernels[0].info.workload = "nothing f32";
  model.variants.resize(1);
  for (int step = 0; step < 7; ++step)
    model.variants[0].steps.push_back({std::string(1, static_cast<char>('a' + step)), 0, {}, 0, 1});
  model.variants[0].steps[6].threads = 1;
  model.variants[0].bands = std::move(bands);
  return model;
}

std::string threads_of(const runtime::ModelFile& model) {
  for (const auto& [name, value] : facts_of(model, 0))
    if (name == "threads") return value;
  return "";
}

TEST(ModelFiles, StepsSideBySideAreNamed) {
  EXPECT_EQ(threads_of(seven_steps({})), "2; 1 step on fewer");
  EXPECT_EQ(threads_of(seven_steps({{1, {1, 2}}})),
            "2; 1 step on fewer; 1 band of 2 chains side by side");
  EXPECT_EQ(threads_of(seven_steps({{0, {1, 1, 1}}, {4, {1, 1}}})),
            "2; 1 step on fewer; 2 bands of 2 to 3 chains side by side");
}

TEST(ModelFiles, TheTableOfStepsHasAColumnForBands) {
  EXPECT_EQ(table_of_steps(seven_steps({}), 0).header.size(), 5u);
  const Table table = table_of_steps(seven_steps({{1, {1, 2}}, {4, {1, 1}}}), 0);
  ASSERT_EQ(table.header[1], "side by side");
  std::vector<std::string> places;
  for (const auto& row : table.rows) places.push_back(row[1]);
  EXPECT_THAT(places, ElementsAre("", "1: chain 1", "1: chain 2", "1: chain 2", "2: chain 1",
                                  "2: chain 2", ""));
}

TEST(ModelFiles, JsonHasTheBands) {
  const nlohmann::json bands = as_json(seven_steps({{1, {1, 2}}})).at("bands");
  EXPECT_EQ(bands, nlohmann::json::parse(R"([{"first_step": 1, "chains": [1, 2]}])"));
  EXPECT_EQ(as_json(seven_steps({})).at("bands"), nlohmann::json::array());
}

}  // namespace
}  // namespace tw::tools

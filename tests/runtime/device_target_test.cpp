// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/device_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tw::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> names_for(const std::string& architecture) {
  std::vector<std::string> names;
  DeviceFacts facts;
  facts.architecture = architecture;
  for (const Target& target : targets_of(facts)) names.push_back(target.to_string());
  return names;
}

TEST(TargetsOf, TheClosestComesFirst) {
  EXPECT_THAT(names_for("sm_90"),
              ElementsAre("cuda:sm_90a", "cuda:sm_90", "cuda:sm_89", "cuda:sm_87", "cuda:sm_86",
                          "cuda:sm_80", "cuda:sm_75"));
  EXPECT_THAT(names_for("sm_80"), ElementsAre("cuda:sm_80", "cuda:sm_75"));
  EXPECT_THAT(names_for("opencl"), ElementsAre("opencl"));
}

// A chip that is newer than our table runs code of older chips. For a chip older than the table
// there is no target.
TEST(TargetsOf, ChipsThatAreNotInTheTable) {
  EXPECT_EQ(names_for("sm_103").front(), "cuda:sm_100");
  EXPECT_THAT(names_for("sm_70"), IsEmpty());
  EXPECT_THAT(names_for("sm_"), IsEmpty());
  EXPECT_THAT(names_for(""), IsEmpty());
}

}  // namespace
}  // namespace tw::runtime

// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <gtest/gtest.h>

namespace tw::runtime {
namespace {

// Code for a chip runs on chips with the same major number that are not older. Code with
// instructions of one chip, such as sm_100a, runs on this chip only.
TEST(RunsOn, Fault52_FollowsCudasRules) {
  EXPECT_TRUE(runs_on("sm_80", "sm_80"));
  EXPECT_TRUE(runs_on("sm_80", "sm_89"));
  EXPECT_FALSE(runs_on("sm_89", "sm_80"));
  EXPECT_FALSE(runs_on("sm_80", "sm_90"));
  EXPECT_TRUE(runs_on("sm_90a", "sm_90"));
  EXPECT_FALSE(runs_on("sm_100a", "sm_103"));
  EXPECT_TRUE(runs_on("sm_100f", "sm_103"));
  EXPECT_FALSE(runs_on("sm_100f", "sm_120"));
  EXPECT_FALSE(runs_on("", "sm_80"));
  EXPECT_FALSE(runs_on("sm_", "sm_80"));
  EXPECT_FALSE(runs_on("opencl", "opencl"));
}

TEST(OpenDevice, ANameThatIsNoneSaysWhatIs) {
  for (const char* name :
       {"", "gpu", "cuda:", "cuda:sm_90a", "cuda:-1", "opencl:x", "cuda:9999999999"}) {
    const auto device = open_device(name);
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.error().code, ErrorCode::Usage) << name;
    EXPECT_NE(device.error().message.find("as in cuda:1"), std::string::npos);
  }
}

}  // namespace
}  // namespace tw::runtime

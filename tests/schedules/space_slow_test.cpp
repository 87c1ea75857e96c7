// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/spaces.h"

namespace tw::schedules {
namespace {

TEST(SpaceSlow, EveryPointIsFoundBackFromItsSchedule) {
  for (const char* target : {"x86-64-v3", "x86-64-v4"})
    for (const Case& c : cases()) {
      const int found = found_back(space_of(c.compute, target), 200, 11);
      EXPECT_GE(found, c.compute.stages.size() > 4 ? 160 : 200) << target << " " << c.name;
    }
}

}  // namespace
}  // namespace tw::schedules

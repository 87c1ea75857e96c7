// SPDX-License-Identifier: Apache-2.0
#include "tuner/device.h"

#include <gtest/gtest.h>

namespace tw::tuner {
namespace {

TEST(Device, Fault49_TheProcessorsThatMayBeUsedArePartOfTheFingerprint) {
  Target all = host_target(), few = all;
  all.cores = 8;
  few.cores = 1;
  EXPECT_NE(device_text(all), device_text(few));
  EXPECT_NE(device_text(few).find("; 1 cores;"), std::string::npos) << device_text(few);
}

}  // namespace
}  // namespace tw::tuner

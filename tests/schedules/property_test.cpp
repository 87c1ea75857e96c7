// SPDX-License-Identifier: Apache-2.0
#include "tests/schedules/property.h"

#include "tests/nightly.h"

namespace tw::schedules {
namespace {

TEST(Property, RandomSchedulesComputeWhatTheComputeMeans) { expect_substance(run_cases(1, 800)); }

TEST(Property, ManyRandomSchedulesComputeWhatTheComputeMeans) {
  TW_ONLY_NIGHTLY();
  expect_substance(run_cases(100000, 6000));
}

}  // namespace
}  // namespace tw::schedules

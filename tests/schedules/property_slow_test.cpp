// SPDX-License-Identifier: Apache-2.0
#include "tests/schedules/property.h"

namespace tw::schedules {
namespace {

TEST(Property, ManyRandomSchedulesComputeWhatTheComputeMeans) {
  expect_substance(run_cases(100000, 6000));
}

}  // namespace
}  // namespace tw::schedules

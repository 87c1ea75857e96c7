// SPDX-License-Identifier: Apache-2.0
#include "tests/schedules/property.h"

namespace tw::schedules {
namespace {

TEST(Property, RandomSchedulesComputeWhatTheComputeMeans) { expect_substance(run_cases(1, 800)); }

}  // namespace
}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random products whose results are rounded to 16 bits after an epilogue. Rows of the result begin
// at multiples of 16 bytes in some cases only, and tiles reach beyond the edges.

#include <gtest/gtest.h>

#include "base/random.h"
#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "schedules/space/space.h"

namespace tw::schedules {

struct RoundedProductCase {
  dsl::Workload workload;
  Schedule schedule;
};

inline RoundedProductCase random_rounded_product(Random& random) {
  const DType type = random.chance(0.5) ? Float16 : BFloat16;
  const int64_t unit = random.pick(std::vector<int64_t>{1, 2, 4, 8});
  const auto size = [&](int64_t least, int64_t more) {
    return (least + random.below(more)) / unit * unit;
  };
  const bool is_conv = random.chance(0.3);
  dsl::Attributes attributes =
      is_conv ? dsl::Attributes{{"n", 1},
                                {"c", 4},
                                {"h", size(8, 4)},
                                {"w", size(8, 4)},
                                {"k", size(16, 24)},
                                {"r", 3},
                                {"s", 3},
                                {"pad", 1}}
              : dsl::Attributes{{"m", size(64, 40)}, {"n", size(24, 60)}, {"k", size(32, 48)}};
  for (const char* flag : {"bias", "relu"}) attributes[flag] = random.below(2);
  if (is_conv) attributes["residual"] = random.below(2);
  const auto workload = dsl::make_workload(is_conv ? "conv2d" : "dense", attributes, type);
  EXPECT_TRUE(workload) << workload.error().message;
  const Target target = *parse_target("cuda:sm_90a");
  const Space space = Space::derive(workload->compute, target);
  for (;;) {
    const Schedule schedule = space.schedule(space.sample(random));
    if (schedule.program(limits_of(target))) return {*workload, schedule};
  }
}

}  // namespace tw::schedules

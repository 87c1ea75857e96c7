// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random products with tensor tiles: random points of the search space, on sizes that blocks do not
// divide. Some operands are swizzled.

#include <gtest/gtest.h>

#include <string>

#include "base/integer.h"
#include "base/random.h"
#include "dsl/workload.h"
#include "schedules/nest.h"
#include "schedules/program/legality.h"
#include "schedules/space/space.h"

namespace tw::schedules {

/// Returns a random point whose product is computed by tensor tiles. Requires: the space has such
/// points.
inline Point tensor_point(const Space& space, Random& random) {
  for (;;) {
    Point point = space.sample(random);
    const std::string text = space.to_string(point);
    if (text.find(": gpu_mma ") != std::string::npos ||
        text.find(": gpu_wgmma ") != std::string::npos)
      return point;
  }
}

/// Returns the schedule with most of its staged operands swizzled. The swizzle of an operand is 32,
/// 64 or 128 bytes; an illegal one is left out.
inline Schedule swizzled(const Schedule& schedule, Random& random) {
  Schedule result = schedule;
  for (const StageNest& stage : schedule.nest().stages) {
    if (!stage.is_staged_operand || random.chance(0.3)) continue;
    const int64_t bytes = random.pick(std::vector<int64_t>{32, 64, 128});
    const Schedule next = result.swizzle(stage.stage.name, bytes);
    if (!next.error()) result = next;
  }
  return result;
}

struct TensorProductCase {
  dsl::Workload workload;
  Schedule schedule;
};

inline TensorProductCase random_tensor_product(Random& random) {
  const DType type = random.pick(std::vector<DType>{Float32, Float32, Float16, BFloat16, Int8});
  const int64_t depth = type == Float32 ? 8 : type == Int8 ? 32 : 16;
  const auto size = [&](int64_t least, int64_t more) {
    return random.chance(0.4) ? (least + more) / 8 * 8 : least + random.below(more);
  };
  const int64_t m = size(16, 40), n = size(16, 40), k = size(depth, 40);
  const int64_t channels = ceil_div(depth, 9) + random.below(4), pixels = 5 + random.below(4);
  const std::string op = random.pick(std::vector<std::string>{"dense", "batch_matmul", "conv2d"});
  const dsl::Attributes attributes =
      op == "dense" ? dsl::Attributes{{"m", m}, {"n", n}, {"k", k}}
      : op == "batch_matmul"
          ? dsl::Attributes{{"b", 2}, {"m", m}, {"n", n}, {"k", k}}
          : dsl::Attributes{{"n", 1}, {"c", channels}, {"h", pixels}, {"w", pixels},
                            {"k", n}, {"r", 3},        {"s", 3},      {"pad", 1}};
  const auto workload = dsl::make_workload(op, attributes, type);
  EXPECT_TRUE(workload) << workload.error().message;
  const Space space = Space::derive(workload->compute, *parse_target("cuda:sm_80"));
  for (;;) {
    const Schedule schedule = swizzled(space.schedule(tensor_point(space, random)), random);
    if (schedule.program()) return {*workload, schedule};  // within the limits of any target
  }
}

/// Like random_tensor_product(), with tiles of warpgroups on sm_90a.
inline TensorProductCase random_warpgroup_product(Random& random) {
  const DType type = random.pick(std::vector<DType>{Float16, BFloat16, BFloat16, Int8});
  const auto size = [&](int64_t least, int64_t more) {
    return random.chance(0.4) ? (least + more) / 8 * 8 : least + random.below(more);
  };
  const int64_t m = size(64, 40), n = size(64, 40), k = size(type == Int8 ? 128 : 64, 40);
  const bool is_dense = random.chance(0.6);
  const dsl::Attributes attributes =
      is_dense ? dsl::Attributes{{"m", m}, {"n", n}, {"k", k}}
               : dsl::Attributes{{"n", 1}, {"c", k / 8}, {"h", 9}, {"w", 8},
                                 {"k", n}, {"r", 3},     {"s", 3}, {"pad", 1}};
  const auto workload = dsl::make_workload(is_dense ? "dense" : "conv2d", attributes, type);
  EXPECT_TRUE(workload) << workload.error().message;
  const Target target = *parse_target("cuda:sm_90a");
  const Space space = Space::derive(workload->compute, target);
  for (;;) {
    const Schedule schedule = space.schedule(tensor_point(space, random));
    if (schedule.to_string().find(" wgmma_") != std::string::npos &&
        schedule.program(limits_of(target)))
      return {*workload, schedule};
  }
}

}  // namespace tw::schedules

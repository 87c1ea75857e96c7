// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products by warpgroup tiles with factors that are contiguous across the reduction (MN-major).
// Their schedules are the default points on sm_90a with the values of some knobs changed.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "schedules/space/space.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {

struct MnMajorProduct {
  int64_t m = 128, n = 128, k = 128;
  KnobChanges knobs;  ///< other values than the default's
  bool across_a = false, across_b = true;
  DType type = BFloat16;
};

inline std::string title_of(const MnMajorProduct& p) {
  std::string title = fmt::format("{} {} by {} by {}, {}{}:", to_string(p.type), p.m, p.n, p.k,
                                  p.across_a ? "a" : "", p.across_b ? "b" : "");
  for (const auto& [knob, value] : p.knobs) title += fmt::format(" {}={}", knob, value);
  return title;
}

inline dsl::Compute compute_of(const MnMajorProduct& p) {
  const auto matrix = [](bool across, const auto& row, const auto& term) {
    return across ? fmt::format("{}, {}", term, row) : fmt::format("{}, {}", row, term);
  };
  const auto compute = dsl::parse_compute(
      fmt::format("input a: {0}[{1}]\nweight b: {0}[{2}]\n"
                  "c: f32[m={3}, n={4}] = sum(k={5}) f32(a[{6}]) * f32(b[{7}])",
                  to_string(p.type), matrix(p.across_a, p.m, p.k), matrix(p.across_b, p.n, p.k),
                  p.m, p.n, p.k, matrix(p.across_a, "m", "k"), matrix(p.across_b, "n", "k")));
  EXPECT_TRUE(compute) << compute.error().message;
  return *compute;
}

inline Schedule schedule_of(const MnMajorProduct& p) {
  const Space space = Space::derive(compute_of(p), *parse_target("cuda:sm_90a"));
  KnobChanges changes = {{"split", 1}, {"raster", 1}};
  changes.insert(changes.end(), p.knobs.begin(), p.knobs.end());
  const auto point = changed(space, space.default_point(), changes);
  EXPECT_TRUE(point && space.allowed(*point)) << title_of(p);
  return space.schedule(*point);
}

/// Returns knob values with which TMA copies both operands. If `specialise`, producer warps issue
/// the copies.
inline KnobChanges in_bulk(int64_t stages, bool specialise, KnobChanges more = {}) {
  KnobChanges knobs = {{"stages", stages}, {"copies", specialise ? 2 : 1}};
  knobs.insert(knobs.end(), more.begin(), more.end());
  return knobs;
}

inline std::vector<MnMajorProduct> mn_major_products() {
  const auto blocks = [](int64_t rows, int64_t columns, int64_t warps_rows, int64_t warps_columns,
                         int64_t tiles) {
    return KnobChanges{{"block.rows", rows},
                       {"block.columns", columns},
                       {"warps.rows", warps_rows},
                       {"warps.columns", warps_columns},
                       {"tiles", tiles}};
  };
  const auto threads = [&](int64_t stages, auto more) {
    more.insert(more.end(), {{"copy.columns", 2}, {"stages", stages}, {"copies", 0}});
    return more;
  };
  std::vector<MnMajorProduct> products = {
      // Threads copy the operands. The blocks have one group of 64 columns, two groups, two
      // warpgroups, or sizes that leave tails.
      {64, 64, 64, threads(1, blocks(64, 64, 1, 1, 1))},
      {128, 128, 128, threads(2, blocks(128, 128, 2, 1, 4))},
      {64, 256, 96, threads(3, blocks(64, 256, 1, 1, 2))},
      {70, 200, 90, threads(2, blocks(64, 128, 1, 2, 2))},
      {130, 100, 72, threads(3, blocks(128, 128, 2, 1, 1))},
      {64, 64, 96, threads(2, blocks(64, 32, 1, 1, 4))},
      {70, 72, 104, threads(3, blocks(64, 16, 1, 1, 1))},
      {128, 104, 80, threads(2, blocks(64, 64, 1, 2, 2))},
      // TMA copies the operands.
      {64, 72, 136, in_bulk(3, true, blocks(64, 32, 1, 1, 2))},
      {64, 96, 136, in_bulk(2, true, blocks(64, 64, 1, 2, 4))},
      {64, 72, 64, in_bulk(2, false, blocks(64, 16, 1, 1, 1))},
      {128, 128, 128, in_bulk(2, false, blocks(64, 64, 1, 1, 1))},
      {128, 128, 128, in_bulk(2, true, blocks(128, 128, 2, 1, 4))},
      {256, 128, 256, in_bulk(3, true, blocks(128, 128, 2, 1, 4))},
      {100, 192, 200, in_bulk(3, true, blocks(128, 128, 2, 1, 4))},
      {100, 192, 104, in_bulk(4, false, blocks(64, 128, 1, 2, 1))},
      {64, 256, 264, in_bulk(4, true, blocks(64, 256, 1, 1, 4))},
      {70, 72, 200, in_bulk(4, true, blocks(64, 64, 1, 1, 2))},
      {70, 264, 136, in_bulk(2, true, blocks(128, 64, 2, 1, 4))},
  };
  // In the products above only the second factor is MN-major. Here the first factor is, or both
  // are.
  const auto add = [&](MnMajorProduct p, bool across_b, DType type) {
    p.across_a = true;
    p.across_b = across_b;
    p.type = type;
    products.push_back(p);
  };
  auto rows = threads(2, blocks(128, 64, 2, 1, 2));
  rows.emplace_back("copy.rows", 2);
  add({128, 64, 96, rows}, true, Float16);
  rows = threads(3, blocks(128, 64, 1, 1, 2));
  rows.insert(rows.end(), {{"copy.rows", 2}, {"copy.columns", 1}});
  add({136, 72, 104, rows}, false, BFloat16);
  add({128, 128, 192, in_bulk(3, true, blocks(128, 128, 2, 1, 4))}, true, Float16);
  add({192, 128, 72, in_bulk(2, false, blocks(128, 64, 1, 1, 1))}, false, BFloat16);
  add({72, 128, 200, in_bulk(4, true, blocks(64, 128, 1, 1, 2))}, true, BFloat16);
  return products;
}

/// Returns a random product with at least one MN-major factor and a random schedule with a
/// warpgroup tile. In half of the cases TMA copies an operand.
inline std::pair<dsl::Compute, Schedule> random_mn_major_product(Random& random) {
  const Target target = *parse_target("cuda:sm_90a");
  const auto size = [&](int64_t more) {
    const int64_t unit = random.pick(std::vector<int64_t>{1, 8, 8, 64});
    return 64 + random.below(more) / unit * unit;
  };
  for (;;) {
    MnMajorProduct p{size(130), size(200), size(140), {}};
    p.across_a = random.chance(0.5);
    p.across_b = !p.across_a || random.chance(0.5);
    p.type = random.chance(0.5) ? Float16 : BFloat16;
    const dsl::Compute compute = compute_of(p);
    const Space space = Space::derive(compute, target);
    const bool in_bulk = random.chance(0.5);
    for (int tries = 0; tries < 300; ++tries) {
      const Schedule schedule = space.schedule(space.sample(random));
      const std::string text = schedule.to_string();
      if (text.find(" wgmma_") == std::string::npos) continue;
      if ((text.find("\nbulk ") != std::string::npos) != in_bulk) continue;
      const auto program = schedule.program(limits_of(target));
      EXPECT_TRUE(program) << text << program.error().message;
      if (program) return {compute, schedule};
    }
  }
}

}  // namespace tw::schedules

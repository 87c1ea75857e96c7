// SPDX-License-Identifier: Apache-2.0
#include "schedules/strategies/cpu_loops.h"

#include <algorithm>

#include "base/integer.h"
#include "schedules/nest.h"

namespace tw::schedules {

std::vector<int64_t> tile_sizes(int64_t extent, int64_t most, double waste) {
  std::vector<int64_t> sizes;
  for (int64_t t = 1; t <= std::min(extent, most); ++t) {
    const double efficiency =
        static_cast<double>(extent) / static_cast<double>(round_up(extent, t));
    if (efficiency >= 1 - waste || t == 1) sizes.push_back(t);
  }
  return sizes;
}

void split_axis(Construction& c, const std::string& stage, const std::string& axis, int64_t factor,
                TileLoops& loops) {
  if (factor <= 1) return loops.outer.push_back(axis);
  if (factor >= c.extent(stage, axis)) return loops.inner.push_back(axis);
  std::string inner = axis;
  loops.outer.push_back(split_off(c, stage, inner, factor));
  loops.inner.push_back(inner);
}

void compute_at(Construction& c, const std::string& stage, const Site* inside) {
  if (inside) c.schedule.add(ComputeAt{stage, inside->stage, inside->loop});
}

bool stores_another_type(const ComputePlan& compute, const std::string& stage) {
  const StageNest& nest = *compute.prologue.nest().find(stage);
  return nest.epilogue && nest.epilogue->type != nest.stage.type;
}

void parallelize(Construction& c, const std::string& stage, const Loops& outer, size_t depth) {
  for (size_t i = 0; i < std::min(depth, outer.size()); ++i)
    c.schedule.add(Parallel{stage, outer[i]});
}

Site site_of(const Construction& c, const std::string& stage) {
  Site site{stage, ""};
  if (const StageNest* nest = c.find(stage))
    for (const NestLoop& loop : nest->loops)
      if (loop.parallel) site.loop = loop.name;
  return site;
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "schedules/steps/editing.h"

namespace tw::schedules {

namespace {

/// Returns the loops that the step lists, in the order of the list. Invalid unless they are exactly
/// the loops inside of the accumulator's loop that do not reduce, and there is at least one.
Result<std::vector<NestLoop>> result_loops(const StageNest& stage, const CacheResult& s) {
  const auto first = static_cast<size_t>(stage.find_loop(stage.cache->loop)) + 1;
  std::vector<NestLoop> loops;
  for (const std::string& name : s.loops) {
    TW_TRY(const int at, loop_index(stage, s.name, name));
    const NestLoop& loop = stage.loops[static_cast<size_t>(at)];
    if (static_cast<size_t>(at) < first || loop.reduction)
      return illegal(s.name, fmt::format("loop '{}' reduces, or is not inside of '{}', the loop of "
                                         "the accumulator",
                                         name, stage.cache->loop));
    if (std::ranges::find(loops, name, &NestLoop::name) != loops.end())
      return illegal(s.name, fmt::format("loop '{}' is named twice", name));
    loops.push_back(loop);
  }
  for (size_t i = first; i < stage.loops.size(); ++i)
    if (!stage.loops[i].reduction && std::ranges::count(s.loops, stage.loops[i].name) == 0)
      return illegal(s.name, fmt::format("the results of '{}' depend on loop '{}' too", s.stage,
                                         stage.loops[i].name));
  if (loops.empty())
    return illegal(s.name, fmt::format("an iteration of '{}' has one result", stage.cache->loop));
  return loops;
}

}  // namespace

Status apply(Nest& nest, const CacheResult& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (!stage->cache)
    return illegal(s.name,
                   fmt::format("'{}' has no accumulator: cache_write gives it one", s.stage));
  if (stage->at)
    return illegal(s.name, fmt::format("stage '{}' is computed inside another", s.stage));
  TW_TRY(const std::vector<NestLoop> loops, result_loops(*stage, s));

  StageNest copy;
  copy.stage.name = stage->result() + "@" + s.stage;
  if (nest.find(copy.stage.name))
    return illegal(s.name, fmt::format("'{}' exists already", copy.stage.name));
  copy.stage.type = nest.compute.type_of(stage->result());
  std::vector<Expr> indices;
  for (const NestLoop& loop : loops) {
    const std::string variable = copy.stage.name + "." + loop.name;
    copy.stage.axes.emplace_back(variable, loop.extent);
    copy.loops.push_back({loop.name, variable, loop.extent});
    copy.axis[variable] = dsl::var(variable);
    copy.copied_loops.push_back(loop.variable);
    indices.push_back(dsl::var(variable));
  }
  copy.stage.body = dsl::read(copy.stage.name, indices, copy.stage.type);
  copy.at = StageNest::Placement{s.stage, stage->cache->loop};
  copy.region_offset.assign(loops.size(), Expr(0));
  copy.region_extent = copy.stage.shape();
  copy.own_names = stage->own_names;
  nest.stages.insert(nest.stages.begin() + (stage - nest.stages.data()), std::move(copy));
  return {};
}

}  // namespace tw::schedules

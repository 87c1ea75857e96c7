// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/construction.h"

#include <algorithm>
#include <cmath>

#include "schedules/nest.h"

namespace tw::schedules {

void Trace::note(size_t decision, size_t steps) {
  const bool is_known = std::any_of(uses.begin(), uses.end(),
                                    [&](const Use& use) { return use.decision == decision; });
  if (!is_known) uses.push_back({decision, steps});
}

Construction::Construction(const ComputePlan& plan, Trace* trace)
    : schedule(plan.prologue), plan_(&plan), trace_(trace) {}

int64_t Construction::extent(const std::string& stage, const std::string& loop) const {
  const StageNest* nest = find(stage);
  const int i = nest ? nest->find_loop(loop) : -1;
  return i < 0 ? 1 : nest->loops[static_cast<size_t>(i)].extent;
}

const StageNest* Construction::find(const std::string& stage) const {
  return schedule.error() ? nullptr : schedule.nest().find(stage);
}

void Construction::uses_decision(size_t decision) {
  if (trace_) trace_->note(decision, schedule.steps().size());
}

void Construction::note(const int64_t* choice) {
  for (const Origin& origin : origins_)
    if (origin.choice == choice) return uses_decision(origin.decision);
  // A choice without an origin is no knob of this stage: it is the same for every point.
}

Loops concat(std::initializer_list<Loops> parts) {
  Loops all;
  for (const Loops& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool contains(const Loops& loops, const std::string& loop) {
  return std::find(loops.begin(), loops.end(), loop) != loops.end();
}

Loops names_of(const std::vector<dsl::Axis>& axes) {
  Loops names;
  for (const dsl::Axis& axis : axes) names.push_back(axis.name);
  return names;
}

Loops independent_axes(const dsl::Stage& stage) {
  Loops names = names_of(stage.axes);
  if (stage.scan) std::erase(names, stage.scan->along);
  return names;
}

Loops reduced_axes(const dsl::Stage& stage) {
  return stage.scan ? Loops{stage.scan->along} : names_of(stage.reduction);
}

std::string split_off(Construction& c, const std::string& stage, std::string& loop,
                      int64_t factor) {
  c.schedule.add(Split{stage, loop, factor});
  const std::string outer = loop + ".0";
  loop += ".1";
  return outer;
}

std::string fuse_all(Construction& c, const std::string& stage, const Loops& loops) {
  std::string fused = loops.front();
  for (size_t i = 1; i < loops.size(); ++i) {
    c.schedule.add(Fuse{stage, fused, loops[i]});
    fused += "*" + loops[i];
  }
  return fused;
}

void unroll(Construction& c, const std::string& stage, const Loops& loops) {
  for (const std::string& loop : loops) c.schedule.add(Unroll{stage, loop});
}

std::vector<int64_t> powers(int64_t extent, int64_t least, int64_t most) {
  std::vector<int64_t> values;
  for (int64_t value = least; value <= most; value *= 2) {
    values.push_back(value);
    if (value >= extent) break;
  }
  return values;
}

double preference(int64_t value, double wanted, double weight) {
  return -weight * std::abs(std::log2(static_cast<double>(value) / wanted));
}

int64_t points_of(const dsl::Stage& stage, const Loops& axes) {
  int64_t extent = 1;
  for (const std::string& axis : axes) extent *= extent_of(stage, axis);
  return extent;
}

}  // namespace tw::schedules

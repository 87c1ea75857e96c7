// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "schedules/steps/editing.h"

namespace tw::schedules {

Status apply(Nest& nest, const Epilogue& s) {
  TW_TRY(StageNest * into, stage_of(nest, s.name, s.into));
  TW_TRY(const StageNest* stage, stage_of(nest, s.name, s.stage));
  if (into->stage.combine == Combine::None)
    return illegal(s.name, fmt::format("'{}' is no reduction: inline it instead", s.into));
  if (into->at)
    return illegal(s.name, fmt::format("'{}' is computed inside another stage", s.into));
  if (into->epilogue) return illegal(s.name, fmt::format("'{}' has an epilogue already", s.into));
  if (const StageNest* copy = copy_of_results(nest, s.into))
    return illegal(s.name, fmt::format("'{}' copies the results of '{}': fuse the epilogue first",
                                       copy->stage.name, s.into));
  if (stage->stage.combine != Combine::None || !is_fresh(nest, *stage))
    return illegal(s.name, fmt::format("'{}' must be elementwise and have no steps yet", s.stage));
  if (nest.compute.is_output(s.into))
    return illegal(s.name, fmt::format("'{}' is an output", s.into));
  for (const StageNest& other : nest.stages)
    if (other.stage.name != s.stage && reads(other, s.into))
      return illegal(s.name, fmt::format("'{}' reads '{}' too", other.stage.name, s.into));
  if (stage->stage.shape() != into->stage.shape() || !reads(*stage, s.into))
    return illegal(s.name, fmt::format("'{}' is no elementwise function of '{}'", s.stage, s.into));
  bool elementwise = true;
  for_each_read(stage->stage.body, [&](const dsl::Read& r) {
    if (r.tensor != s.into) return;
    for (size_t i = 0; i < r.indices.size(); ++i) {
      const dsl::Var* v = r.indices[i].as<dsl::Var>();
      elementwise &= v && v->name == stage->stage.axes[i].name;
    }
  });
  if (!elementwise)
    return illegal(s.name,
                   fmt::format("'{}' does not read '{}' at its own indices", s.stage, s.into));
  // Other tensors that the epilogue reads may be computed after `into`, so `into` moves to the
  // place of the epilogue.
  into->epilogue = stage->stage;
  const auto from = nest.stages.begin() + (into - nest.stages.data());
  const auto to = nest.stages.begin() + (stage - nest.stages.data());
  std::rotate(from, from + 1, to + 1);
  erase_stage(nest, s.stage);
  return {};
}

}  // namespace tw::schedules

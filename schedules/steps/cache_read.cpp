// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Stage;

Status apply(Nest& nest, const CacheRead& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  if (stage->copies_results() || !reads(*stage, s.tensor))
    return illegal(s.name, fmt::format("'{}' does not read '{}'", s.stage, s.tensor));
  Stage copy;
  copy.name = s.tensor + "@" + s.stage;
  if (nest.find(copy.name)) return illegal(s.name, fmt::format("'{}' exists already", copy.name));
  copy.type = nest.compute.type_of(s.tensor);
  const auto shape = nest.compute.shape_of(s.tensor);
  std::vector<Expr> indices;
  for (size_t d = 0; d < shape.size(); ++d) {
    copy.axes.emplace_back(fmt::format("i{}", d), shape[d]);
    indices.push_back(dsl::var(copy.axes.back().name));
  }
  copy.body = dsl::read(s.tensor, indices, copy.type);
  copy.letters = nest.compute.letters_of(s.tensor);
  const auto redirect = [&](const dsl::Read& r) { return dsl::read(copy.name, r.indices, r.type); };
  rewrite_reads(stage->stage, s.tensor, redirect);
  rewrite_reads(definition(nest, s.stage), s.tensor, redirect);
  insert_before(nest, s.stage, copy);
  return apply(nest, ComputeAt{copy.name, s.stage, s.loop});
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Stage;

namespace {

bool reads_in_body(const StageNest& stage, const std::string& tensor) {
  bool found = false;
  for_each_read(stage.stage.body, [&](const dsl::Read& r) { found |= r.tensor == tensor; });
  return found;
}

/// Returns the stages that the step names as readers of the copy, in the order of the nest. Fails
/// if a named stage does not read the tensor, or if it is neither `stage` nor computed inside of
/// it.
Result<std::vector<StageNest*>> readers_of(Nest& nest, const CacheRead& s, StageNest& stage) {
  std::vector<std::string> names = s.readers;
  if (names.empty()) names.push_back(s.stage);
  for (const std::string& name : names) {
    TW_TRY(const StageNest* reader, stage_of(nest, s.name, name));
    if (reader->copies_results() || !reads_in_body(*reader, s.tensor))
      return illegal(s.name, fmt::format("'{}' does not read '{}'", name, s.tensor));
    if (reader != &stage && placed_inside(nest, *reader, s.stage).empty())
      return illegal(s.name, fmt::format("'{}' is not computed inside of '{}'", name, s.stage));
  }
  std::vector<StageNest*> readers;
  for (StageNest& other : nest.stages)
    if (std::ranges::find(names, other.stage.name) != names.end()) readers.push_back(&other);
  return readers;
}

}  // namespace

Status apply(Nest& nest, const CacheRead& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const std::vector<StageNest*> readers, readers_of(nest, s, *stage));
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
  const std::string first = readers.front()->stage.name;
  for (StageNest* reader : readers) {
    rewrite_reads(reader->stage, s.tensor, redirect);
    rewrite_reads(definition(nest, reader->stage.name), s.tensor, redirect);
  }
  insert_before(nest, first, copy);
  return apply(nest, ComputeAt{copy.name, s.stage, s.loop});
}

}  // namespace tw::schedules

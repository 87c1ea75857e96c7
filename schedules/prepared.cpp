// SPDX-License-Identifier: Apache-2.0
#include "schedules/prepared.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedules/steps/editing.h"

namespace tw::schedules {
namespace {

const StageNest* stage_with_result(const Nest& nest, const std::string& tensor) {
  const auto found =
      std::ranges::find_if(nest.stages, [&](const StageNest& s) { return s.result() == tensor; });
  return found == nest.stages.end() ? nullptr : &*found;
}

/// Returns the reason why a tensor that the stage `prepared` reads is not constant. Returns nullopt
/// if the tensor is constant, or if its producer is computed inside of `prepared`: the caller
/// checks such producers too.
std::optional<std::string> why_not_constant(const Nest& nest, const StageNest& prepared,
                                            const std::string& tensor) {
  if (const dsl::Input* input = nest.compute.find_input(tensor)) {
    if (input->constant) return std::nullopt;
    return fmt::format("it reads the input '{}', which is not constant: declare it as a weight",
                       tensor);
  }
  const StageNest* const producer = stage_with_result(nest, tensor);
  if (!producer || producer->prepared) return std::nullopt;
  if (!placed_inside(nest, *producer, prepared.stage.name).empty()) return std::nullopt;
  return fmt::format("it reads '{}', which each call computes: prepare or inline that first",
                     tensor);
}

/// Finds the first read of `reader` that is not constant and returns the reason; nullopt if all
/// reads are constant. `reader` is the stage `prepared` or a stage that is computed inside of it.
std::optional<std::string> why_not(const Nest& nest, const StageNest& prepared,
                                   const StageNest& reader) {
  std::optional<std::string> why;
  const auto see = [&](const dsl::Read& r) {
    if (!why) why = why_not_constant(nest, prepared, r.tensor);
  };
  for_each_read(reader.stage.body, see);
  if (reader.epilogue) for_each_read(reader.epilogue->body, see);
  return why;
}

std::optional<std::string> why_not(const Nest& nest, const StageNest& prepared) {
  if (nest.compute.is_output(prepared.result()))
    return fmt::format("it computes '{}', which is an output", prepared.result());
  if (prepared.at)
    return fmt::format("it is computed inside '{}', in each call", prepared.at->consumer);
  for (const StageNest& reader : nest.stages)
    if (reader.stage.name == prepared.stage.name ||
        !placed_inside(nest, reader, prepared.stage.name).empty())
      if (auto why = why_not(nest, prepared, reader)) return why;
  return std::nullopt;
}

}  // namespace

Status check_prepared(const Nest& nest) {
  for (const StageNest& stage : nest.stages)
    if (const auto why = stage.prepared ? why_not(nest, stage) : std::nullopt)
      return fail(ErrorCode::Invalid, fmt::format("[prepare] '{}' cannot be computed ahead of the "
                                                  "calls: {}",
                                                  stage.stage.name, *why));
  return {};
}

bool can_be_prepared(const Nest& nest, const StageNest& stage) { return !why_not(nest, stage); }

bool is_kernel_argument(const Nest& nest, const std::string& tensor) {
  if (nest.compute.find_input(tensor)) return true;
  const StageNest* const producer = stage_with_result(nest, tensor);
  return producer && producer->prepared;
}

}  // namespace tw::schedules

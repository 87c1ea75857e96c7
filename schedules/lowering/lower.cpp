// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/lower.h"

#include <algorithm>
#include <memory>
#include <set>

#include "schedules/lowering/check_placements.h"
#include "schedules/lowering/emit.h"
#include "schedules/lowering/finish.h"
#include "schedules/program/guards.h"
#include "schedules/program/legality.h"
#include "schedules/program/threads.h"

namespace tw::schedules {
namespace {

Argument make_argument(const Nest& nest, const std::string& name, bool is_output, bool constant) {
  Argument argument;
  argument.shape = nest.compute.shape_of(name);
  argument.letters = nest.compute.letters_of(name);
  const auto layout = nest.layouts.find(name);
  argument.layout = layout != nest.layouts.end()
                        ? layout->second
                        : dsl::Layout::row_major(static_cast<int>(argument.shape.size()));
  argument.buffer = {name, nest.compute.type_of(name),
                     argument.layout.storage_shape(argument.shape), Scope::Argument};
  argument.is_output = is_output;
  argument.constant = constant;
  return argument;
}

Buffer scratch_buffer(const Nest& nest, const std::string& name) {
  Buffer buffer = make_argument(nest, name, false, false).buffer;
  buffer.scope = Scope::Scratch;
  return buffer;
}

/// Appends the phases of all prepared stages if `prepared` is true, else those of all other stages.
Status add_phases(const Nest& nest, bool prepared, const Limits& limits, Program& program) {
  for (const StageNest& s : nest.stages) {
    if (s.at || s.prepared != prepared) continue;
    TW_TRY(Phase phase, emit(nest, s));
    TW_RETURN_IF_ERROR(check_swizzles(phase));
    auto resolved =
        resolve_guards(hoist_guards(*phase.body), phase.axes, limits.unrolled_statements);
    if (!resolved) return too_large(phase.name, limits);
    phase.body = block(std::move(*resolved));
    program.phases.push_back(std::move(phase));
  }
  // Indices are finished after all phases are resolved, because many nests turn out to be too large
  // before.
  finish(nest, program.arguments, program.phases);
  for (Phase& phase : program.phases)
    if (has_threads(*phase.body)) phase.body = block(mark_uniform(place_barriers(*phase.body)));
  return {};
}

std::set<std::string> buffers_read(const Program& program) {
  std::set<std::string> names;
  for (const Phase& phase : program.phases)
    for_each(*phase.body, [&](const Stmt& stmt) {
      for_each_access(stmt, [&](const BufferAccess& access) {
        if (!access.is_store) names.insert(access.buffer);
      });
    });
  return names;
}

/// Lowers the prepared stages to Program::preparation. Results that calls read are outputs of the
/// preparation and arguments of the program. Results that only other prepared stages read are
/// scratch buffers of the preparation.
Status add_preparation(const Nest& nest, const Limits& limits, Program& program) {
  if (std::ranges::none_of(nest.stages, &StageNest::prepared)) return {};
  const std::set<std::string> read_by_calls = buffers_read(program);
  Program preparation;
  for (const StageNest& s : nest.stages) {
    if (!s.prepared) continue;
    if (!read_by_calls.contains(s.result())) {
      preparation.scratch.push_back(scratch_buffer(nest, s.result()));
      continue;
    }
    preparation.arguments.push_back(make_argument(nest, s.result(), true, false));
    Argument& argument =
        program.arguments.emplace_back(make_argument(nest, s.result(), false, true));
    argument.prepared = true;
  }
  if (preparation.arguments.empty()) return {};
  TW_RETURN_IF_ERROR(add_phases(nest, true, limits, preparation));
  const std::set<std::string> read_ahead = buffers_read(preparation);
  std::vector<Argument> inputs;
  for (Argument& argument : program.arguments) {
    if (argument.is_output || argument.prepared || !read_ahead.contains(argument.buffer.name))
      continue;
    inputs.push_back(argument);
    argument.only_prepares = !read_by_calls.contains(argument.buffer.name);
  }
  preparation.arguments.insert(preparation.arguments.begin(), inputs.begin(), inputs.end());
  program.preparation = std::make_shared<const Program>(std::move(preparation));
  return {};
}

}  // namespace

Result<Program> lower(const Nest& nest, const Limits& limits) {
  Program program;
  for (const dsl::Input& input : nest.compute.inputs)
    program.arguments.push_back(make_argument(nest, input.name, false, input.constant));
  for (const std::string& output : nest.compute.outputs)
    program.arguments.push_back(make_argument(nest, output, true, false));
  for (const StageNest& s : nest.stages)
    if (!s.at && !s.prepared && !nest.compute.is_output(s.result()))
      program.scratch.push_back(scratch_buffer(nest, s.result()));
  TW_RETURN_IF_ERROR(check_placements(nest));
  TW_RETURN_IF_ERROR(add_phases(nest, false, limits, program));
  TW_RETURN_IF_ERROR(add_preparation(nest, limits, program));
  TW_RETURN_IF_ERROR(check_legal(program, limits));
  return program;
}

}  // namespace tw::schedules

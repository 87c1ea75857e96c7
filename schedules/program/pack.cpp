// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/pack.h"

#include <fmt/format.h>

#include "schedules/program/simplify.h"

namespace tw::schedules {
namespace {

Expr storage_variable(size_t part) { return dsl::var(fmt::format("s{}", part)); }

/// Returns the index of each logical dimension as an expression of the storage variables
/// (storage_variable()) of its parts. The innermost part has stride 1.
std::vector<Expr> logical_indices(const dsl::Layout& layout) {
  const auto dims = static_cast<size_t>(layout.rank());
  std::vector<Expr> indices(dims, Expr(0));
  std::vector<int64_t> strides(dims, 1);
  for (size_t i = layout.parts().size(); i > 0; --i) {
    const dsl::Layout::Part& part = layout.parts()[i - 1];
    const auto dim = static_cast<size_t>(part.dim);
    indices[dim] = storage_variable(i - 1) * Expr(strides[dim]) + indices[dim];
    if (part.factor) strides[dim] *= part.factor;
  }
  return indices;
}

/// Returns the condition that an element of the storage, which the layout may round up, exists in
/// the tensor; the constant true if the layout rounds nothing up.
Expr inside_condition(const Argument& argument, const std::vector<Expr>& indices) {
  Bounds bounds;
  for (size_t i = 0; i < argument.buffer.extents.size(); ++i)
    bounds.push_loop(fmt::format("s{}", i), 0, argument.buffer.extents[i]);
  Expr inside = dsl::constant_int(Bool, 1);
  for (size_t dim = 0; dim < indices.size(); ++dim)
    inside = inside && simplify(indices[dim] < Expr(argument.shape[dim]), bounds);
  return inside;
}

Argument row_major_argument(const std::string& name, const Argument& like,
                            const std::vector<int64_t>& extents, bool is_output) {
  const int rank = static_cast<int>(extents.size());
  return {{name, like.buffer.type, extents, Scope::Argument},
          extents,
          dsl::Layout::row_major(rank),
          dsl::default_letters(rank),
          is_output,
          false};
}

/// Names of the two arrays between which a phase copies.
struct Names {
  std::string logical, storage;
};

Phase pack_phase(const Argument& argument, const Names& names) {
  const std::vector<int64_t>& extents = argument.buffer.extents;
  const DType type = argument.buffer.type;
  const std::vector<Expr> logical = logical_indices(argument.layout);
  const Expr inside = inside_condition(argument, logical);
  std::vector<Expr> storage;
  for (size_t i = 0; i < extents.size(); ++i) storage.push_back(storage_variable(i));

  Stmt body;
  if (argument.is_output) {
    const Stmt copy{Assign{names.logical, logical, dsl::read(names.storage, storage, type)}};
    body = dsl::is_int(inside, 1) ? copy : Stmt{If{inside, block({copy})}};
  } else {
    body = {Assign{
        names.storage, storage,
        dsl::select(inside, dsl::read(names.logical, logical, type), dsl::constant_int(type, 0))}};
  }
  for (size_t i = extents.size(); i > 1; --i)
    body = {Loop{fmt::format("s{}", i - 1), 0, extents[i - 1], LoopKind::Serial, block({body})}};
  Phase phase{"pack", {}, block({body})};
  if (!extents.empty()) phase.axes = {{"s0", extents[0]}};
  return phase;
}

/// True if calls of the problem's kernels pack or unpack the argument.
bool is_converted(const Argument& argument, const Problem& problem) {
  return !argument.constant && !argument.prepared && !argument.only_prepares &&
         !argument.layout.is_row_major() && !problem.layouts.contains(argument.buffer.name);
}

}  // namespace

Program pack_program(const Argument& argument) {
  Program program;
  const Argument logical =
      row_major_argument("logical", argument, argument.shape, argument.is_output);
  const Argument storage =
      row_major_argument("storage", argument, argument.buffer.extents, !argument.is_output);
  program.arguments =
      argument.is_output ? std::vector{storage, logical} : std::vector{logical, storage};
  program.phases = {pack_phase(argument, {"logical", "storage"})};
  return program;
}

Program program_of_call(Program program, const Problem& problem, const Target& target) {
  if (!problem.converts || target.is_gpu()) return program;
  std::vector<Phase> packs, unpacks;
  for (Argument& argument : program.arguments) {
    if (!is_converted(argument, problem)) continue;
    const Names names{argument.buffer.name + " of the caller", argument.buffer.name};
    (argument.is_output ? unpacks : packs).push_back(pack_phase(argument, names));
    Buffer storage = argument.buffer;
    storage.scope = Scope::Scratch;
    program.scratch.push_back(std::move(storage));
    argument = row_major_argument(names.logical, argument, argument.shape, argument.is_output);
  }
  program.phases.insert(program.phases.begin(), packs.begin(), packs.end());
  program.phases.insert(program.phases.end(), unpacks.begin(), unpacks.end());
  return program;
}

}  // namespace tw::schedules

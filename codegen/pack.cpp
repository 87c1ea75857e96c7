// SPDX-License-Identifier: Apache-2.0
#include "codegen/pack.h"

#include <fmt/format.h>

#include "schedules/simplify.h"

namespace tw::codegen {
namespace {

using schedules::Argument;
using schedules::Assign;
using schedules::Bounds;
using schedules::Expr;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Phase;
using schedules::Program;
using schedules::Stmt;

Expr storage_variable(size_t part) { return dsl::var(fmt::format("s{}", part)); }

/// The index of each dimension as an expression of the variables of its parts, of which the
/// innermost has stride one.
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

/// The condition that an element of the storage, which the layout may round up, exists in the
/// tensor; the constant true if the layout rounds nothing up.
Expr inside_condition(const Argument& argument, const std::vector<Expr>& indices) {
  Bounds bounds;
  for (size_t i = 0; i < argument.buffer.extents.size(); ++i)
    bounds.push_loop(fmt::format("s{}", i), 0, argument.buffer.extents[i]);
  Expr inside = dsl::constant_int(Bool, 1);
  for (size_t dim = 0; dim < indices.size(); ++dim)
    inside = inside && schedules::simplify(indices[dim] < Expr(argument.shape[dim]), bounds);
  return inside;
}

Argument row_major_argument(const std::string& name, const Argument& like,
                            const std::vector<int64_t>& extents, bool is_output) {
  const int rank = static_cast<int>(extents.size());
  return {{name, like.buffer.type, extents, schedules::Scope::Argument},
          extents,
          dsl::Layout::row_major(rank),
          dsl::default_letters(rank),
          is_output,
          false};
}

}  // namespace

Program pack_program(const Argument& argument) {
  const std::vector<int64_t>& extents = argument.buffer.extents;
  const DType type = argument.buffer.type;
  const std::vector<Expr> logical = logical_indices(argument.layout);
  const Expr inside = inside_condition(argument, logical);
  std::vector<Expr> storage;
  for (size_t i = 0; i < extents.size(); ++i) storage.push_back(storage_variable(i));

  Program program;
  Stmt body;
  if (argument.is_output) {
    program.arguments = {row_major_argument("storage", argument, extents, false),
                         row_major_argument("logical", argument, argument.shape, true)};
    const Stmt copy{Assign{"logical", logical, dsl::read("storage", storage, type)}};
    body = dsl::is_int(inside, 1) ? copy : Stmt{If{inside, schedules::block({copy})}};
  } else {
    program.arguments = {row_major_argument("logical", argument, argument.shape, false),
                         row_major_argument("storage", argument, extents, true)};
    body = {Assign{
        "storage", storage,
        dsl::select(inside, dsl::read("logical", logical, type), dsl::constant_int(type, 0))}};
  }
  for (size_t i = extents.size(); i > 1; --i)
    body = {Loop{fmt::format("s{}", i - 1), 0, extents[i - 1], LoopKind::Serial,
                 schedules::block({body})}};
  Phase phase{"pack", {}, schedules::block({body})};
  if (!extents.empty()) phase.axes = {{"s0", extents[0]}};
  program.phases = {phase};
  return program;
}

}  // namespace tw::codegen

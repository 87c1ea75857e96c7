// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/masked_branches.h"

#include <algorithm>
#include <cstdint>

namespace tw::codegen::halide {
namespace {

/// True if the reads of an expression can run under a mask. Reads that are the same in all lanes
/// get no mask, so they must be legal also if no lane takes the branch.
bool reads_can_be_masked(const PhaseScope& scope, const Expr& expr, bool anywhere) {
  bool can = true;
  dsl::for_each(expr, [&](const Expr& e) {
    if (const auto* read = e.as<dsl::Read>())
      can &= uses_vector_variable(scope, read->indices)
                 ? anywhere || is_dense(scope, read->tensor, read->indices)
                 : scope.is_always_inside(scope.access(read->tensor).buffer, read->indices);
  });
  return can;
}

/// True if a side of a comparison of indices may wrap.
bool has_side_that_may_wrap(const schedules::Bounds& bounds, const Expr& condition) {
  bool may_wrap = false;
  dsl::for_each(condition, [&](const Expr& e) {
    const auto* b = e.as<dsl::Binary>();
    if (b && e.type() == Bool && b->a.type() == Int64)
      may_wrap = may_wrap || bounds.may_wrap(b->a) || bounds.may_wrap(b->b);
  });
  return may_wrap;
}

bool is_covered(const PhaseScope& scope, const Masks& masks, const std::string& buffer,
                const std::vector<Expr>& indices, bool is_store) {
  const Access& access = scope.access(buffer);
  return masks.cover(storage_type(access.buffer.type)) ||
         ((!is_store || access.own) && scope.is_always_inside(access.buffer, indices));
}

}  // namespace

bool can_be_masked(const PhaseScope& scope, const Block& body, bool anywhere) {
  return std::all_of(body.begin(), body.end(), [&](const Stmt& stmt) {
    return schedules::visit(
        stmt,
        [&](const If& branch) {
          return reads_can_be_masked(scope, branch.condition, anywhere) &&
                 can_be_masked(scope, *branch.body, anywhere);
        },
        [&](const Assign& assign) {
          return uses_vector_variable(scope, assign.indices) &&
                 (anywhere || is_dense(scope, assign.buffer, assign.indices)) &&
                 reads_can_be_masked(scope, assign.value, anywhere);
        },
        always<Loop, Allocate, Barrier, Commit, Wait, PrefetchLines>(false));
  });
}

bool are_masks_cheap(const PhaseScope& scope, const Masks& masks, const Block& body) {
  const auto are_covered = [&](const Expr& expr) {
    bool covered = true;
    dsl::for_each(expr, [&](const Expr& e) {
      const auto* read = e.as<dsl::Read>();
      covered &= !read || is_covered(scope, masks, read->tensor, read->indices, false);
    });
    return covered;
  };
  return can_be_masked(scope, body, false) &&
         std::all_of(body.begin(), body.end(), [&](const Stmt& stmt) {
           return schedules::visit(
               stmt,
               [&](const If& branch) {
                 return are_covered(branch.condition) &&
                        are_masks_cheap(scope, masks, *branch.body);
               },
               [&](const Assign& assign) {
                 return is_covered(scope, masks, assign.buffer, assign.indices, true) &&
                        are_covered(assign.value);
               },
               always<Loop, Allocate, Barrier, Commit, Wait, PrefetchLines>(false));
         });
}

/// A linear inequality in the index of the lane holds for all lanes if it holds for the first and
/// the last lane. This is not so if a side may wrap between two lanes. The result has the parts of
/// the condition in their order, because a part may guard the reads of those after it.
std::optional<Expr> in_all_lanes(const PhaseScope& scope, const Expr& condition) {
  const std::string* variable = scope.vector_variable(condition);
  if (!variable || has_side_that_may_wrap(scope.bounds(), condition)) return std::nullopt;
  const Expr lane = dsl::var(*variable);
  const Range range = scope.ranges().of(lane);
  std::vector<Expr> parts;
  dsl::for_each_conjunct(condition, [&](const Expr& part) { parts.push_back(part); });
  Expr all = dsl::constant_int(Bool, 1);
  for (const Expr& part : parts) {
    const schedules::Constraints constraints = schedules::split_condition(part);
    for (const Expr& opaque : constraints.opaque) {
      if (uses_vector_variable(scope, opaque)) return std::nullopt;
      all = all && opaque;
    }
    for (Affine affine : constraints.affine) {
      const int64_t step = affine.coefficient(lane);
      affine.add(lane, -step);
      if (uses_vector_variable(scope, schedules::to_expr(affine))) return std::nullopt;
      affine.constant += step * (step > 0 ? range.low : range.high);
      all = all && schedules::to_condition(affine);
    }
  }
  return scope.simplify(all);
}

bool leaves_masked_lane(const PhaseScope& scope, const Masks& masks, const Loop& loop) {
  const auto begin = dsl::as_int(loop.begin), end = dsl::as_int(loop.end);
  if (loop.kind != LoopKind::Vector || !begin || !end) return false;
  const int64_t lanes = *end - *begin;
  bool branches = false, leaves_one = false;
  schedules::for_each(*loop.body, [&](const Stmt& stmt) {
    branches |= stmt.as<If>() != nullptr;
    schedules::for_each_access(stmt, [&](const schedules::BufferAccess& found) {
      const Access* access = scope.find_access(found.buffer);
      if (!access) return;
      const int64_t native = masks.vector_bits / storage_type(access->buffer.type).bits();
      leaves_one |= lanes > native && lanes % native == 1;
    });
  });
  return branches && leaves_one;
}

bool leaves_one_lane(const PhaseScope& scope, const Masks& masks, DType type,
                     const std::vector<Expr>& indices) {
  const int64_t native = masks.vector_bits / storage_type(type).bits();
  bool leaves = false;
  for (const Expr& index : indices)
    dsl::for_each(index, [&](const Expr& e) {
      const auto* v = e.as<dsl::Var>();
      if (!v || scope.variable(v->name).kind != LoopKind::Vector) return;
      const Range range = scope.ranges().of(e);
      const int64_t lanes = range.high - range.low + 1;
      leaves |= lanes > native && lanes % native == 1;
    });
  return leaves;
}

}  // namespace tw::codegen::halide

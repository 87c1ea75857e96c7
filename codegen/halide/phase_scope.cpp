// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/phase_scope.h"

#include <algorithm>

#include "schedules/program/simplify.h"

namespace tw::codegen::halide {

std::string PhaseScope::fresh(const std::string& name) {
  return name + "$" + std::to_string(names_++);
}

void PhaseScope::enter(const std::string& variable, const Expr& begin, const Expr& end,
                       const std::string& name, LoopKind kind) {
  ranges_.set(variable, begin, end);
  bounds_.push_loop(variable, begin, end);
  variables_[variable] = {hi::Variable::make(index32, name), depth_++, kind};
}

void PhaseScope::enter(const Expr& condition) { bounds_.push_condition(condition); }

void PhaseScope::restore(const Mark& mark) {
  bounds_.restore(mark.bounds);
  depth_ = mark.depth;
}

int PhaseScope::depth(const Expr& expr) const {
  int deepest = -1;
  dsl::for_each(expr, [&](const Expr& e) {
    if (const auto* v = e.as<dsl::Var>()) deepest = std::max(deepest, variables_.at(v->name).depth);
  });
  return deepest;
}

const Access* PhaseScope::find_access(const std::string& buffer) const {
  const auto found = accesses_.find(buffer);
  return found == accesses_.end() ? nullptr : &found->second;
}

Expr PhaseScope::simplify(const Expr& expr) const { return schedules::simplify(expr, bounds_); }

Affine PhaseScope::affine_index(const Buffer& buffer, const std::vector<Expr>& indices) const {
  return schedules::reduce_divisions(
      schedules::to_affine(simplify(schedules::linear_index(buffer, indices))), bounds_);
}

Halide::Type PhaseScope::width(const Expr& expr) const {
  return ranges_.all_fit_int32(expr) ? index32 : index64;
}

bool PhaseScope::is_always_inside(const Buffer& buffer, const std::vector<Expr>& indices) const {
  for (size_t i = 0; i < indices.size(); ++i)
    if (!is_in_range(indices[i], buffer.extents[i]) &&
        !bounds_.proves_inside(indices[i], buffer.extents[i]))
      return false;
  return true;
}

bool PhaseScope::is_in_range(const Buffer& buffer, const std::vector<Expr>& indices) const {
  for (size_t i = 0; i < indices.size(); ++i)
    if (!is_in_range(indices[i], buffer.extents[i])) return false;
  return true;
}

bool PhaseScope::is_in_range(const Expr& index, int64_t extent) const {
  const Range range = ranges_.of(index);
  return range.low >= 0 && range.high < extent;
}

const std::string* PhaseScope::vector_variable(const Expr& expr) const {
  const auto found = std::find_if(variables_.begin(), variables_.end(), [&](const auto& entry) {
    return entry.second.kind == LoopKind::Vector && dsl::uses_var(expr, entry.first);
  });
  return found == variables_.end() ? nullptr : &found->first;
}

bool uses_vector_variable(const PhaseScope& scope, const Expr& expr) {
  bool uses = false;
  dsl::for_each(expr, [&](const Expr& e) {
    const auto* v = e.as<dsl::Var>();
    uses |= v && scope.variable(v->name).kind == LoopKind::Vector;
  });
  return uses;
}

bool uses_vector_variable(const PhaseScope& scope, const std::vector<Expr>& indices) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return uses_vector_variable(scope, index); });
}

bool needs_index_vector(const PhaseScope& scope, const Affine& index) {
  return std::any_of(index.terms.begin(), index.terms.end(), [&](const Affine::Term& term) {
    return uses_vector_variable(scope, term.atom) &&
           (term.coefficient != 1 || !term.atom.as<dsl::Var>());
  });
}

bool is_dense(const PhaseScope& scope, const std::string& buffer,
              const std::vector<Expr>& indices) {
  return !needs_index_vector(scope, scope.affine_index(scope.access(buffer).buffer, indices));
}

bool is_same_in_copies(const PhaseScope& scope, const Expr& expr) {
  bool same = true;
  dsl::for_each(expr, [&](const Expr& e) {
    const auto* v = e.as<dsl::Var>();
    same &= !e.as<dsl::Read>() && !(v && scope.variable(v->name).kind != LoopKind::Serial);
  });
  return same;
}

}  // namespace tw::codegen::halide

// SPDX-License-Identifier: Apache-2.0
#include "schedules/guards.h"

#include <algorithm>
#include <limits>

#include "base/integer.h"
#include "schedules/affine.h"
#include "schedules/simplify.h"

namespace tw::schedules {
namespace {

// Iterations that peeling may write out on each side of a loop. A kernel as wide as 11 taps has 5
// at an edge; beyond that code size costs more than the branches.
constexpr int64_t most_peeled = 5;

Expr conjunction(const Constraints& constraints) {
  Expr all = dsl::constant_int(Bool, 1);
  for (const Affine& affine : constraints.affine) all = all && to_condition(affine);
  for (const Expr& opaque : constraints.opaque) all = all && opaque;
  return all;
}

bool uses(const Affine& affine, const std::string& variable) {
  return std::any_of(affine.terms.begin(), affine.terms.end(),
                     [&](const Affine::Term& term) { return dsl::uses_var(term.atom, variable); });
}

Block guarded(const Expr& condition, Block body) {
  if (dsl::is_int(condition, 1)) return body;
  if (dsl::is_int(condition, 0) || body.empty()) return {};
  return {Stmt{If{condition, block(std::move(body))}}};
}

Block substitute_in(const Block& body, const std::string& variable, const Expr& value) {
  const dsl::Substitution replacement = {{variable, value}};
  return map_expressions(body, [&](const Expr& e) { return dsl::substitute(e, replacement); });
}

// ---- hoisting -------------------------------------------------------------------------------

Block hoist_loop(const Loop& loop) {
  Block body = hoist_guards(*loop.body);
  const If* only = body.size() == 1 ? body[0].as<If>() : nullptr;
  if (!only)
    return {Stmt{Loop{loop.variable, loop.begin, loop.end, loop.kind, block(std::move(body))}}};
  Constraints inside, outside;
  const Constraints all = split_condition(only->condition);
  for (const Affine& affine : all.affine)
    (uses(affine, loop.variable) ? inside : outside).affine.push_back(affine);
  for (const Expr& opaque : all.opaque)
    (dsl::uses_var(opaque, loop.variable) ? inside : outside).opaque.push_back(opaque);
  Block kept = guarded(conjunction(inside), *only->body);
  return guarded(
      conjunction(outside),
      {Stmt{Loop{loop.variable, loop.begin, loop.end, loop.kind, block(std::move(kept))}}});
}

Block hoist_allocate(const Allocate& allocate) {
  Block body = hoist_guards(*allocate.body);
  const If* only = body.size() == 1 ? body[0].as<If>() : nullptr;
  if (!only) return {Stmt{Allocate{allocate.buffer, block(std::move(body))}}};
  return guarded(only->condition, {Stmt{Allocate{allocate.buffer, only->body}}});
}

Block hoist_if(const If& branch) {
  Block body = hoist_guards(*branch.body);
  const If* only = body.size() == 1 ? body[0].as<If>() : nullptr;
  if (only) return guarded(branch.condition && only->condition, *only->body);
  return guarded(branch.condition, std::move(body));
}

// ---- clamped indices ------------------------------------------------------------------------

/// The constraints under which no read is clamped along its last dimension.
std::vector<Affine> clamps_of(const Stmt& stmt) {
  std::vector<Affine> constraints;
  const Assign* assign = stmt.as<Assign>();
  if (!assign) return constraints;
  dsl::for_each(assign->value, [&](const Expr& e) {
    const dsl::Read* r = e.as<dsl::Read>();
    if (!r) return;
    // Lanes along another dimension are not next to each other, clamped or not.
    if (r->indices.empty()) return;
    for (Affine& affine : unclamp(r->indices.back()).at_least_zero)
      constraints.push_back(std::move(affine));
  });
  return constraints;
}

bool clamps_somewhere(const Block& body) {
  bool clamps = false;
  for_each(body, [&](const Stmt& stmt) { clamps = clamps || !clamps_of(stmt).empty(); });
  return clamps;
}

// ---- resolving ------------------------------------------------------------------------------

class Resolver {
 public:
  Resolver(int64_t most_statements, bool clamps)
      : most_statements_(most_statements), clamps_(clamps) {}
  bool is_too_large() const { return statements_ > most_statements_; }
  /// Unspecified once it is too large.
  Block run(const Block& body, const std::vector<TaskAxis>& axes, size_t next_axis);

 private:
  /// Values of a variable for which all guards that would stay in hot loops hold, and no clamp of
  /// an index of vectors takes effect.
  struct Steady {
    int64_t low = std::numeric_limits<int64_t>::min();
    int64_t high = std::numeric_limits<int64_t>::max();  // inclusive
    bool needed = false;
  };
  /// The loops between a variable's own and a statement, outermost first.
  struct Inside {
    struct Level {
      std::string variable;
      LoopKind kind;
    };
    std::string variable;
    std::vector<Level> loops;
    Steady steady;
  };
  Steady steady_range(const std::string& variable, const Block& body);
  void gather(const Block& body, Inside& inside);
  static LoopKind innermost_kind(const Affine& affine, const Inside& inside);
  void narrow(const Affine& at_least_zero, Inside& inside) const;

  Block resolve(const Block& body);
  Block resolve_loop(const Loop& loop, bool may_peel);
  Block resolve_if(const If& branch);
  Block peel(const Loop& loop, const Steady& steady);
  Loop trim(const Loop& loop, Constraints& guards);

  Bounds bounds_;
  int64_t most_statements_;
  bool clamps_;             ///< some index is a minimum or maximum
  int64_t statements_ = 0;  ///< resolved so far, each as often as it will be unrolled
  int64_t copies_ = 1;      ///< of a statement here, by the unrolled loops around it
};

void Resolver::gather(const Block& body, Inside& inside) {
  for (const Stmt& stmt : body) {
    if (const Loop* loop = stmt.as<Loop>()) {
      const auto mark = bounds_.mark();
      bounds_.push_loop(loop->variable, loop->begin, loop->end);
      inside.loops.push_back({loop->variable, loop->kind});
      gather(*loop->body, inside);
      inside.loops.pop_back();
      bounds_.restore(mark);
    } else if (const Allocate* allocate = stmt.as<Allocate>()) {
      gather(*allocate->body, inside);
    } else if (const If* branch = stmt.as<If>()) {
      // A serial loop absorbs a guard in its bounds, anything else needs constants.
      for (const Affine& affine : split_condition(branch->condition).affine)
        if (innermost_kind(affine, inside) != LoopKind::Serial) narrow(affine, inside);
      gather(*branch->body, inside);
    } else if (clamps_) {
      // Lanes whose indices are clamped are not next to each other; for one element it costs
      // little.
      for (const Affine& affine : clamps_of(stmt))
        if (innermost_kind(affine, inside) == LoopKind::Vector) narrow(affine, inside);
    }
  }
}

/// Of the loops inside, the innermost that the constraint uses decides where it can go.
LoopKind Resolver::innermost_kind(const Affine& affine, const Inside& inside) {
  for (auto loop = inside.loops.rbegin(); loop != inside.loops.rend(); ++loop)
    if (uses(affine, loop->variable)) return loop->kind;
  return LoopKind::Serial;
}

/// To the values for which `at_least_zero` always holds.
void Resolver::narrow(const Affine& at_least_zero, Inside& inside) const {
  const int64_t a = at_least_zero.coefficient(dsl::var(inside.variable));
  if (a == 0) return;
  const auto low = bounds_.lower(at_least_zero);
  if (low && *low >= 0) return;
  Affine rest = at_least_zero;
  rest.add(dsl::var(inside.variable), -a);
  const auto rest_low = bounds_.lower(rest);
  if (!rest_low) return;
  Steady& steady = inside.steady;
  steady.needed = true;
  if (a > 0) {
    steady.low = std::max(steady.low, ceil_div(-*rest_low, a));
  } else {
    steady.high = std::min(steady.high, floor_div(*rest_low, -a));
  }
}

Resolver::Steady Resolver::steady_range(const std::string& variable, const Block& body) {
  Inside inside{variable, {}, {}};
  gather(body, inside);
  return inside.steady;
}

Block Resolver::run(const Block& body, const std::vector<TaskAxis>& axes, size_t next_axis) {
  if (next_axis == axes.size()) return resolve(body);
  const TaskAxis& axis = axes[next_axis];
  const Expr v = dsl::var(axis.variable);
  const auto mark = bounds_.mark();
  bounds_.push_loop(axis.variable, Expr(0), Expr(axis.extent));
  const Steady steady = steady_range(axis.variable, body);
  const int64_t low = std::clamp<int64_t>(steady.low, 0, axis.extent);
  const int64_t high = std::clamp<int64_t>(steady.high, -1, axis.extent - 1);
  const bool peels =
      steady.needed && low <= high && low <= most_peeled && axis.extent - 1 - high <= most_peeled;
  Block result;
  if (!peels) {
    result = run(body, axes, next_axis + 1);
    bounds_.restore(mark);
    return result;
  }
  const auto branch = [&](const Expr& condition, const Block& inner) {
    const auto inside = bounds_.mark();
    bounds_.push_condition(condition);
    for (Stmt& stmt : guarded(condition, run(inner, axes, next_axis + 1)))
      result.push_back(std::move(stmt));
    bounds_.restore(inside);
  };
  for (int64_t i = 0; i < low; ++i)
    branch(dsl::eq(v, Expr(i)), substitute_in(body, axis.variable, Expr(i)));
  branch(Expr(low) <= v && v < Expr(high + 1), body);
  for (int64_t i = high + 1; i < axis.extent; ++i)
    branch(dsl::eq(v, Expr(i)), substitute_in(body, axis.variable, Expr(i)));
  bounds_.restore(mark);
  return result;
}

Block Resolver::resolve(const Block& body) {
  Block result;
  for (const Stmt& stmt : body) {
    if (is_too_large()) return {};
    Block part;
    if (const Loop* loop = stmt.as<Loop>()) {
      part = resolve_loop(*loop, true);
    } else if (const If* branch = stmt.as<If>()) {
      part = resolve_if(*branch);
    } else if (const Allocate* allocate = stmt.as<Allocate>()) {
      Block inner = resolve(*allocate->body);
      if (!inner.empty()) part = {Stmt{Allocate{allocate->buffer, block(std::move(inner))}}};
    } else {
      part = {stmt};
      statements_ += copies_;
    }
    for (Stmt& s : part) result.push_back(std::move(s));
  }
  return result;
}

Block Resolver::resolve_if(const If& branch) {
  const Expr condition = simplify(branch.condition, bounds_);
  if (dsl::is_int(condition, 0)) return {};
  const auto mark = bounds_.mark();
  bounds_.push_condition(condition);
  Block body = resolve(*branch.body);
  bounds_.restore(mark);
  return guarded(condition, std::move(body));
}

Loop Resolver::trim(const Loop& loop, Constraints& guards) {
  Loop trimmed = loop;
  const Expr v = dsl::var(loop.variable);
  std::erase_if(guards.affine, [&](const Affine& affine) {
    const int64_t a = affine.coefficient(v);
    Affine rest = affine;
    rest.add(v, -a);
    if (a == 0 || uses(rest, loop.variable)) return false;
    if (loop.kind != LoopKind::Serial && !rest.is_constant()) return false;
    const Expr r = to_expr(rest);
    if (a > 0) {
      // a v + rest >= 0  <=>  v >= ceil(-rest / a)
      Affine numerator;
      numerator.add(rest, -1);
      numerator.constant += a - 1;
      trimmed.begin = dsl::max(trimmed.begin, to_expr(numerator) / Expr(a));
    } else {
      trimmed.end = dsl::min(trimmed.end, r / Expr(-a) + Expr(1));
    }
    return true;
  });
  trimmed.begin = simplify(trimmed.begin, bounds_);
  trimmed.end = simplify(trimmed.end, bounds_);
  return trimmed;
}

Block Resolver::peel(const Loop& loop, const Steady& steady) {
  const int64_t begin = *dsl::as_int(loop.begin), end = *dsl::as_int(loop.end);
  const bool is_steady = steady.low <= steady.high && loop.kind == LoopKind::Serial;
  const int64_t low = is_steady ? std::clamp(steady.low, begin, end) : end;
  const int64_t high = is_steady ? std::clamp(std::min(steady.high, end - 1) + 1, low, end) : end;
  Block result;
  const auto append = [&](Block part) {
    for (Stmt& s : part) result.push_back(std::move(s));
  };
  for (int64_t i = begin; i < low; ++i)
    append(resolve(substitute_in(*loop.body, loop.variable, Expr(i))));
  if (low < high)
    append(resolve_loop(Loop{loop.variable, Expr(low), Expr(high), loop.kind, loop.body}, false));
  for (int64_t i = high; i < end; ++i)
    append(resolve(substitute_in(*loop.body, loop.variable, Expr(i))));
  return result;
}

Block Resolver::resolve_loop(const Loop& loop, bool may_peel) {
  Block body = *loop.body;
  Loop current = loop;
  if (const If* only = body.size() == 1 ? body[0].as<If>() : nullptr) {
    // Under the loop's own range first: a guard that always holds is no reason to trim.
    const auto mark = bounds_.mark();
    bounds_.push_loop(loop.variable, loop.begin, loop.end);
    Constraints guards = split_condition(simplify(only->condition, bounds_));
    bounds_.restore(mark);
    current = trim(loop, guards);
    body = guarded(conjunction(guards), *only->body);
  }
  current.body = block(std::move(body));
  const auto begin = dsl::as_int(current.begin), end = dsl::as_int(current.end);
  if (begin && end && *end <= *begin) return {};
  if (begin && end && *end == *begin + 1)
    return resolve(substitute_in(*current.body, current.variable, current.begin));
  const auto mark = bounds_.mark();
  bounds_.push_loop(current.variable, current.begin, current.end);
  if (may_peel && begin && end && current.kind != LoopKind::Vector) {
    const Steady steady = steady_range(current.variable, *current.body);
    const bool peels_all = steady.low > steady.high || current.kind == LoopKind::Unrolled;
    const int64_t edges = peels_all ? *end - *begin
                                    : std::clamp(steady.low, *begin, *end) - *begin + *end - 1 -
                                          std::clamp(steady.high, *begin - 1, *end - 1);
    const int64_t most = current.kind == LoopKind::Unrolled ? 16 : 2 * most_peeled;
    if (steady.needed && edges <= most) {
      bounds_.restore(mark);
      return peel(current, steady);
    }
  }
  const int64_t outer_copies = copies_;
  if (current.kind == LoopKind::Unrolled && begin && end) copies_ *= *end - *begin;
  Block inner = resolve(*current.body);
  copies_ = outer_copies;
  bounds_.restore(mark);
  if (inner.empty()) return {};
  current.body = block(std::move(inner));
  return {Stmt{std::move(current)}};
}

}  // namespace

Block hoist_guards(const Block& body) {
  Block result;
  for (const Stmt& stmt : body) {
    Block part;
    if (const Loop* loop = stmt.as<Loop>()) {
      part = hoist_loop(*loop);
    } else if (const Allocate* allocate = stmt.as<Allocate>()) {
      part = hoist_allocate(*allocate);
    } else if (const If* branch = stmt.as<If>()) {
      part = hoist_if(*branch);
    } else {
      part = {stmt};
    }
    for (Stmt& s : part) result.push_back(std::move(s));
  }
  return result;
}

std::optional<Block> resolve_guards(const Block& body, const std::vector<TaskAxis>& task_axes,
                                    int64_t most_statements) {
  Resolver resolver(most_statements, clamps_somewhere(body));
  Block resolved = resolver.run(body, task_axes, 0);
  return resolver.is_too_large() ? std::nullopt : std::optional(std::move(resolved));
}

}  // namespace tw::schedules

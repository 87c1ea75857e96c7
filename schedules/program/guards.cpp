// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/guards.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/integer.h"
#include "schedules/program/affine.h"
#include "schedules/program/simplify.h"
#include "schedules/program/threads.h"

namespace tw::schedules {
namespace {

// The most iterations that peeling may write out on each side of a loop. A kernel window of 11 has
// 5 at an edge. With more iterations the larger code costs more time than the branches do.
constexpr int64_t most_peeled = 5;

Expr conjunction_of(const Constraints& constraints) {
  Expr all = dsl::constant_int(Bool, 1);
  for (const Affine& affine : constraints.affine) all = all && to_condition(affine);
  for (const Expr& opaque : constraints.opaque) all = all && opaque;
  return all;
}

bool uses(const Affine& affine, const std::string& variable) {
  return std::any_of(affine.terms.begin(), affine.terms.end(),
                     [&](const Affine::Term& term) { return dsl::uses_var(term.atom, variable); });
}

int64_t coefficient_of(const Affine& affine, const std::string& variable) {
  for (const Affine::Term& term : affine.terms)
    if (const dsl::Var* v = term.atom.as<dsl::Var>(); v && v->name == variable)
      return term.coefficient;
  return 0;
}

Block guarded(const Expr& condition, Block body) {
  if (dsl::is_int(condition, 1)) return body;
  if (dsl::is_int(condition, 0) || body.empty()) return {};
  return single({If{condition, block(std::move(body))}});
}

void append(Block part, Block& all) {
  if (all.empty()) {
    all = std::move(part);
  } else {
    for (Stmt& stmt : part) all.push_back(std::move(stmt));
  }
}

/// Replaces a variable by a value. Subtrees that do not change are shared with the original.
class Replacement {
 public:
  Replacement(const std::string& variable, const Expr& value)
      : variable_(variable), bit_(dsl::variable_bit(variable)), value_(value) {}

  BlockPtr in(const BlockPtr& body) const {
    for (size_t i = 0; i < body->size(); ++i) {
      std::optional<Stmt> first = changed((*body)[i]);
      if (!first) continue;
      Block result(body->begin(), body->begin() + static_cast<ptrdiff_t>(i));
      result.reserve(body->size());
      result.push_back(std::move(*first));
      for (size_t j = i + 1; j < body->size(); ++j) {
        std::optional<Stmt> other = changed((*body)[j]);
        result.push_back(other ? std::move(*other) : (*body)[j]);
      }
      return block(std::move(result));
    }
    return body;
  }

 private:
  Expr in(const Expr& expr) const {
    if ((expr.node().variables & bit_) == 0) return expr;
    return dsl::substitute(expr, variable_, value_);
  }

  /// Returns the changed statement; nullopt if nothing changes.
  std::optional<Stmt> changed(const Stmt& stmt) const {
    return schedules::visit(
        stmt,
        [&](const Loop& loop) -> std::optional<Stmt> {
          Expr begin = in(loop.begin), end = in(loop.end);
          BlockPtr body = in(loop.body);
          if (begin.same_node(loop.begin) && end.same_node(loop.end) && body == loop.body)
            return std::nullopt;
          Loop result = loop;
          result.begin = std::move(begin);
          result.end = std::move(end);
          result.body = std::move(body);
          return Stmt{std::move(result)};
        },
        [&](const If& branch) -> std::optional<Stmt> {
          Expr condition = in(branch.condition);
          BlockPtr body = in(branch.body);
          if (condition.same_node(branch.condition) && body == branch.body) return std::nullopt;
          return Stmt{If{std::move(condition), std::move(body), branch.uniform}};
        },
        [&](const Assign& assign) { return changed_assign(assign); },
        [&](const Allocate& allocate) -> std::optional<Stmt> {
          BlockPtr body = in(allocate.body);
          if (body == allocate.body) return std::nullopt;
          return Stmt{Allocate{allocate.buffer, std::move(body)}};
        },
        [&](const PrefetchLines& prefetch) -> std::optional<Stmt> {
          Expr offset = in(prefetch.offset);
          if (offset.same_node(prefetch.offset)) return std::nullopt;
          return Stmt{PrefetchLines{prefetch.buffer, std::move(offset), prefetch.lines}};
        },
        always<Barrier, Commit, Wait>(std::optional<Stmt>()));
  }

  std::optional<Stmt> changed_assign(const Assign& assign) const {
    Expr value = in(assign.value);
    bool same = value.same_node(assign.value);
    std::vector<Expr> indices;
    indices.reserve(assign.indices.size());
    for (const Expr& index : assign.indices) {
      indices.push_back(in(index));
      same = same && indices.back().same_node(index);
    }
    std::optional<Guard> guard = assign.guard;
    if (guard) {
      guard->condition = in(guard->condition);
      same = same && guard->condition.same_node(assign.guard->condition);
    }
    if (same) return std::nullopt;
    return Stmt{Assign{assign.buffer, std::move(indices), std::move(value), assign.combine,
                       assign.asynchronous, std::move(guard)}};
  }

  const std::string& variable_;
  const uint64_t bit_;
  const Expr& value_;
};

BlockPtr substitute_in(const BlockPtr& body, const std::string& variable, const Expr& value) {
  return Replacement(variable, value).in(body);
}

// ---- hoisting -------------------------------------------------------------------------------

/// Puts the condition around the body. If the body is a nest of thread loops, the condition is put
/// inside of the innermost loop, because thread loops must directly contain each other.
Block guarded_in_threads(const Expr& condition, const Block& body) {
  const Loop* loop = body.size() == 1 ? body[0].as<Loop>() : nullptr;
  if (!loop || loop->kind != LoopKind::Thread) return guarded(condition, body);
  return single(with_body(body[0], block(guarded_in_threads(condition, *loop->body))));
}

bool has_guards(const Block& body) {
  return std::any_of(body.begin(), body.end(), [](const Stmt& stmt) {
    return schedules::visit(
        stmt, [](const Loop& loop) { return has_guards(*loop.body); },
        [](const Allocate& allocate) { return has_guards(*allocate.body); }, always<If>(true),
        always<Assign, Barrier, Commit, Wait, PrefetchLines>(false));
  });
}

/// Moves the prefetches of a block into its `if`, if the block has nothing else. The condition of
/// the `if` can then leave the loop or trim it:
///
///     for k: prefetch; if k < 7: s   ->   for k: if k < 7: prefetch; s
Block with_prefetches_inside(Block body) {
  const bool precede = body.size() > 1 &&
                       std::all_of(body.begin(), body.end() - 1,
                                   [](const Stmt& s) { return s.as<PrefetchLines>() != nullptr; });
  const If* branch = precede ? body.back().as<If>() : nullptr;
  if (!branch) return body;
  Block inside(body.begin(), body.end() - 1);
  inside.insert(inside.end(), branch->body->begin(), branch->body->end());
  return single(with_body(body.back(), block(std::move(inside))));
}

/// Returns the constraint without the variable of a vector loop, if the constraint holds for all
/// lanes of a vector or for none of them. With 8 lanes `t * 8 + lane <= 127` becomes `t * 8 <=
/// 127`, because 127 is one less than a multiple of 8. Returns any other constraint unchanged.
Affine without_lane(const Affine& constraint, const Loop& loop) {
  const int64_t factor = coefficient_of(constraint, loop.variable);
  const auto lanes = dsl::as_int(loop.end);
  if (factor == 0 || !dsl::is_int(loop.begin, 0) || !lanes || *lanes < 1) return constraint;
  Affine rest = constraint;
  rest.add(dsl::var(loop.variable), -factor);
  if (uses(rest, loop.variable)) return constraint;
  // Without the lane, the value is a multiple of `period` plus `left`. The lane adds at most
  // `reach` to it.
  const int64_t period = std::abs(factor) * *lanes, reach = factor * (*lanes - 1);
  for (const Affine::Term& term : rest.terms)
    if (term.coefficient % period != 0) return constraint;
  const int64_t left = floor_mod(rest.constant, period);
  return 0 <= left + reach && left + reach < period ? rest : constraint;
}

Block hoist_loop(const Loop& loop, const Stmt& stmt) {
  Block body = hoist_guards(*loop.body);
  const If* only = body.size() == 1 ? body[0].as<If>() : nullptr;
  if (!only) return single(with_body(stmt, block(std::move(body))));
  Constraints inside, outside;
  const Constraints all = split_condition(only->condition);
  for (const Affine& each : all.affine) {
    const Affine affine = loop.kind == LoopKind::Vector ? without_lane(each, loop) : each;
    (uses(affine, loop.variable) ? inside : outside).affine.push_back(affine);
  }
  for (const Expr& opaque : all.opaque)
    (dsl::uses_var(opaque, loop.variable) ? inside : outside).opaque.push_back(opaque);
  Block kept = loop.kind == LoopKind::Thread
                   ? guarded_in_threads(conjunction_of(inside), *only->body)
                   : guarded(conjunction_of(inside), *only->body);
  return guarded(conjunction_of(outside), single(with_body(stmt, block(std::move(kept)))));
}

Block hoist_allocate(const Allocate& allocate) {
  Block body = hoist_guards(*allocate.body);
  const If* only = body.size() == 1 ? body[0].as<If>() : nullptr;
  if (!only) return single({Allocate{allocate.buffer, block(std::move(body))}});
  return guarded(only->condition, single({Allocate{allocate.buffer, only->body}}));
}

Block hoist_if(const If& branch) {
  Block body = hoist_guards(*branch.body);
  const If* only = body.size() == 1 ? body[0].as<If>() : nullptr;
  if (only) return guarded(branch.condition && only->condition, *only->body);
  return guarded(branch.condition, std::move(body));
}

// ---- clamped indices ------------------------------------------------------------------------

/// Returns the constraints under which no read of the assignment is clamped along its last
/// dimension.
std::vector<Affine> clamps_of(const Assign& assign) {
  std::vector<Affine> constraints;
  dsl::for_each(assign.value, [&](const Expr& e) {
    const dsl::Read* r = e.as<dsl::Read>();
    if (!r) return;
    // Lanes along another dimension are not contiguous, clamped or not.
    if (r->indices.empty()) return;
    for (Affine& affine : unclamp(r->indices.back()).at_least_zero)
      constraints.push_back(std::move(affine));
  });
  return constraints;
}

bool clamps_somewhere(const Block& body) {
  bool clamps = false;
  for_each(body, [&](const Stmt& stmt) {
    const Assign* assign = stmt.as<Assign>();
    clamps = clamps || (assign && !clamps_of(*assign).empty());
  });
  return clamps;
}

/// True if the condition of an `if` in the body depends on the variable. `bit` is the variable's
/// bit in sets of variables.
bool guards_use(const Block& body, const std::string& variable, uint64_t bit) {
  return std::any_of(body.begin(), body.end(), [&](const Stmt& stmt) {
    const auto inside = [&](const BlockPtr& inner) { return guards_use(*inner, variable, bit); };
    return schedules::visit(
        stmt, [&](const Loop& loop) { return inside(loop.body); },
        [&](const If& branch) {
          const bool uses = (branch.condition.node().variables & bit) &&
                            dsl::uses_var(branch.condition, variable);
          return uses || inside(branch.body);
        },
        [&](const Allocate& allocate) { return inside(allocate.body); },
        always<Assign, Barrier, Commit, Wait, PrefetchLines>(false));
  });
}

// ---- resolving ------------------------------------------------------------------------------

class Resolver {
 public:
  Resolver(const Block& body, int64_t most_statements)
      : most_statements_(most_statements),
        guards_(has_guards(body)),
        clamps_(clamps_somewhere(body)),
        may_peel_(!has_threads(body)) {}
  bool is_too_large() const { return statements_ > most_statements_; }
  /// Returns the resolved body, which is unspecified if is_too_large().
  Block run(const BlockPtr& body, const std::vector<TaskAxis>& axes, size_t next_axis);

 private:
  /// The range of a variable that peeling keeps as a loop; iterations outside of the range are
  /// peeled. Inside of the range, all guards that would stay in hot loops hold, and no index of a
  /// vector access is clamped. If `needed` is false, nothing has to be peeled.
  struct Steady {
    int64_t low = std::numeric_limits<int64_t>::min();
    int64_t high = std::numeric_limits<int64_t>::max();  // inclusive
    bool needed = false;
  };
  /// The loops inside of a variable's loop and around a statement, outermost first, and the range
  /// of the variable found so far.
  struct Inside {
    struct Level {
      std::string variable;
      LoopKind kind;
    };
    const std::string& variable;
    uint64_t bit;  ///< bit of the variable in sets of variables
    std::vector<Level> loops;
    Steady steady;
  };
  Steady steady_range(const std::string& variable, const Block& body);
  void gather(const Block& body, Inside& inside);
  void gather(const Loop& loop, Inside& inside);
  static LoopKind innermost_kind(const Affine& affine, const Inside& inside);
  void narrow(const Affine& at_least_zero, Inside& inside) const;

  Block resolve(const Block& body);
  Block resolve_loop(const Loop& loop, bool may_peel);
  Block resolve_if(const If& branch);
  Block peel(const Loop& loop, const Steady& steady);
  Loop trim(const Loop& loop, Constraints& guards);

  Bounds bounds_;
  int64_t most_statements_;
  bool guards_;    ///< true if a statement has a condition
  bool clamps_;    ///< true if an index is a minimum or maximum
  bool may_peel_;  ///< false if the body has threads: there branches cost little and long code
                   ///< costs much
  int64_t statements_ = 0;  ///< statements resolved so far, counted after unrolling
  int64_t copies_ = 1;      ///< copies of the current statement after unrolling the loops around it
};

void Resolver::gather(const Block& body, Inside& inside) {
  for (const Stmt& stmt : body)
    schedules::visit(
        stmt, [&](const Loop& loop) { gather(loop, inside); },
        [&](const If& branch) {
          // The bounds of a serial loop can be trimmed by a guard; other loops need literal bounds.
          if (dsl::uses_var(branch.condition, inside.variable))
            for (const Affine& affine : split_condition(branch.condition).affine)
              if (innermost_kind(affine, inside) != LoopKind::Serial) narrow(affine, inside);
          gather(*branch.body, inside);
        },
        [&](const Allocate& allocate) { gather(*allocate.body, inside); },
        [&](const Assign& assign) {
          if (!clamps_) return;
          // If the index of a vector access is clamped, its lanes are not contiguous. For a single
          // element a clamp costs little.
          for (const Affine& affine : clamps_of(assign))
            if (innermost_kind(affine, inside) == LoopKind::Vector) narrow(affine, inside);
        },
        ignore<Barrier, Commit, Wait, PrefetchLines>);
}

void Resolver::gather(const Loop& loop, Inside& inside) {
  if (!clamps_ && !guards_use(*loop.body, inside.variable, inside.bit)) return;
  const auto mark = bounds_.mark();
  bounds_.push_loop(loop.variable, loop.begin, loop.end);
  inside.loops.push_back({loop.variable, loop.kind});
  gather(*loop.body, inside);
  inside.loops.pop_back();
  bounds_.restore(mark);
}

/// Returns the kind of the innermost of the inner loops whose variables the constraint uses; Serial
/// if it uses none. This loop decides where the constraint can be placed.
LoopKind Resolver::innermost_kind(const Affine& affine, const Inside& inside) {
  for (auto loop = inside.loops.rbegin(); loop != inside.loops.rend(); ++loop)
    if (uses(affine, loop->variable)) return loop->kind;
  return LoopKind::Serial;
}

/// Narrows the range to the values for which `at_least_zero` always holds.
void Resolver::narrow(const Affine& at_least_zero, Inside& inside) const {
  const int64_t a = coefficient_of(at_least_zero, inside.variable);
  if (a == 0) return;
  if (bounds_.proves_at_least_zero(at_least_zero)) return;
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
  if (!may_peel_ || (!clamps_ && !guards_)) return {};
  Inside inside{variable, dsl::variable_bit(variable), {}, {}};
  gather(body, inside);
  return inside.steady;
}

Block Resolver::run(const BlockPtr& body, const std::vector<TaskAxis>& axes, size_t next_axis) {
  if (next_axis == axes.size()) return resolve(*body);
  const TaskAxis& axis = axes[next_axis];
  const Expr v = dsl::var(axis.variable);
  const auto mark = bounds_.mark();
  bounds_.push_loop(axis.variable, Expr(0), Expr(axis.extent));
  const Steady steady = steady_range(axis.variable, *body);
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
  const auto branch = [&](const Expr& condition, const BlockPtr& inner) {
    const auto inside = bounds_.mark();
    bounds_.push_condition(condition);
    append(guarded(condition, run(inner, axes, next_axis + 1)), result);
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
  result.reserve(body.size());
  for (const Stmt& stmt : body) {
    if (is_too_large()) return {};
    const auto keep = [&] {
      result.push_back(stmt);
      statements_ += copies_;
    };
    schedules::visit(
        stmt, [&](const Loop& loop) { append(resolve_loop(loop, true), result); },
        [&](const If& branch) { append(resolve_if(branch), result); },
        [&](const Assign& assign) {
          if (!assign.guard) return keep();
          const Expr condition = simplify(assign.guard->condition, bounds_);
          Assign resolved = with_condition(assign, condition);
          statements_ += copies_ * stores(resolved);
          result.push_back({std::move(resolved)});
        },
        [&](const Allocate& allocate) {
          Block inner = resolve(*allocate.body);
          if (!inner.empty()) result.push_back(with_body(stmt, block(std::move(inner))));
        },
        [&](const Barrier&) { keep(); }, [&](const Commit&) { keep(); },
        [&](const Wait&) { keep(); },
        [&](const PrefetchLines& prefetch) {
          result.push_back(stmt);
          statements_ += copies_ * prefetch.lines;
        });
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
    if (loop.kind == LoopKind::Thread) return false;
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
  for (int64_t i = begin; i < low; ++i)
    append(resolve(*substitute_in(loop.body, loop.variable, Expr(i))), result);
  if (low < high) {
    Loop middle = loop;
    middle.begin = Expr(low);
    middle.end = Expr(high);
    append(resolve_loop(middle, false), result);
  }
  for (int64_t i = high; i < end; ++i)
    append(resolve(*substitute_in(loop.body, loop.variable, Expr(i))), result);
  return result;
}

Block Resolver::resolve_loop(const Loop& loop, bool may_peel) {
  Loop current = loop;
  if (const If* only = loop.body->size() == 1 ? (*loop.body)[0].as<If>() : nullptr) {
    // The condition is simplified under the loop's range first, because a guard that always holds
    // must not trim the loop.
    const auto mark = bounds_.mark();
    bounds_.push_loop(loop.variable, loop.begin, loop.end);
    Constraints guards = split_condition(simplify(only->condition, bounds_));
    bounds_.restore(mark);
    current = trim(loop, guards);
    const Expr rest = conjunction_of(guards);
    current.body = dsl::is_int(rest, 1) ? only->body : block(guarded(rest, *only->body));
  }
  const auto begin = dsl::as_int(current.begin), end = dsl::as_int(current.end);
  if (begin && end && *end <= *begin) return {};
  if (begin && end && *end == *begin + 1)
    return resolve(*substitute_in(current.body, current.variable, current.begin));
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
  return single({std::move(current)});
}

}  // namespace

Block hoist_guards(const Block& body) {
  if (!has_guards(body)) return body;
  Block result;
  result.reserve(body.size());
  for (const Stmt& stmt : body) {
    const auto keep = [&] { result.push_back(stmt); };
    schedules::visit(
        stmt, [&](const Loop& loop) { append(hoist_loop(loop, stmt), result); },
        [&](const If& branch) { append(hoist_if(branch), result); },
        [&](const Allocate& allocate) { append(hoist_allocate(allocate), result); },
        [&](const Assign&) { keep(); }, [&](const Barrier&) { keep(); },
        [&](const Commit&) { keep(); }, [&](const Wait&) { keep(); },
        [&](const PrefetchLines&) { keep(); });
  }
  return with_prefetches_inside(std::move(result));
}

std::optional<Block> resolve_guards(const Block& body, const std::vector<TaskAxis>& task_axes,
                                    int64_t most_statements) {
  Resolver resolver(body, most_statements);
  Block resolved = resolver.run(block(body), task_axes, 0);
  return resolver.is_too_large() ? std::nullopt : std::optional(std::move(resolved));
}

}  // namespace tw::schedules

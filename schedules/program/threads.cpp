// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/integer.h"
#include "schedules/program/affine.h"
#include "schedules/program/legality.h"
#include "schedules/program/tma_copies.h"

namespace tw::schedules {
namespace {

bool is_own(Scope scope) { return scope == Scope::Local || scope == Scope::Register; }

const Loop* as_thread_loop(const Stmt& stmt) {
  const Loop* loop = stmt.as<Loop>();
  return loop && loop->kind == LoopKind::Thread ? loop : nullptr;
}

const Loop* as_reduce_loop(const Stmt& stmt) {
  const Loop* loop = stmt.as<Loop>();
  return loop && loop->kind == LoopKind::Reduce ? loop : nullptr;
}

/// Returns the only statement in a Reduce loop if it combines all iterations into one element; null
/// otherwise.
const Assign* as_combination(const Loop& loop) {
  const Assign* assign = loop.body->size() == 1 ? loop.body->front().as<Assign>() : nullptr;
  const bool is_one = assign && assign->combine != Combine::None && !assign->asynchronous &&
                      std::none_of(assign->indices.begin(), assign->indices.end(),
                                   [&](const Expr& i) { return uses_var(i, loop.variable); });
  return is_one ? assign : nullptr;
}

bool has_threads(const Stmt& stmt) {
  const Block* body = body_of(stmt);
  return as_thread_loop(stmt) || (body && schedules::has_threads(*body));
}

// ---- barriers -------------------------------------------------------------------------------

/// The slot of a buffer that an access uses. It is the index of the first dimension of the buffer,
/// as an expression of the loops around the threads. An access has a slot only if this index is the
/// same for all threads. An iteration of a pipeline reads one slot and writes others.
struct Slot {
  Affine index;
  int64_t count = 1;  ///< number of slots; the index is taken modulo this number
};

bool are_apart(const std::optional<Slot>& a, const std::optional<Slot>& b) {
  if (!a || !b) return false;
  Affine difference = a->index;
  difference.add(b->index, -1);
  return difference.is_constant() && difference.constant % a->count != 0;
}

bool uses(const Slot& slot, const std::string& variable) {
  return std::any_of(slot.index.terms.begin(), slot.index.terms.end(),
                     [&](const Affine::Term& term) { return dsl::uses_var(term.atom, variable); });
}

/// The accesses to buffers that several threads see.
class Touched {
 public:
  void add(const Touched& other) {
    for (const auto& [name, known] : other.uses_)
      for (const Use& use : known) add(name, use);
  }
  bool conflicts(const Touched& other) const {
    return std::any_of(uses_.begin(), uses_.end(), [&](const auto& entry) {
      const auto found = other.uses_.find(entry.first);
      return found != other.uses_.end() && conflict(entry.second, found->second);
    });
  }
  void touch(const std::string& buffer, const std::optional<Slot>& slot, bool writes) {
    add(buffer, {slot, writes});
  }
  void forget(const std::string& buffer) { uses_.erase(buffer); }
  void clear() { uses_.clear(); }

  /// Rewrites the slots in terms of the next iteration of the loop, in which `variable` is one
  /// larger: slot k becomes slot k - 1. A slot that is not linear in the variable becomes unknown.
  void step(const std::string& variable) {
    change_slots(variable, [&](std::optional<Slot>& slot) {
      const Expr v = dsl::var(variable);
      const int64_t a = slot->index.coefficient(v);
      Slot next = *slot;
      next.index.add(v, -a);
      if (uses(next, variable)) {
        slot = std::nullopt;
      } else {
        slot->index.constant -= a;
      }
    });
  }
  /// Rewrites the slots for a place outside of the loop, or for an unknown iteration: a slot that
  /// depends on the loop becomes unknown.
  void leave(const std::string& variable) {
    change_slots(variable, [](std::optional<Slot>& slot) { slot = std::nullopt; });
  }

 private:
  struct Use {
    std::optional<Slot> slot;  ///< nullopt: any part of the buffer
    bool writes;
  };

  void add(const std::string& buffer, const Use& use) {
    std::vector<Use>& known = uses_[buffer];
    for (Use& other : known) {
      if (!is_same(other.slot, use.slot)) continue;
      other.writes |= use.writes;
      return;
    }
    known.push_back(use);
  }
  static bool is_same(const std::optional<Slot>& a, const std::optional<Slot>& b) {
    if (!a || !b) return !a && !b;
    Affine difference = a->index;
    difference.add(b->index, -1);
    return difference.is_constant() && difference.constant == 0;
  }
  static bool conflict(const std::vector<Use>& some, const std::vector<Use>& others) {
    return std::any_of(some.begin(), some.end(), [&](const Use& a) {
      return std::any_of(others.begin(), others.end(), [&](const Use& b) {
        return (a.writes || b.writes) && !are_apart(a.slot, b.slot);
      });
    });
  }
  template <typename F>
  void change_slots(const std::string& variable, F&& change) {
    for (auto& [name, known] : uses_)
      for (Use& use : known)
        if (use.slot && uses(*use.slot, variable)) change(use.slot);
  }

  std::map<std::string, std::vector<Use>> uses_;
};

int64_t count_barriers(const Block& body) {
  int64_t count = 0;
  for_each(body, [&](const Stmt& stmt) { count += stmt.as<Barrier>() != nullptr; });
  return count;
}

/// True if the indices are proved to differ in any two iterations of the loops. For the proof, each
/// loop's variable must occur in exactly one index. Its factor there must exceed the largest sum of
/// the terms with smaller factors. `i * 8 + t` with t in 0..8 has a different value in each
/// iteration; `i * 7 + t` has not.
bool tells_apart(const std::vector<Expr>& indices, const std::vector<const Loop*>& loops) {
  std::set<std::string> told;
  for (const Expr& index : indices) {
    // Factors of the loops' variables in this index.
    std::vector<std::pair<int64_t, const Loop*>> steps;
    for (const Affine::Term& term : to_affine(index).terms) {
      const auto* v = term.atom.as<dsl::Var>();
      for (const Loop* loop : loops) {
        if (!dsl::uses_var(term.atom, loop->variable)) continue;
        if (!v || !dsl::as_int(loop->begin) || !dsl::as_int(loop->end)) return false;
        steps.emplace_back(std::abs(term.coefficient), loop);
      }
    }
    std::ranges::sort(steps, {}, [](const auto& step) { return step.first; });
    int64_t reach = 0;  // the largest difference that smaller steps make
    for (const auto& [factor, loop] : steps) {
      if (factor <= reach || !told.insert(loop->variable).second) return false;
      reach += factor * (*dsl::as_int(loop->end) - *dsl::as_int(loop->begin) - 1);
    }
  }
  return told.size() == loops.size();
}

/// Finds the buffers of which no element is accessed twice. Only one statement accesses such a
/// buffer, and it stores a different element in each iteration of the loops around it.
class OnceStored {
 public:
  static std::set<std::string> find(const Block& body) {
    OnceStored finder;
    finder.see(body);
    std::set<std::string> names;
    for (const auto& [name, is_once] : finder.found_)
      if (is_once) names.insert(name);
    return names;
  }

 private:
  void see(const Block& body) {
    for (const Stmt& stmt : body) {
      const Assign* assign = stmt.as<Assign>();
      for_each_access(stmt, [&](const BufferAccess& access) {
        const bool stores_others = access.is_store && assign && !assign->guard &&
                                   assign->combine == dsl::Combine::None &&
                                   tells_apart(access.indices, loops_);
        const auto [known, is_first] = found_.try_emplace(access.buffer, stores_others);
        if (!is_first) known->second = false;
      });
      const Loop* loop = stmt.as<Loop>();
      if (loop) loops_.push_back(loop);
      if (const Block* inner = body_of(stmt)) see(*inner);
      if (loop) loops_.pop_back();
    }
  }

  std::vector<const Loop*> loops_;     // around the statement
  std::map<std::string, bool> found_;  // true if all accesses so far store an element once
};

class BarrierPlacer {
 public:
  /// `unordered` are buffers whose accesses need no order.
  explicit BarrierPlacer(std::set<std::string> unordered) : unordered_(std::move(unordered)) {}

  Block run(const Block& body) {
    Block result;
    for (const Stmt& stmt : body) {
      if (stmt.as<Barrier>()) {
        pass_barrier();
        result.push_back(stmt);
      } else if (concerns_all(stmt)) {
        before(touched_by_head(stmt), result);
        result.push_back(inside(stmt, result));
      } else {
        Touched touched;
        gather(stmt, touched);
        before(touched, result);
        result.push_back(stmt);
      }
    }
    return result;
  }

 private:
  /// True for a statement that all threads execute: it contains a nest or a Reduce loop, but is not
  /// itself a thread loop or a Reduce loop.
  static bool concerns_all(const Stmt& stmt) {
    if (as_thread_loop(stmt) || as_reduce_loop(stmt)) return false;
    return has_threads(stmt) || has_reductions(Block{stmt});
  }

  void before(const Touched& touched, Block& result) {
    if (since_.conflicts(touched)) {
      result.push_back({Barrier{}});
      pass_barrier();
    }
    since_.add(touched);
  }

  void pass_barrier() {
    since_.clear();
    passed_ = true;
  }

  /// Places barriers inside of a statement that contains nests. All threads execute such a
  /// statement. If a barrier is needed before the statement, it is appended to `before`.
  Stmt inside(const Stmt& stmt, Block& before) {
    return schedules::visit(
        stmt, [&](const Loop& loop) { return inside(loop, stmt, before); },
        [&](const If& branch) {
          const Touched entered = since_;
          const bool passed = passed_;
          Stmt result = with_body(stmt, block(run(*branch.body)));
          leave(entered, passed);
          return result;
        },
        [&](const Allocate& allocate) { return inside(allocate, stmt); },
        always<Assign, Barrier, Commit, Wait, PrefetchLines>(stmt));
  }

  Stmt inside(const Allocate& allocate, const Stmt& stmt) {
    const Buffer& buffer = allocate.buffer;
    if (is_own(buffer.scope)) unordered_.insert(buffer.name);
    if (!buffer.extents.empty()) slots_[buffer.name] = buffer.extents[0];
    return with_body(stmt, block(run(*allocate.body)));
  }

  /// Places barriers inside of a loop. If a barrier in the loop is needed only because of accesses
  /// before the loop, it is appended to `before` instead, so that it is executed once.
  Stmt inside(const Loop& loop, const Stmt& stmt, Block& before) {
    const Touched entered = since_;
    const bool passed = passed_;
    BarrierPlacer hoisted = *this;
    Block body = inside_after(entered, loop);
    if (count_barriers(body) > count_barriers(*loop.body)) {
      Block own = hoisted.inside_after({}, loop);
      if (count_barriers(own) < count_barriers(body)) {
        before.push_back({Barrier{}});
        *this = std::move(hoisted);
        leave({}, true);
        return with_body(stmt, block(std::move(own)));
      }
    }
    leave(entered, passed);
    return with_body(stmt, block(std::move(body)));
  }

  /// Returns the loop's body with barriers. `entered` are the accesses before the loop since the
  /// last barrier. The last accesses of an iteration may conflict with the first accesses of the
  /// next iteration.
  Block inside_after(const Touched& entered, const Loop& loop) {
    around_.insert(loop.variable);
    passed_ = false;
    since_ = entered;
    (void)run(*loop.body);
    since_ = before_next(loop);
    since_.add(entered);
    Block body = run(*loop.body);
    around_.erase(loop.variable);
    since_.leave(loop.variable);
    return body;
  }

  /// Leaves a loop or condition. Its body may not have run, so the accesses before it are added to
  /// those of the body.
  void leave(const Touched& entered, bool passed) {
    since_.add(entered);
    passed_ = passed;
  }

  /// Returns the accesses since the last barrier, as the next iteration of the loop sees them. If
  /// iterations have no barrier, the accesses may be those of any earlier iteration. If there are
  /// only a few iterations, as in the loop that fills a pipeline, each of them is considered
  /// separately.
  Touched before_next(const Loop& loop) const {
    constexpr int64_t few = 4;
    Touched left = since_, all;
    if (passed_) {
      left.step(loop.variable);
      return left;
    }
    const auto begin = dsl::as_int(loop.begin), end = dsl::as_int(loop.end);
    if (!begin || !end || *end - *begin > few) {
      left.leave(loop.variable);
      return left;
    }
    for (int64_t i = *begin + 1; i < *end; ++i) {
      left.step(loop.variable);
      all.add(left);
    }
    return all;
  }

  Touched touched_by_head(const Stmt& stmt) const {
    Touched touched;
    for_each_access(stmt, [&](const BufferAccess& access) { gather(access, touched); });
    return touched;
  }

  void gather(const Stmt& stmt, Touched& touched) {
    Touched all;
    std::vector<std::string> inner;
    for_each(Block{stmt}, [&](const Stmt& s) {
      for_each_access(s, [&](const BufferAccess& access) { gather(access, all); });
      if (const Allocate* allocate = s.as<Allocate>()) inner.push_back(allocate->buffer.name);
    });
    for (const std::string& name : inner) all.forget(name);
    touched.add(all);
  }

  void gather(const BufferAccess& access, Touched& touched) const {
    if (unordered_.contains(access.buffer)) return;
    touched.touch(access.buffer, slot_of(access.buffer, access.indices), access.is_store);
  }

  std::optional<Slot> slot_of(const std::string& buffer, const std::vector<Expr>& indices) const {
    const auto found = slots_.find(buffer);
    if (found == slots_.end() || indices.empty()) return std::nullopt;
    const dsl::Binary* b = indices[0].as<dsl::Binary>();
    const bool wraps = b && b->op == dsl::BinaryOp::Mod && dsl::is_int(b->b, found->second);
    Slot slot{to_affine(wraps ? b->a : indices[0]), found->second};
    bool is_uniform = true;
    dsl::for_each(indices[0], [&](const Expr& e) {
      const dsl::Var* v = e.as<dsl::Var>();
      is_uniform &= !e.as<dsl::Read>() && (!v || around_.contains(v->name));
    });
    return is_uniform ? std::optional(std::move(slot)) : std::nullopt;
  }

  Touched since_;        ///< accesses since the last barrier
  bool passed_ = false;  ///< true if there was a barrier since the innermost loop or condition
                         ///< began
  std::set<std::string> unordered_;       ///< buffers that need no barrier
  std::map<std::string, int64_t> slots_;  ///< extent of the first dimension of each buffer
  std::set<std::string> around_;          ///< variables of loops that all threads execute
};

// ---- conditions -----------------------------------------------------------------------------

/// Marks uniform conditions. Also finds the first condition that its input marks as uniform, but
/// that cannot be proved to be.
class UniformMarker {
 public:
  Block run(const Block& body) {
    Block result;
    result.reserve(body.size());
    for (const Stmt& stmt : body) result.push_back(marked(stmt));
    return result;
  }
  const Stmt* unproved() const { return unproved_; }

 private:
  Stmt marked(const Stmt& stmt) {
    return schedules::visit(
        stmt, [&](const Loop& loop) { return marked(loop, stmt); },
        [&](const If& branch) {
          If result = branch;
          result.uniform = is_uniform(branch.condition, branch.uniform, stmt);
          result.body = block(run(*branch.body));
          return Stmt{std::move(result)};
        },
        [&](const Assign& assign) {
          Assign result = assign;
          if (Guard* guard = result.guard ? &*result.guard : nullptr)
            guard->uniform = is_uniform(guard->condition, guard->uniform, stmt);
          return Stmt{std::move(result)};
        },
        [&](const Allocate& allocate) {
          if (is_own(allocate.buffer.scope)) own_.insert(allocate.buffer.name);
          return with_body(stmt, block(run(*allocate.body)));
        },
        always<Barrier, Commit, Wait, PrefetchLines>(stmt));
  }

  /// Marks conditions inside of a loop. The loop's variable differs between threads if the loop is
  /// a thread, Reduce or bulk loop, or if its bounds differ between threads.
  Stmt marked(const Loop& loop, const Stmt& stmt) {
    const bool differs = loop.kind == LoopKind::Thread || loop.kind == LoopKind::Reduce ||
                         loop.kind == LoopKind::Bulk || !is_uniform(loop.begin) ||
                         !is_uniform(loop.end);
    const bool is_new = differs && differing_.insert(loop.variable).second;
    Stmt result = with_body(stmt, block(run(*loop.body)));
    if (is_new) differing_.erase(loop.variable);
    return result;
  }

  bool is_uniform(const Expr& condition, bool is_marked, const Stmt& stmt) {
    const bool proved = is_uniform(condition);
    if (is_marked && !proved && !unproved_) unproved_ = &stmt;
    return proved;
  }
  /// True if the expression is proved to have the same value in all threads. A read of a shared
  /// buffer has the same value, because between two barriers no thread writes an element that
  /// another thread reads.
  bool is_uniform(const Expr& expr) const {
    bool uniform = true;
    dsl::for_each(expr, [&](const Expr& e) {
      const dsl::Var* v = e.as<dsl::Var>();
      const dsl::Read* r = e.as<dsl::Read>();
      uniform = uniform && !(v && differing_.contains(v->name)) && !(r && own_.contains(r->tensor));
    });
    return uniform;
  }

  std::set<std::string> differing_;  ///< variables in scope that differ between threads
  std::set<std::string> own_;        ///< private buffers of a thread
  const Stmt* unproved_ = nullptr;
};

// ---- private buffers of a thread ------------------------------------------------------------

/// Returns the dimension whose index is the loop's variable; nullopt if there is none.
std::optional<size_t> dimension_of(const Loop& loop, const std::vector<Expr>& indices) {
  for (size_t d = 0; d < indices.size(); ++d)
    if (const dsl::Var* v = indices[d].as<dsl::Var>(); v && v->name == loop.variable) return d;
  return std::nullopt;
}

void find_numbered(const Block& body, NumberedDimensions& found) {
  for (const Stmt& stmt : body) {
    if (const Loop* loop = as_thread_loop(stmt)) {
      const ThreadNest nest = thread_nest(*loop);
      for_each(Block{stmt}, [&](const Stmt& s) {
        for_each_access(s, [&](const BufferAccess& access) {
          const auto own = found.find(access.buffer);
          if (own == found.end() || !own->second.empty()) return;
          for (const Loop* l : nest.loops)
            if (const auto d = dimension_of(*l, access.indices)) own->second.push_back(*d);
        });
      });
      continue;
    }
    if (const Allocate* allocate = stmt.as<Allocate>(); allocate && is_own(allocate->buffer.scope))
      found.try_emplace(allocate->buffer.name);
    if (const Block* inner = body_of(stmt)) find_numbered(*inner, found);
  }
}

// ---- legality -------------------------------------------------------------------------------

tl::unexpected<Error> illegal_threads(const std::string& why, const Stmt& stmt) {
  return fail(ErrorCode::Invalid, fmt::format("[threads] {}\n{}", why, to_string(Block{stmt}, 1)));
}

/// The owners of the elements of a private buffer that is allocated outside of the nests of thread
/// loops. `extents` are the extents of the thread loops that number the threads which own elements.
/// `dimensions` has, for each of these loops, the dimension of the buffer that its variable
/// indexes. Two nests with equal extents number the same threads, whatever their variables are
/// called.
struct Owners {
  std::vector<int64_t> extents;
  std::vector<size_t> dimensions;
  friend bool operator==(const Owners&, const Owners&) = default;
};

class ThreadChecker {
 public:
  explicit ThreadChecker(const Limits& limits) : limits_(limits) {}

  Status check(const Block& body) {
    for (const Stmt& stmt : body) TW_RETURN_IF_ERROR(check(stmt));
    return {};
  }

 private:
  Status check(const Stmt& stmt) {
    const auto check_inside = [&](const Block& body) -> Status {
      TW_RETURN_IF_ERROR(check_head(stmt, body));
      TW_RETURN_IF_ERROR(check_accesses(stmt));
      return check(body);
    };
    return schedules::visit(
        stmt,
        [&](const Loop& loop) -> Status {
          if (loop.kind == LoopKind::Thread) return check_nest(loop, stmt);
          if (loop.kind == LoopKind::Reduce) TW_RETURN_IF_ERROR(check_reduce(loop, stmt));
          return check_inside(*loop.body);
        },
        [&](const If& branch) { return check_inside(*branch.body); },
        [&](const Assign&) { return check_accesses(stmt); },
        [&](const Allocate& allocate) {
          if (is_own(allocate.buffer.scope)) owned_[allocate.buffer.name] = std::nullopt;
          return check_inside(*allocate.body);
        },
        always<Barrier, Commit, Wait, PrefetchLines>(Status{}));
  }

  /// Checks the bounds or the condition of a statement outside of thread loops. If its body has
  /// thread loops or Reduce loops, all threads evaluate the bounds or the condition, which must
  /// therefore not read private buffers.
  Status check_head(const Stmt& stmt, const Block& body) const {
    Status status;
    if (!schedules::has_threads(body) && !has_reductions(body)) return status;
    for_each_access(stmt, [&](const BufferAccess& access) {
      if (status && owned_.contains(access.buffer))
        status = illegal_threads(
            fmt::format("all threads evaluate a condition or a bound that reads '{}', which each "
                        "thread has for itself",
                        access.buffer),
            stmt);
    });
    return status;
  }

  Status check_nest(const Loop& loop, const Stmt& stmt) {
    const ThreadNest nest = thread_nest(loop);
    if (has_threads(*nest.loops.back()->body))
      return illegal_threads("thread loops contain each other directly, or not at all", stmt);
    for (const Loop* l : nest.loops)
      if (!dsl::is_int(l->begin, 0) || !dsl::as_int(l->end))
        return illegal_threads("a thread loop has literal bounds, from 0", stmt);
    if (nest.threads() > limits_.threads)
      return illegal_threads(
          fmt::format("{} threads, a task has at most {}", nest.threads(), limits_.threads), stmt);
    Status status;
    for_each(*nest.loops.back()->body, [&](const Stmt& s) {
      if (status) status = check_in_nest(s, stmt);
    });
    TW_RETURN_IF_ERROR(status);
    nest_ = &nest;
    for_each(Block{stmt}, [&](const Stmt& s) {
      if (status) status = check_accesses(s);
    });
    nest_ = nullptr;
    return status;
  }

  /// Checks a statement inside of a nest, which a thread executes by itself.
  static Status check_in_nest(const Stmt& inner, const Stmt& nest) {
    const auto orders_copies = [&]() -> Status {
      return illegal_threads("copies are committed and waited for outside of thread loops", nest);
    };
    return schedules::visit(
        inner,
        [&](const Loop& loop) -> Status {
          if (loop.pipeline)
            return illegal_threads("a pipeline stands outside of thread loops", nest);
          if (loop.kind != LoopKind::Reduce) return {};
          return illegal_threads("what a warp reduces together stands outside of thread loops",
                                 nest);
        },
        [&](const Allocate& allocate) -> Status {
          if (is_own(allocate.buffer.scope)) return {};
          return illegal_threads(
              fmt::format("'{}' is shared, but each thread would have one", allocate.buffer.name),
              nest);
        },
        [&](const Barrier&) -> Status {
          return illegal_threads("a barrier that only some threads reach", nest);
        },
        [&](const Commit&) { return orders_copies(); },
        [&](const Wait&) { return orders_copies(); }, always<If, Assign, PrefetchLines>(Status{}));
  }

  /// Checks a Reduce loop. Its operands must not be in private buffers, because other threads than
  /// the one that stores the result read them.
  Status check_reduce(const Loop& loop, const Stmt& stmt) {
    const Assign* assign = as_combination(loop);
    if (!assign)
      return illegal_threads("what a warp reduces together is one combination into one element",
                             stmt);
    Status status;
    dsl::for_each(assign->value, [&](const Expr& e) {
      const dsl::Read* r = e.as<dsl::Read>();
      if (r && owned_.contains(r->tensor))
        status =
            illegal_threads(fmt::format("a warp reduces '{}' together, which each thread has for "
                                        "itself",
                                        r->tensor),
                            stmt);
    });
    return status;
  }

  Status check_accesses(const Stmt& stmt) {
    Status status;
    for_each_access(stmt, [&](const BufferAccess& access) {
      if (status) status = check_access(access.buffer, access.indices, stmt);
    });
    return status;
  }

  Status check_access(const std::string& buffer, const std::vector<Expr>& indices,
                      const Stmt& stmt) {
    const auto owned = owned_.find(buffer);
    if (owned == owned_.end()) return {};
    Owners owners;
    for (const Loop* loop : nest_ ? nest_->loops : std::vector<const Loop*>()) {
      const auto dimension = dimension_of(*loop, indices);
      if (!dimension)
        return illegal_threads(
            fmt::format("'{}' is a thread's own, but loop '{}' does not index it", buffer,
                        loop->variable),
            stmt);
      owners.extents.push_back(*dsl::as_int(loop->end));
      owners.dimensions.push_back(*dimension);
    }
    if (!owned->second) owned->second = owners;
    if (*owned->second == owners) return {};
    return illegal_threads(fmt::format("elements of '{}' pass from one thread to another", buffer),
                           stmt);
  }

  const Limits& limits_;
  const ThreadNest* nest_ = nullptr;
  /// Private buffers that are allocated outside of nests, with the owners of their elements once an
  /// access has shown them.
  std::map<std::string, std::optional<Owners>> owned_;
};

int64_t threads_of_nests(const Block& body) {
  int64_t threads = 1;
  for (const Stmt& stmt : body) {
    if (const Loop* loop = as_thread_loop(stmt)) {
      threads = std::max(threads, thread_nest(*loop).threads());
    } else if (const Block* inner = body_of(stmt)) {
      threads = std::max(threads, threads_of_nests(*inner));
    }
  }
  return threads;
}

std::set<std::string> buffers_written(const Block& body) {
  std::set<std::string> written;
  for_each(body, [&](const Stmt& stmt) {
    for_each_access(stmt, [&](const BufferAccess& access) {
      if (access.is_store) written.insert(access.buffer);
    });
  });
  return written;
}

/// True if the Reduce loops of the body are outside of other loops and of conditions, and combine
/// elements of buffers that are not in `written`.
bool reduces_inputs(const Block& body, const std::set<std::string>& written) {
  return std::ranges::all_of(body, [&](const Stmt& stmt) {
    if (const Allocate* allocate = stmt.as<Allocate>())
      return reduces_inputs(*allocate->body, written);
    const Loop* loop = as_reduce_loop(stmt);
    if (!loop) return !has_reductions(Block{stmt});
    const Assign* combination = as_combination(*loop);
    bool reads_inputs = combination != nullptr;
    if (combination)
      dsl::for_each(combination->value, [&](const Expr& e) {
        const dsl::Read* r = e.as<dsl::Read>();
        reads_inputs &= !r || !written.contains(r->tensor);
      });
    return reads_inputs;
  });
}

}  // namespace

int64_t ThreadNest::threads() const {
  int64_t threads = 1;
  for (const Loop* loop : loops) threads *= dsl::as_int(loop->end).value_or(1);
  return threads;
}

ThreadNest thread_nest(const Loop& loop) {
  ThreadNest nest{{&loop}};
  while (nest.loops.back()->body->size() == 1) {
    const Loop* inner = as_thread_loop(nest.loops.back()->body->front());
    if (!inner) break;
    nest.loops.push_back(inner);
  }
  return nest;
}

bool has_reductions(const Block& body) {
  bool found = false;
  for_each(body, [&](const Stmt& stmt) { found |= as_reduce_loop(stmt) != nullptr; });
  return found;
}

bool has_threads(const Block& body) {
  return std::any_of(body.begin(), body.end(), [](const Stmt& stmt) { return has_threads(stmt); });
}

int64_t threads_of(const Block& body) {
  if (has_threads(body)) return threads_of_nests(body);
  return has_reductions(body) && reduces_inputs(body, buffers_written(body)) ? warp_threads : 1;
}

NumberedDimensions numbered_dimensions(const Block& body) {
  NumberedDimensions result;
  find_numbered(body, result);
  return result;
}

int64_t shared_bytes(const Block& body) {
  const int64_t groups = tma_barriers(body);
  int64_t bytes = 0;
  for (const Buffer& buffer : local_buffers(body))
    if (buffer.scope == Scope::Shared)
      bytes += round_up(buffer.bytes(), groups > 0 ? tma_alignment : shared_alignment);
  const int64_t barriers = 2 * groups * mbarrier_bytes;  // those of the copies and of the producers
  const bool is_dynamic = bytes + barriers > most_static_shared_bytes;
  return bytes + (is_dynamic ? round_up(barriers, dynamic_alignment) : barriers);
}

int64_t thread_bytes(const Block& body) {
  const NumberedDimensions numbered = numbered_dimensions(body);
  int64_t bytes = 0;
  for (const Buffer& buffer : local_buffers(body)) {
    if (!is_own(buffer.scope)) continue;
    int64_t threads = 1;
    if (const auto found = numbered.find(buffer.name); found != numbered.end())
      for (const size_t d : found->second) threads *= buffer.extents[d];
    bytes += buffer.bytes() / threads;
  }
  return bytes;
}

Block place_barriers(const Block& body) { return BarrierPlacer(OnceStored::find(body)).run(body); }

Block mark_uniform(const Block& body) { return UniformMarker().run(body); }

Status check_threads(const Phase& phase, const Limits& limits) {
  TW_RETURN_IF_ERROR(ThreadChecker(limits).check(*phase.body));
  UniformMarker marker;
  (void)marker.run(*phase.body);
  if (const Stmt* stmt = marker.unproved())
    return illegal_threads("threads may find a condition different that is marked uniform", *stmt);
  const int64_t shared = shared_bytes(*phase.body), own = thread_bytes(*phase.body);
  if (shared > limits.shared_bytes)
    return fail(ErrorCode::Invalid,
                fmt::format("[threads] stage '{}' shares {} bytes between its threads, at most {}",
                            phase.name, shared, limits.shared_bytes));
  if (own > limits.thread_bytes)
    return fail(ErrorCode::Invalid,
                fmt::format("[threads] stage '{}' keeps {} bytes in a thread, at most {}",
                            phase.name, own, limits.thread_bytes));
  if (count_barriers(place_barriers(*phase.body)) > count_barriers(*phase.body))
    return fail(ErrorCode::Invalid,
                fmt::format("[threads] stage '{}': threads read what others write, without a "
                            "barrier between",
                            phase.name));
  return {};
}

}  // namespace tw::schedules

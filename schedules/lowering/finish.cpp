// SPDX-License-Identifier: Apache-2.0
#include "schedules/lowering/finish.h"

#include <algorithm>
#include <map>

#include "dsl/selection.h"
#include "schedules/lowering/conditions.h"
#include "schedules/lowering/placed_buffers.h"
#include "schedules/program/global_names.h"
#include "schedules/program/simplify.h"

namespace tw::schedules {

using dsl::BinaryOp;

namespace {

class Finisher {
 public:
  Finisher(const Nest& nest, const std::vector<Argument>& arguments) : nest_(nest) {
    for (const Argument& argument : arguments) shapes_[argument.buffer.name] = argument.shape;
    for (const StageNest& s : nest.stages) {
      shapes_[s.result()] = s.at ? buffer_extents(nest, s) : nest.compute.shape_of(s.result());
      any_choice_ |= has_choice(s.stage.body) || (s.epilogue && has_choice(s.epilogue->body));
    }
  }

  BlockPtr run(const Phase& phase) {
    push_axes(phase, bounds_);
    BlockPtr body = block(finish(*phase.body));
    bounds_.restore({0, 0});
    return body;
  }

 private:
  Block finish(const Block& body) {
    Block result;
    result.reserve(body.size());
    for (const Stmt& stmt : body) {
      const auto mark = bounds_.mark();
      schedules::visit(
          stmt, [&](const Loop& loop) { finish(loop, result); },
          [&](const If& branch) { finish(branch, result); },
          [&](const Assign& assign) { result.push_back(finish(assign)); },
          [&](const Allocate& allocate) {
            result.push_back(with_body(stmt, block(finish(*allocate.body))));
          },
          [&](const Barrier&) { result.push_back(stmt); },
          [&](const Commit&) { result.push_back(stmt); },
          [&](const Wait&) { result.push_back(stmt); },
          [&](PrefetchLines prefetch) {
            prefetch.offset = simplify(prefetch.offset, bounds_);
            result.push_back({std::move(prefetch)});
          });
      bounds_.restore(mark);
    }
    return result;
  }

  /// Writes out an unrolled loop whose variable chooses between expressions, so that each iteration
  /// has only the expression that it computes:
  ///
  ///     unroll p in 0..2: v[p] = select(p == 0, a, b)   ->   v[0] = a;  v[1] = b
  void finish(const Loop& loop, Block& result) {
    const bool may_choose = any_choice_ && loop.kind == LoopKind::Unrolled;
    if (may_choose && is_chosen_by(loop) && write_out(loop, result)) return;
    result.push_back({finish(loop)});
  }
  /// Appends the iterations one by one. Returns false, and appends nothing, if the bounds of the
  /// loop are not literals.
  bool write_out(const Loop& loop, Block& result) {
    const auto begin = dsl::as_int(simplify(loop.begin, bounds_));
    const auto end = dsl::as_int(simplify(loop.end, bounds_));
    if (!begin || !end) return false;
    for (int64_t i = *begin; i < *end; ++i) {
      const auto in_iteration = [&](const Expr& e) {
        return dsl::substitute(chosen(e, loop.variable, i), loop.variable, Expr(i));
      };
      for (Stmt& stmt : finish(map_expressions(*loop.body, in_iteration)))
        result.push_back(std::move(stmt));
    }
    return true;
  }

  /// Returns the alternative that iteration i chooses if `e` is a choice by `variable`, and also
  /// resolves choices in that alternative in the same way. Returns any other expression unchanged.
  /// Substituting the variable in all alternatives would be slow.
  static Expr chosen(const Expr& e, const std::string& variable, int64_t i) {
    const dsl::Binary* choice = dsl::choosing_comparison(e);
    const dsl::Var* v = choice ? choice->a.as<dsl::Var>() : nullptr;
    if (!v || v->name != variable) return e;
    const dsl::Select& select = *e.as<dsl::Select>();
    return chosen(i == *dsl::as_int(choice->b) ? select.a : select.b, variable, i);
  }

  bool is_chosen_by(const Loop& loop) const {
    bool found = false;
    const auto look = [&](const Expr& e) {
      const dsl::Binary* b = found ? nullptr : dsl::choosing_comparison(e);
      const dsl::Var* v = b ? b->a.as<dsl::Var>() : nullptr;
      found |= v && v->name == loop.variable;
    };
    for_each(*loop.body, [&](const Stmt& stmt) {
      for_each_expression(stmt, [&](const Expr& value) { dsl::for_each(value, look); });
    });
    return found;
  }

  Loop finish(Loop loop) {
    loop.begin = simplify(loop.begin, bounds_);
    loop.end = simplify(loop.end, bounds_);
    bounds_.push_loop(loop.variable, loop.begin, loop.end);
    if (loop.kind == LoopKind::Bulk) box_.push_back(loop.variable);
    loop.body = block(finish(*loop.body));
    if (loop.kind == LoopKind::Bulk) box_.pop_back();
    return loop;
  }

  void finish(const If& branch, Block& result) {
    const Expr condition = rewrite_condition(branch.condition);
    push(condition);
    Block inner = finish(*branch.body);
    if (dsl::is_int(condition, 1)) {
      for (Stmt& s : inner) result.push_back(std::move(s));
    } else if (!dsl::is_int(condition, 0)) {
      result.push_back({If{condition, block(std::move(inner))}});
    }
  }

  Stmt finish(Assign assign) {
    for (Expr& index : assign.indices) index = simplify(index, bounds_);
    assign.indices = stored(assign.buffer, std::move(assign.indices), false);
    if (assign.guard)
      assign = with_condition(std::move(assign), rewrite_condition(assign.guard->condition));
    if (assign.guard) push(assign.guard->condition);
    assign.value = rewrite(assign.value);
    return {std::move(assign)};
  }

  void push(const Expr& condition) {
    if (box_.empty()) {
      bounds_.push_condition(condition);
    } else {
      push_in_box(condition);
    }
  }

  /// Simplifies each term of a conjunction under all other terms, since the whole conjunction
  /// guards the statement. If the conjunction reads memory, each term is simplified only under the
  /// terms before it, which guard its reads. Inside of a TMA copy each term is simplified by
  /// itself.
  Expr rewrite_condition(const Expr& condition) {
    const dsl::Unary* u = condition.as<dsl::Unary>();
    if (u && u->op == dsl::UnaryOp::Not) return !rewrite_condition(u->a);
    std::vector<Expr> parts;
    dsl::for_each_conjunct(condition, [&](const Expr& part) { parts.push_back(part); });
    bool any_read = false;
    for_each_read(condition, [&](const dsl::Read&) { any_read = true; });
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto mark = bounds_.mark();
      if (box_.empty())
        for (size_t j = 0; j < (any_read ? i : parts.size()); ++j)
          if (j != i) bounds_.push_condition(parts[j]);
      const dsl::Unary* n = parts[i].as<dsl::Unary>();
      const bool negates = n && n->op == dsl::UnaryOp::Not;
      parts[i] = negates ? rewrite_condition(parts[i]) : rewrite(parts[i]);
      bounds_.restore(mark);
    }
    return conjunction(parts);
  }
  /// Pushes a condition inside of the loops of a TMA copy, whose indices must stay linear in the
  /// loops. A term that allows a single iteration of a loop is not used, as it would replace the
  /// loop's variable by a constant.
  void push_in_box(const Expr& condition) {
    dsl::for_each_conjunct(condition, [&](const Expr& part) {
      const auto mark = bounds_.mark();
      bounds_.push_condition(part);
      const bool leaves_one = std::any_of(box_.begin(), box_.end(), [&](const std::string& loop) {
        return bounds_.lower(dsl::var(loop)) == bounds_.upper(dsl::var(loop));
      });
      if (leaves_one) bounds_.restore(mark);
    });
  }

  Expr rewrite(const Expr& expr) { return rewrite(expr, false); }

  /// Rewrites an expression. `speculative` is true for the values of a select: their reads may be
  /// executed even if the condition fails, so their indices are clamped into the buffer.
  Expr rewrite(const Expr& expr, bool speculative) {
    return dsl::visit(
        expr,
        [&](const dsl::Read& r) {
          std::vector<Expr> indices;
          for (const Expr& index : r.indices) indices.push_back(simple(index, speculative));
          return dsl::read(r.tensor, stored(r.tensor, std::move(indices), speculative), r.type);
        },
        [&](const dsl::Select& s) {
          const Expr condition = rewrite(s.condition, speculative);
          if (const auto decided = dsl::as_int(condition))
            return rewrite(*decided ? s.a : s.b, speculative);
          return dsl::select(condition, rewrite(s.a, true), rewrite(s.b, true));
        },
        [&](const dsl::Unary& u) { return dsl::unary(u.op, rewrite(u.a, speculative)); },
        [&](const dsl::Cast& c) { return dsl::cast(c.type, rewrite(c.a, speculative)); },
        [&](const dsl::Binary& b) {
          if (b.a.type() == Int64 && !dsl::reads_tensors(expr)) return simplify(expr, bounds_);
          return dsl::binary(b.op, rewrite(b.a, speculative), rewrite(b.b, speculative));
        },
        [&](const dsl::Const&) { return expr; }, [&](const dsl::Var&) { return expr; });
  }
  /// Simplifies an index by the bounds of the variables in scope.
  Expr simple(const Expr& index, bool speculative) {
    return dsl::reads_tensors(index) ? simplify(rewrite(index, speculative), bounds_)
                                     : simplify(index, bounds_);
  }

  /// Converts simplified logical indices to indices of the tensor's storage layout. If
  /// `speculative` is true, clamps the indices into the tensor first.
  std::vector<Expr> stored(const std::string& tensor, std::vector<Expr> indices, bool speculative) {
    const auto shape = shapes_.find(tensor);
    for (size_t d = 0; speculative && shape != shapes_.end() && d < indices.size(); ++d) {
      const Expr last(std::max<int64_t>(shape->second[d] - 1, 0));
      indices[d] = simplify(dsl::clamp(indices[d], Expr(0), last), bounds_);
    }
    const auto layout = nest_.layouts.find(tensor);
    if (layout == nest_.layouts.end()) return indices;
    std::vector<Expr> storage = layout->second.storage_indices(indices);
    for (Expr& index : storage) index = simplify(index, bounds_);
    return storage;
  }

  const Nest& nest_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  bool any_choice_ = false;       ///< true if a stage chooses between expressions by an index
  std::vector<std::string> box_;  ///< variables of the bulk loops around the statement
  Bounds bounds_;
};

}  // namespace

void finish(const Nest& nest, const std::vector<Argument>& arguments, std::vector<Phase>& phases) {
  Finisher finisher(nest, arguments);
  for (Phase& phase : phases) phase.body = finisher.run(phase);
}

}  // namespace tw::schedules

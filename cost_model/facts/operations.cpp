// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/operations.h"

#include <algorithm>
#include <utility>

namespace tw::cost_model::facts {
namespace {

using dsl::BinaryOp;
using dsl::Expr;
using schedules::Assign;

// Time of tanh, in units of the time of exp. tanh computes the polynomial of an exponential and
// then a rational function. On a Sapphire Rapids, tanh of a register took 21 cycles, exp 12.
constexpr double tanh_calls = 1.75;

/// Returns the multiplication inside of casts and of selects, as in `select(inside, a * b, 0)`;
/// nullptr if there is none.
const dsl::Binary* multiplication(const Expr& expr) {
  if (const dsl::Cast* c = expr.as<dsl::Cast>()) return multiplication(c->a);
  if (const dsl::Select* s = expr.as<dsl::Select>()) return multiplication(s->a);
  const dsl::Binary* b = expr.as<dsl::Binary>();
  return b && b->op == BinaryOp::Mul ? b : nullptr;
}

/// True for a division of integers by a divisor that is not a literal. Processors have no vector
/// instruction for such a division, so it takes as long as a call of a function.
bool divides_by_data(const dsl::Binary& b) {
  return (b.op == BinaryOp::Div || b.op == BinaryOp::Mod) && !is_float(b.b.type()) &&
         !dsl::as_int(b.b);
}

class OperationCounter {
 public:
  OperationCounter(const std::vector<Level>& levels, size_t first_inner,
                   const IsStoredIn& is_stored_in)
      : levels_(levels), first_inner_(first_inner), is_stored_in_(is_stored_in) {
    for (size_t i = first_inner; i < levels.size(); ++i)
      if (levels[i].kind == schedules::LoopKind::Unrolled && levels[i].trips > 1)
        unrolled_.push_back(i);
  }

  Operations count(const Assign& assign) {
    const dsl::Binary* product =
        assign.combine == dsl::Combine::Sum ? multiplication(assign.value) : nullptr;
    if (product) {
      fused_.push_back(product);
      add(operations_.fma, 1, 2);
    } else if (assign.combine != dsl::Combine::None) {
      add(operations_.arithmetic, 1, 1);
    }
    visit(assign.value);
    return std::move(operations_);
  }

 private:
  void add(double& counter, double count, double flops) {
    counter += count;
    operations_.flops += flops;
  }

  /// True if the value of the expression differs between iterations of the loop: the expression
  /// uses the loop's variable, or reads a buffer that the loop stores to.
  bool varies_in(size_t loop, const Expr& expr) const {
    bool varies = false;
    dsl::for_each(expr, [&](const Expr& e) {
      if (const dsl::Var* v = e.as<dsl::Var>()) varies |= v->name == levels_[loop].variable;
      if (const dsl::Read* r = e.as<dsl::Read>()) varies = varies || is_stored_in_(*r, loop);
    });
    return varies;
  }

  /// Returns the share of an evaluation of the expression that counts for one copy of the
  /// statement. LLVM eliminates common subexpressions, so the copies that an unrolled loop makes
  /// compute an expression once if the loop does not change its value. For example, if 6 rows of a
  /// tile unpack the same weights, unpacking counts 1/6 in each row.
  double share(const Expr& expr) const {
    double share = 1;
    for (const size_t loop : unrolled_)
      if (!varies_in(loop, expr)) share /= levels_[loop].trips;
    return share;
  }

  void visit(const Expr& expr) {
    dsl::visit(
        expr, [&](const dsl::Read& r) { visit_read(r); },
        [&](const dsl::Binary& b) { visit_binary(b, expr); },
        [&](const dsl::Select& s) { visit_select(s, expr); },
        [&](const dsl::Cast& c) {
          if (c.type != c.a.type()) add(operations_.arithmetic, share(expr), 1);
          visit(c.a);
        },
        [&](const dsl::Unary& u) {
          visit_unary(u.op, expr);
          visit(u.a);
        },
        ignore<dsl::Const, dsl::Var>);
  }

  void visit_unary(dsl::UnaryOp op, const Expr& expr) {
    const bool cheap = op == dsl::UnaryOp::Neg || op == dsl::UnaryOp::Not ||
                       op == dsl::UnaryOp::Abs || op == dsl::UnaryOp::Floor ||
                       op == dsl::UnaryOp::Round;
    const double calls = op == dsl::UnaryOp::Tanh ? tanh_calls : 1;
    if (cheap)
      add(operations_.arithmetic, share(expr), 1);
    else if (!varies(expr))
      add(operations_.hoisted, 1, 1);
    else if (op == dsl::UnaryOp::Sqrt)
      add(operations_.roots, share(expr), 1);
    else
      add(operations_.calls, calls * share(expr), calls);
  }

  /// True if a loop of the block changes the value of the expression.
  bool varies(const Expr& expr) const {
    bool found = first_inner_ >= levels_.size();
    for (size_t i = first_inner_; !found && i < levels_.size(); ++i) found = varies_in(i, expr);
    return found;
  }

  void visit_read(const dsl::Read& read) {
    for (const dsl::Read* seen : operations_.reads)
      if (seen->tensor == read.tensor && same_indices(*seen, read)) return;
    operations_.reads.push_back(&read);
    for (const Expr& index : read.indices) visit_table_reads(index);
  }

  /// Adds the reads in an index or a condition. The arithmetic of indices is free (address modes,
  /// hoisting), but an element of a table that an index reads has to be loaded.
  void visit_table_reads(const Expr& index) {
    dsl::for_each(index, [&](const Expr& e) {
      if (const dsl::Read* r = e.as<dsl::Read>()) operations_.index_reads.push_back(r);
    });
  }

  /// True for a division of floats that uses the divider in each execution of the block. A division
  /// by a literal does not use it, because it is a multiplication by the inverse. A division whose
  /// operands are not changed by any loop of the block is computed before the block.
  bool takes_divider(const dsl::Binary& b) const {
    return b.op == BinaryOp::Div && is_float(b.b.type()) && !b.b.as<dsl::Const>() &&
           (varies(b.a) || varies(b.b));
  }

  /// Returns the multiplication that one instruction computes together with the addition or
  /// subtraction `b`, or nullptr.
  static const dsl::Binary* fused_product(const dsl::Binary& b) {
    if (b.op != BinaryOp::Add && b.op != BinaryOp::Sub) return nullptr;
    const dsl::Binary* product = multiplication(b.a);
    return product ? product : multiplication(b.b);
  }

  void visit_binary(const dsl::Binary& b, const Expr& expr) {
    const auto fused = std::find(fused_.begin(), fused_.end(), &b);
    if (fused != fused_.end()) {
      fused_.erase(fused);
    } else if (const dsl::Binary* product = fused_product(b)) {
      fused_.push_back(product);
      add(operations_.fma, share(expr), 2);
    } else if (b.op == BinaryOp::Pow || divides_by_data(b)) {
      add(operations_.calls, share(expr), 1);
    } else {
      add(operations_.arithmetic, share(expr), 1);
      operations_.divisions += takes_divider(b) ? share(expr) : 0;
    }
    visit(b.a);
    visit(b.b);
  }

  void visit_select(const dsl::Select& s, const Expr& expr) {
    operations_.selects += share(expr);
    if (s.b.as<dsl::Const>()) operations_.useful *= probability(levels_, s.condition);
    visit(s.a);
    visit(s.b);
    visit_table_reads(s.condition);
  }

  static bool same_indices(const dsl::Read& a, const dsl::Read& b) {
    for (size_t i = 0; i < a.indices.size(); ++i)
      if (!dsl::equal(a.indices[i], b.indices[i])) return false;
    return a.indices.size() == b.indices.size();
  }

  const std::vector<Level>& levels_;
  const size_t first_inner_;
  const IsStoredIn& is_stored_in_;
  std::vector<size_t> unrolled_;  // indices of the block's unrolled loops
  // multiplications that are part of a multiply-add counted before
  std::vector<const dsl::Binary*> fused_;
  Operations operations_;
};

}  // namespace

Operations count_operations(const Assign& assign, const std::vector<Level>& levels,
                            size_t first_inner, const IsStoredIn& is_stored_in) {
  return OperationCounter(levels, first_inner, is_stored_in).count(assign);
}

}  // namespace tw::cost_model::facts

// SPDX-License-Identifier: Apache-2.0
#include "cost_model/operations.h"

#include <utility>

namespace tw::cost_model {
namespace {

using dsl::BinaryOp;
using dsl::Expr;
using schedules::Assign;

/// The multiplication under casts and a select with a constant, as in `select(inside, a * b, 0)`.
const dsl::Binary* multiplication(const Expr& expr) {
  if (const dsl::Cast* c = expr.as<dsl::Cast>()) return multiplication(c->a);
  if (const dsl::Select* s = expr.as<dsl::Select>()) return multiplication(s->a);
  const dsl::Binary* b = expr.as<dsl::Binary>();
  return b && b->op == BinaryOp::Mul ? b : nullptr;
}

/// Processors have no vector instruction for a division of integers, which takes as long as a
/// function unless the divisor is a literal.
bool divides_by_data(const dsl::Binary& b) {
  return (b.op == BinaryOp::Div || b.op == BinaryOp::Mod) && !is_float(b.b.type()) &&
         !dsl::as_int(b.b);
}

class OperationCounter {
 public:
  explicit OperationCounter(const std::vector<Level>& levels) : levels_(levels) {}

  Operations count(const Assign& assign) {
    if (assign.combine == dsl::Combine::Sum && multiplication(assign.value)) {
      operations_.fma += 1;
      operations_.arithmetic -= 1;  // the multiplication that visit() is about to count
    } else if (assign.combine != dsl::Combine::None) {
      operations_.arithmetic += 1;
    }
    visit(assign.value);
    return std::move(operations_);
  }

 private:
  void visit(const Expr& expr) {
    dsl::visit(
        expr, [&](const dsl::Read& r) { visit_read(r); },
        [&](const dsl::Binary& b) { visit_binary(b); },
        [&](const dsl::Select& s) { visit_select(s); },
        [&](const dsl::Cast& c) {
          operations_.arithmetic += c.type == c.a.type() ? 0 : 1;
          visit(c.a);
        },
        [&](const dsl::Unary& u) {
          const bool cheap = u.op == dsl::UnaryOp::Neg || u.op == dsl::UnaryOp::Not ||
                             u.op == dsl::UnaryOp::Abs || u.op == dsl::UnaryOp::Floor ||
                             u.op == dsl::UnaryOp::Round;
          (cheap ? operations_.arithmetic : operations_.calls) += 1;
          visit(u.a);
        },
        ignore<dsl::Const, dsl::Var>);
  }

  void visit_read(const dsl::Read& read) {
    for (const dsl::Read* seen : operations_.reads)
      if (seen->tensor == read.tensor && same_indices(*seen, read)) return;
    operations_.reads.push_back(&read);
    for (const Expr& index : read.indices) visit_table_reads(index);
  }

  /// Index arithmetic is free (address modes, hoisting); a table that it reads is a load.
  void visit_table_reads(const Expr& index) {
    dsl::for_each(index, [&](const Expr& e) {
      if (const dsl::Read* r = e.as<dsl::Read>()) operations_.reads.push_back(r);
    });
  }

  void visit_binary(const dsl::Binary& b) {
    const bool adds = b.op == BinaryOp::Add || b.op == BinaryOp::Sub;
    if (adds && (multiplication(b.a) || multiplication(b.b))) {
      operations_.fma += 1;
      operations_.arithmetic -= 1;
    } else if (b.op == BinaryOp::Pow || divides_by_data(b)) {
      operations_.calls += 1;
    } else {
      operations_.arithmetic += 1;
    }
    visit(b.a);
    visit(b.b);
  }

  void visit_select(const dsl::Select& s) {
    operations_.selects += 1;
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
  Operations operations_;
};

}  // namespace

Operations count_operations(const Assign& assign, const std::vector<Level>& levels) {
  return OperationCounter(levels).count(assign);
}

}  // namespace tw::cost_model

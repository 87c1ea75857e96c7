// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/literals.h"

#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/halide/float_bits.h"

namespace tw::codegen::halide {
namespace {

/// The value in the type that values of `type` are computed in.
double computed(DType type, double value) {
  return type == Float64 ? value : static_cast<float>(value);
}

bool is_normal(DType type, double value) {
  return value == 0 ||
         (type == Float64 ? std::isnormal(value) : std::isnormal(static_cast<float>(value)));
}

double gathered(const Expr& expr);

/// The literals of a product or a quotient together; nullopt where they are no normal number.
std::optional<double> gathered_by(const dsl::Binary& b) {
  const double x = gathered(b.a), y = gathered(b.b);
  const double together = b.op == BinaryOp::Mul ? x * y : x / y;
  const DType type = b.a.type();
  const bool may_invert = b.op == BinaryOp::Mul || is_normal(type, 1 / y);
  if (!may_invert || !is_normal(type, together)) return std::nullopt;
  return together;
}

/// The product of the literals that may be gathered from an expression.
double gathered(const Expr& expr) {
  if (const auto* c = expr.as<dsl::Const>()) return c->float_value;
  if (const auto* u = expr.as<dsl::Unary>()) return u->op == UnaryOp::Neg ? gathered(u->a) : 1;
  const auto* b = expr.as<dsl::Binary>();
  if (!b || (b->op != BinaryOp::Mul && b->op != BinaryOp::Div)) return 1;
  return gathered_by(*b).value_or(1);
}

/// Returns the sum of the magnitudes of the terms of an expression. A term counts with its literal,
/// or with its literal factor if it also has other factors. No partial sum of the literals, in
/// whatever order compilers add them, exceeds the result.
double magnitude(const Expr& expr) {
  if (const auto* u = expr.as<dsl::Unary>(); u && u->op == UnaryOp::Neg) return magnitude(u->a);
  const auto* b = expr.as<dsl::Binary>();
  if (b && (b->op == BinaryOp::Add || b->op == BinaryOp::Sub))
    return magnitude(b->a) + magnitude(b->b);
  return std::fabs(gathered(expr));
}

/// LLVM gathers literals from operands that are kept apart too, so all sums above are as well.
bool may_gather_terms(const dsl::Binary& b) {
  return std::isfinite(computed(b.a.type(), magnitude(b.a) + magnitude(b.b)));
}

/// The kinds of values that an expression or the elements of a buffer may have.
struct Contents {
  bool infinite = false;  ///< infinite literals
  bool other = false;     ///< values that are computed or loaded, and finite literals

  Contents operator|(const Contents& b) const { return {infinite || b.infinite, other || b.other}; }
};

/// The contents of a result of an operation that compilers may compute from literals: 0 - inf and
/// inf * 2 are infinite literals. A minimum or maximum is one only if both operands may be.
Contents contents_of_result(BinaryOp op, const Contents& a, const Contents& b) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
    case BinaryOp::Div:
      return {a.infinite || b.infinite, true};
    case BinaryOp::Min:
    case BinaryOp::Max:
      return {a.infinite && b.infinite, true};
    default:
      return {false, true};
  }
}

/// Returns the kinds of values of an expression. `contents_of` returns those of a buffer's elements
/// by the name of the buffer.
template <typename ContentsOf>
Contents contents(const Expr& expr, const ContentsOf& contents_of) {
  const auto inner = [&](const Expr& e) { return contents(e, contents_of); };
  const Contents other{false, true};
  return dsl::visit(
      expr,
      [](const dsl::Const& c) {
        const bool infinite = is_float(c.type) && std::isinf(c.float_value);
        return Contents{infinite, !infinite};
      },
      [&](const dsl::Read& r) { return contents_of(r.tensor); },
      [&](const dsl::Select& s) { return inner(s.a) | inner(s.b); },
      [&](const dsl::Cast& c) {
        if (!is_float(expr.type())) return other;
        const auto* literal = c.a.as<dsl::Const>();
        if (!literal || !is_float(literal->type)) return inner(c.a);
        const bool infinite = std::isinf(round_to(expr.type(), literal->float_value));
        return Contents{infinite, !infinite};
      },
      [&](const dsl::Unary& u) { return keeps_infinity(u.op) ? inner(u.a) : other; },
      [&](const dsl::Binary& b) {
        return is_float(expr.type()) ? contents_of_result(b.op, inner(b.a), inner(b.b)) : other;
      },
      always<dsl::Var>(other));
}

/// True if Halide may narrow this operation in f64 to a product of u16 and f16, which it cannot
/// compile: f64(u8) * 1.5 is one.
bool may_be_narrowed(const dsl::Binary& b) {
  if (b.a.type() != Float64) return false;
  bool has_unsigned = false, has_half = false;
  for (const Expr* operand : {&b.a, &b.b})
    dsl::for_each(*operand, [&](const Expr& e) {
      const auto* c = e.as<dsl::Cast>();
      const DType from = c ? c->a.type() : Float64;
      has_unsigned = has_unsigned || from == UInt8 || from == UInt16 || from == Bool;
      has_half =
          has_half || is_narrow_float(e.type()) || (e.as<dsl::Const>() && is_float(e.type()));
    });
  return has_unsigned && has_half;
}

bool compares(BinaryOp op) {
  return op == BinaryOp::Eq || op == BinaryOp::Ne || op == BinaryOp::Lt || op == BinaryOp::Le;
}

/// Returns the strict form of an operation, for which LLVM does not assume that no float is
/// infinite. With that assumption an operation on an infinite literal is undefined: LLVM makes x of
/// x + select(c, 0, -inf). nullopt if the operation has no strict form.
std::optional<hi::Call::IntrinsicOp> strict_operation(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
      return hi::Call::strict_add;
    case BinaryOp::Sub:
      return hi::Call::strict_sub;
    case BinaryOp::Mul:
      return hi::Call::strict_mul;
    case BinaryOp::Div:
      return hi::Call::strict_div;
    case BinaryOp::Eq:
    case BinaryOp::Ne:  // kept_apart() negates it
      return hi::Call::strict_eq;
    case BinaryOp::Lt:
      return hi::Call::strict_lt;
    case BinaryOp::Le:
      return hi::Call::strict_le;
    default:
      return std::nullopt;
  }
}

/// Returns the strict form of an operation if its literals must not be combined, else nullopt.
std::optional<hi::Call::IntrinsicOp> operation_kept_apart(const dsl::Binary& b,
                                                          const BufferNames& infinite) {
  if (!is_float(b.a.type())) return std::nullopt;
  if (may_be_infinite_literal(b.a, infinite) || may_be_infinite_literal(b.b, infinite))
    return strict_operation(b.op);
  bool must_be_strict = false;
  if (b.op == BinaryOp::Mul || b.op == BinaryOp::Div)
    must_be_strict = !gathered_by(b) || may_be_narrowed(b);
  else if (b.op == BinaryOp::Add || b.op == BinaryOp::Sub)
    must_be_strict = !may_gather_terms(b);
  return must_be_strict ? strict_operation(b.op) : std::nullopt;
}

/// True if the loop may have no iteration: one of its upper bounds may be less than or equal to one
/// of its lower bounds.
bool may_be_empty(const Loop& loop, const Ranges& ranges) {
  for (const Expr& begin : schedules::alternatives(loop.begin, BinaryOp::Max))
    for (const Expr& end : schedules::alternatives(loop.end, BinaryOp::Min))
      if (ranges.of(end - begin).low < 1) return true;
  return false;
}

/// Finds the buffers that may hold infinite literals. Copies of a buffer in unrolled code have the
/// same name, but each Allocate is judged by itself: one copy of a reduction may have lost all its
/// terms.
class InfiniteBuffers {
 public:
  BufferNames of(const Block& body) {
    visit(body);
    for (const auto& [buffer, stored] : buffers_) judge(buffer, stored);
    return std::move(infinite_);
  }

 private:
  struct Stored {
    Contents values;
    bool combines = false;    ///< true for a reduction
    int outer_skippable = 0;  ///< skippable_ at the Allocate
  };

  void visit(const Block& body) {
    for (const Stmt& stmt : body) {
      if (const auto* assign = stmt.as<Assign>()) add(*assign);
      if (const auto* allocate = stmt.as<Allocate>()) {
        visit(*allocate);
      } else if (const auto* loop = stmt.as<Loop>()) {
        ranges_.set(loop->variable, loop->begin, loop->end);
        visit(*loop->body, may_be_empty(*loop, ranges_));
      } else if (const auto* branch = stmt.as<If>()) {
        visit(*branch->body, true);
      }
    }
  }

  void visit(const Block& body, bool may_be_skipped) {
    skippable_ += may_be_skipped;
    visit(body);
    skippable_ -= may_be_skipped;
  }

  void visit(const Allocate& allocate) {
    const std::string& name = allocate.buffer.name;
    const Stored outer =
        std::exchange(buffers_[name], Stored{.values = {}, .outer_skippable = skippable_});
    visit(*allocate.body);
    judge(name, std::exchange(buffers_[name], outer));
  }

  void add(const Assign& assign) {
    const auto contents_of = [&](const std::string& buffer) {
      const auto found = buffers_.find(buffer);
      return found == buffers_.end() ? Contents{false, true} : readable(found->second);
    };
    Contents values = contents(assign.value, contents_of);
    if (assign.guard) values = values | contents(assign.guard->otherwise, contents_of);
    Stored& stored = buffers_[assign.buffer];
    const bool combines = assign.combine != Combine::None;
    if (combines && skippable_ > stored.outer_skippable) values.other = false;
    stored.values = stored.values | values;
    stored.combines = stored.combines || combines;
  }

  /// A reduction with terms is not read before they are combined with its initial value.
  static Contents readable(const Stored& stored) {
    const bool has_terms = stored.combines && stored.values.other;
    return {stored.values.infinite && !has_terms, stored.values.other};
  }
  void judge(const std::string& buffer, const Stored& stored) {
    if (readable(stored).infinite) infinite_.insert(buffer);
  }

  std::map<std::string, Stored> buffers_;
  Ranges ranges_;
  /// Number of branches, and of loops that may be empty, around the statement.
  int skippable_ = 0;
  BufferNames infinite_;
};

}  // namespace

bool keeps_infinity(UnaryOp op) {
  return op == UnaryOp::Neg || op == UnaryOp::Abs || op == UnaryOp::Floor || op == UnaryOp::Round ||
         op == UnaryOp::Sqrt;
}

bool may_be_infinite_literal(const Expr& expr, const BufferNames& infinite) {
  return contents(expr,
                  [&](const std::string& buffer) {
                    return Contents{infinite.contains(buffer), true};
                  })
      .infinite;
}

BufferNames buffers_of_infinite_literals(const Block& body) { return InfiniteBuffers().of(body); }

HExpr kept_apart(const dsl::Binary& operation, const HExpr& a, const HExpr& b,
                 const BufferNames& infinite) {
  const auto strict = operation_kept_apart(operation, infinite);
  if (!strict) return {};
  if (!compares(operation.op))
    return hi::Call::make(a.type(), *strict, {a, b}, hi::Call::PureIntrinsic);
  // If an operand is computed, LLVM assumes that it is finite.
  const HExpr result = hi::Call::make(Halide::Bool(a.type().lanes()), *strict,
                                      {hidden(a), hidden(b)}, hi::Call::PureIntrinsic);
  return operation.op == BinaryOp::Ne ? !result : result;
}

}  // namespace tw::codegen::halide

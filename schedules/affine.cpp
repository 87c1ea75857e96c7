// SPDX-License-Identifier: Apache-2.0
#include "schedules/affine.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/integer.h"

namespace tw::schedules {

using dsl::Binary;
using dsl::BinaryOp;
using dsl::Var;

namespace {

// Rules other than ranges that one proof may use, and rules tried in the whole search for it.
// Proofs about the loops of schedules use 0 to 3; the second bounds the work where there is no
// proof.
constexpr int most_rules = 6;
constexpr int search_steps = 400;

Affine negated(const Affine& affine) {
  Affine result;
  result.add(affine, -1);
  return result;
}

const Binary* binary_of(const Expr& expr, BinaryOp op) {
  const Binary* b = expr.as<Binary>();
  return b && b->op == op ? b : nullptr;
}

void append_affine(const Expr& expr, int64_t factor, Affine& out) {
  if (const auto value = dsl::as_int(expr)) {
    out.constant += factor * *value;
    return;
  }
  if (const Binary* b = expr.as<Binary>()) {
    if (b->op == BinaryOp::Add || b->op == BinaryOp::Sub) {
      append_affine(b->a, factor, out);
      append_affine(b->b, b->op == BinaryOp::Add ? factor : -factor, out);
      return;
    }
    if (b->op == BinaryOp::Mul) {
      if (const auto k = dsl::as_int(b->b)) return append_affine(b->a, factor * *k, out);
      if (const auto k = dsl::as_int(b->a)) return append_affine(b->b, factor * *k, out);
    }
  }
  if (const dsl::Unary* u = expr.as<dsl::Unary>(); u && u->op == dsl::UnaryOp::Neg)
    return append_affine(u->a, -factor, out);
  out.add(expr, factor);
}

void split_conjunction(const Expr& condition, Constraints& out) {
  if (dsl::is_int(condition, 1)) return;
  const Binary* b = condition.as<Binary>();
  if (b && b->op == BinaryOp::And) {
    split_conjunction(b->a, out);
    split_conjunction(b->b, out);
    return;
  }
  if (b && !is_float(b->a.type()) && b->a.type() != Bool) {
    Affine difference = to_affine(b->b);
    difference.add(to_affine(b->a), -1);
    if (b->op == BinaryOp::Le || b->op == BinaryOp::Eq) out.affine.push_back(difference);
    if (b->op == BinaryOp::Eq) out.affine.push_back(negated(difference));
    if (b->op == BinaryOp::Lt) {
      difference.constant -= 1;
      out.affine.push_back(difference);
    }
    if (b->op != BinaryOp::Ne) return;
  }
  out.opaque.push_back(condition);
}

/// The affine expressions whose max (or min) `expr` is.
void alternatives(const Expr& expr, BinaryOp op, std::vector<Expr>& out) {
  if (const Binary* b = binary_of(expr, op)) {
    alternatives(b->a, op, out);
    alternatives(b->b, op, out);
  } else {
    out.push_back(expr);
  }
}

bool is_min_or_max(const Expr& atom) {
  return binary_of(atom, BinaryOp::Min) || binary_of(atom, BinaryOp::Max);
}

/// c * min(a, b) with c > 0 is at least x only where both c a and c b are; likewise the negated
/// maximum.
bool needs_both(const Affine::Term& term) {
  return binary_of(term.atom, term.coefficient > 0 ? BinaryOp::Min : BinaryOp::Max) != nullptr;
}

Affine without(Affine affine, const Affine::Term& term) {
  affine.add(term.atom, -term.coefficient);
  return affine;
}

/// floor(e / k), k > 0
struct FloorDivision {
  Expr numerator;
  int64_t divisor;
};
std::optional<FloorDivision> floor_division(const Expr& atom) {
  const Binary* division = binary_of(atom, BinaryOp::Div);
  if (!division || is_float(atom.type())) return std::nullopt;
  const auto k = dsl::as_int(division->b);
  return k && *k > 0 ? std::optional(FloorDivision{division->a, *k}) : std::nullopt;
}

/// k * affine without the floor of its term +-floor(e / k): affine >= 0 exactly where the result
/// is, and affine is the result divided by k, rounded down.
///   floor(e/k) + r  ->  e + k r
///   r - floor(e/k)  ->  k r - e + k - 1
Affine without_floor(const Affine& affine, const Affine::Term& term,
                     const FloorDivision& division) {
  Affine scaled;
  scaled.add(without(affine, term), division.divisor);
  scaled.add(to_affine(division.numerator), term.coefficient);
  if (term.coefficient < 0) scaled.constant += division.divisor - 1;
  return scaled;
}

/// 2 x - 3 >= 0 over the integers is x - 2 >= 0.
void tighten(Affine& at_least_zero) {
  int64_t divisor = 0;
  for (const Affine::Term& term : at_least_zero.terms)
    divisor = std::gcd(divisor, term.coefficient);
  if (divisor <= 1) return;
  for (Affine::Term& term : at_least_zero.terms) term.coefficient /= divisor;
  at_least_zero.constant = floor_div(at_least_zero.constant, divisor);
}

std::optional<int64_t> best(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a) return b;
  if (!b) return a;
  return std::max(*a, *b);
}

}  // namespace

void Affine::add(const Expr& atom, int64_t factor) {
  if (factor == 0) return;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!dsl::equal(terms[i].atom, atom)) continue;
    terms[i].coefficient += factor;
    if (terms[i].coefficient == 0) terms.erase(terms.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
  terms.push_back({atom, factor});
}

void Affine::add(const Affine& other, int64_t factor) {
  constant += factor * other.constant;
  for (const Term& term : other.terms) add(term.atom, factor * term.coefficient);
}

int64_t Affine::coefficient(const Expr& atom) const {
  for (const Term& term : terms)
    if (dsl::equal(term.atom, atom)) return term.coefficient;
  return 0;
}

Affine to_affine(const Expr& expr) {
  Affine affine;
  append_affine(expr, 1, affine);
  return affine;
}

Expr to_expr(const Affine& affine) {
  Expr sum;
  bool constant_first = false;
  const auto append = [&](const Expr& magnitude, bool positive) {
    if (!sum.defined()) {
      sum = positive ? magnitude : Expr(affine.constant) - magnitude;
      constant_first = !positive;
    } else {
      sum = positive ? sum + magnitude : sum - magnitude;
    }
  };
  // Positive terms first, `x - y` rather than `0 - y + x`; without any the constant, `1 - y`.
  for (const bool positive : {true, false})
    for (const Affine::Term& term : affine.terms)
      if ((term.coefficient > 0) == positive)
        append(term.atom * Expr(std::abs(term.coefficient)), positive);
  if (!sum.defined()) return Expr(affine.constant);
  if (affine.constant == 0 || constant_first) return sum;
  return affine.constant > 0 ? sum + Expr(affine.constant) : sum - Expr(-affine.constant);
}

Constraints split_condition(const Expr& condition) {
  Constraints constraints;
  split_conjunction(condition, constraints);
  return constraints;
}

Expr to_condition(const Affine& at_least_zero) {
  // 0 <= a is printed with the negative part on the left: `x + 3 <= n`.
  Affine left, right;
  for (const Affine::Term& term : at_least_zero.terms) {
    Affine& side = term.coefficient < 0 ? left : right;
    side.add(term.atom, std::abs(term.coefficient));
  }
  (at_least_zero.constant < 0 ? left : right).constant += std::abs(at_least_zero.constant);
  return to_expr(left) <= to_expr(right);
}

void Bounds::push_loop(const std::string& variable, const Expr& begin, const Expr& end) {
  const auto low = lower(begin);
  const auto high = upper(end);
  variables_.push_back({variable, low, high ? std::optional(*high - 1) : std::nullopt});
  const Expr v = dsl::var(variable);
  std::vector<Expr> begins, ends;
  alternatives(begin, BinaryOp::Max, begins);
  alternatives(end, BinaryOp::Min, ends);
  for (const Expr& e : begins)
    if (!dsl::as_int(e)) add_fact(to_affine(v - e));
  for (const Expr& e : ends)
    if (!dsl::as_int(e)) add_fact(to_affine(e - v - Expr(1)));
}

void Bounds::push_condition(const Expr& condition) {
  for (Affine& affine : split_condition(condition).affine) add_fact(std::move(affine));
}

void Bounds::add_fact(Affine at_least_zero) {
  tighten(at_least_zero);
  int depth = -1;
  for (const Affine::Term& term : at_least_zero.terms) depth = std::max(depth, depth_of(term.atom));
  derive_facts(at_least_zero);
  facts_.push_back({std::move(at_least_zero), depth});
}

void Bounds::derive_facts(const Affine& at_least_zero) {
  for (const Affine::Term& term : at_least_zero.terms) {
    if (const auto division = floor_division(term.atom);
        division && std::abs(term.coefficient) == 1)
      return add_fact(without_floor(at_least_zero, term, *division));
    if (!needs_both(term)) continue;
    const Binary& choice = *term.atom.as<Binary>();
    for (const Expr& side : {choice.a, choice.b}) {
      Affine fact = without(at_least_zero, term);
      fact.add(to_affine(side), term.coefficient);
      add_fact(std::move(fact));
    }
    return;
  }
}

void Bounds::restore(Mark mark) {
  variables_.resize(mark.variables);
  facts_.resize(mark.facts);
}

int Bounds::depth_of(const std::string& name) const {
  for (size_t i = variables_.size(); i > 0; --i)
    if (variables_[i - 1].name == name) return static_cast<int>(i - 1);
  return -1;
}

int Bounds::depth_of(const Expr& atom) const {
  int depth = -1;
  dsl::for_each(atom, [&](const Expr& e) {
    if (const Var* v = e.as<Var>()) depth = std::max(depth, depth_of(v->name));
  });
  return depth;
}

std::optional<int64_t> Bounds::lower(const Affine& affine) const {
  return search_below(affine, std::nullopt);
}
std::optional<int64_t> Bounds::upper(const Affine& affine) const {
  const auto bound = search_below(negated(affine), std::nullopt);
  return bound ? std::optional(-*bound) : std::nullopt;
}
std::optional<int64_t> Bounds::lower(const Expr& expr) const { return lower(to_affine(expr)); }
std::optional<int64_t> Bounds::upper(const Expr& expr) const { return upper(to_affine(expr)); }

std::optional<int64_t> Bounds::atom_bound(const Expr& atom, bool below, int rules) const {
  const auto bound = [&](const Expr& e, bool low) -> std::optional<int64_t> {
    if (low) return bound_below(to_affine(e), rules);
    const auto b = bound_below(negated(to_affine(e)), rules);
    return b ? std::optional(-*b) : std::nullopt;
  };
  if (const Var* v = atom.as<Var>()) {
    const int depth = depth_of(v->name);
    if (depth < 0) return std::nullopt;
    const Variable& variable = variables_[static_cast<size_t>(depth)];
    return below ? variable.low : variable.high;
  }
  if (const Binary* b = atom.as<Binary>()) {
    const auto k = dsl::as_int(b->b);
    if (b->op == BinaryOp::Div && k && *k > 0) {
      const auto inner = bound(b->a, below);
      return inner ? std::optional(floor_div(*inner, *k)) : std::nullopt;
    }
    if (b->op == BinaryOp::Mod && k && *k > 0) {
      const auto low = bound(b->a, true), high = bound(b->a, false);
      if (low && high && *low >= 0 && *high < *k) return below ? low : high;
      return below ? 0 : *k - 1;
    }
  }
  if (const dsl::Select* s = atom.as<dsl::Select>()) {
    const auto a = bound(s->a, below), b = bound(s->b, below);
    if (!a || !b) return std::nullopt;
    return below ? std::min(*a, *b) : std::max(*a, *b);
  }
  // A value that was read or cast has at least the range of its narrow type.
  const dsl::Cast* cast = atom.as<dsl::Cast>();
  const DType type = cast ? cast->a.type() : atom.type();
  if (type == UInt8) return below ? 0 : 255;
  if (type == Int8) return below ? -128 : 127;
  if (type == Bool) return below ? 0 : 1;
  return std::nullopt;
}

std::optional<int64_t> Bounds::search_below(const Affine& affine,
                                            std::optional<int64_t> enough) const {
  steps_ = search_steps;
  std::optional<int64_t> result;
  for (int rules = 0; rules <= most_rules && (rules == 0 || steps_ > 0); ++rules) {
    result = best(result, bound_below(affine, rules, enough));
    if (enough && result && *result >= *enough) break;
  }
  return result;
}

// Range by range, innermost first; other rules may be taken at any point, `rules` times in all. The
// search tries few before many, as the proofs that exist are short.
std::optional<int64_t> Bounds::bound_below(const Affine& affine, int rules,
                                           std::optional<int64_t> enough) const {
  if (affine.is_constant()) return affine.constant;
  std::optional<int64_t> result;
  const auto suffices = [&](std::optional<int64_t> bound) {
    result = best(result, bound);
    return enough && result && *result >= *enough;
  };
  const Affine::Term term = next_to_eliminate(affine);
  if (is_min_or_max(term.atom)) {
    if (suffices(bound_of_choice(affine, term, rules, enough))) return result;
  } else if (const auto bound = atom_bound(term.atom, term.coefficient > 0, rules)) {
    Affine replaced = without(affine, term);
    replaced.constant += term.coefficient * *bound;
    if (suffices(bound_below(replaced, rules, enough))) return result;
  }
  if (rules == 0 || steps_ <= 0) return result;
  --steps_;
  const int depth = depth_of(term.atom);
  for (const Fact& fact : facts_) {
    if (fact.depth != depth) continue;
    const int64_t a = fact.at_least_zero.coefficient(term.atom), c = term.coefficient;
    if (a == 0 || (a > 0) != (c > 0) || c % a != 0) continue;
    // affine = (affine - k fact) + k fact >= affine - k fact, for k = c / a > 0.
    Affine eliminated = affine;
    eliminated.add(fact.at_least_zero, -(c / a));
    if (suffices(bound_below(eliminated, rules - 1, enough))) return result;
  }
  if (suffices(bound_of_floors(affine, rules - 1, enough))) return result;
  suffices(rounded_bound(term.atom, term.coefficient, without(affine, term), rules - 1, enough));
  return result;
}

// The innermost atom; of several the one that is no variable, which may contain the others. Where a
// minimum or maximum may be replaced by either side, those of which both sides must hold come
// first, so that the choice may depend on them.
Affine::Term Bounds::next_to_eliminate(const Affine& affine) const {
  const Affine::Term* next = &affine.terms[0];
  for (const Affine::Term& term : affine.terms) {
    const int d = depth_of(term.atom), best_depth = depth_of(next->atom);
    if (d > best_depth || (d == best_depth && next->atom.as<Var>())) next = &term;
  }
  if (!is_min_or_max(next->atom) || needs_both(*next)) return *next;
  for (const Affine::Term& term : affine.terms)
    if (needs_both(term)) return term;
  return *next;
}

std::optional<int64_t> Bounds::bound_of_choice(const Affine& affine, const Affine::Term& term,
                                               int rules, std::optional<int64_t> enough) const {
  const Binary& choice = *term.atom.as<Binary>();
  Affine with_a = without(affine, term), with_b = with_a;
  with_a.add(to_affine(choice.a), term.coefficient);
  with_b.add(to_affine(choice.b), term.coefficient);
  const bool both = needs_both(term);
  const auto x = bound_below(with_a, rules, enough);
  if (both && !x) return std::nullopt;
  if (!both && enough && x && *x >= *enough) return x;
  const auto y = bound_below(with_b, rules, enough);
  if (!both) return best(x, y);
  return y ? std::optional(std::min(*x, *y)) : std::nullopt;
}

std::optional<int64_t> Bounds::bound_of_floors(const Affine& affine, int rules,
                                               std::optional<int64_t> enough) const {
  for (const Affine::Term& term : affine.terms) {
    const auto division = floor_division(term.atom);
    if (!division) continue;
    const int64_t k = division->divisor, c = term.coefficient;
    if (std::abs(c) == 1) {
      const auto scaled = bound_below(without_floor(affine, term, *division), rules,
                                      enough ? std::optional(*enough * k) : std::nullopt);
      return scaled ? std::optional(floor_div(*scaled, k)) : std::nullopt;
    }
    if (c % k == 0) {
      // e - k + 1 <= k floor(e/k) <= e
      Affine replaced = without(affine, term);
      replaced.add(to_affine(division->numerator), c / k);
      if (c > 0) replaced.constant -= c / k * (k - 1);
      return bound_below(replaced, rules, enough);
    }
  }
  return std::nullopt;
}

// A fact a v + r >= 0 bounds v itself by an integer: v <= floor(max r / -a). This sees what
// elimination over the rationals does not: 48 x + v < 56 leaves x = 0 only.
std::optional<int64_t> Bounds::rounded_bound(const Expr& atom, int64_t c, const Affine& rest,
                                             int rules, std::optional<int64_t> enough) const {
  std::optional<int64_t> result;
  for (const Fact& fact : facts_) {
    const int64_t a = fact.at_least_zero.coefficient(atom);
    if (a == 0 || (a > 0) != (c > 0)) continue;
    Affine others = fact.at_least_zero;
    others.add(atom, -a);
    const auto low = bound_below(negated(others), rules);
    if (!low) continue;
    Affine replaced = rest;
    replaced.constant += c * (a > 0 ? ceil_div(*low, a) : floor_div(-*low, -a));
    result = best(result, bound_below(replaced, rules, enough));
  }
  return result;
}

bool Bounds::proves(const Expr& condition) const {
  if (dsl::is_int(condition, 1)) return true;
  const Constraints constraints = split_condition(condition);
  if (!constraints.opaque.empty()) return false;
  return std::all_of(constraints.affine.begin(), constraints.affine.end(), [&](const Affine& a) {
    const auto low = search_below(a, 0);
    return low && *low >= 0;
  });
}

bool Bounds::refutes(const Expr& condition) const {
  if (dsl::is_int(condition, 0)) return true;
  const Constraints constraints = split_condition(condition);
  return std::any_of(constraints.affine.begin(), constraints.affine.end(), [&](const Affine& a) {
    const auto low = search_below(negated(a), 1);
    return low && *low > 0;
  });
}

namespace {

/// f / w and f % w with coefficients w * c and c are c * f together.
void rejoin_fused(Affine& affine) {
  for (size_t i = 0; i < affine.terms.size(); ++i) {
    const Binary* modulo = binary_of(affine.terms[i].atom, BinaryOp::Mod);
    if (!modulo) continue;
    const auto w = dsl::as_int(modulo->b);
    if (!w) continue;
    const int64_t c = affine.terms[i].coefficient;
    const Expr whole = modulo->a, part = affine.terms[i].atom;
    const Expr quotient = whole / Expr(*w);
    if (affine.coefficient(quotient) != c * *w) continue;
    affine.add(quotient, -c * *w);
    affine.add(part, -c);
    affine.add(to_affine(whole), c);
    i = static_cast<size_t>(-1);
  }
}

struct Divided {
  Affine quotient, remainder;
};

/// a = k * quotient + remainder with 0 <= remainder < k proved; nullopt when it is not.
std::optional<Divided> divide(const Affine& a, int64_t k, const Bounds& bounds) {
  Divided d;
  d.quotient.constant = floor_div(a.constant, k);
  d.remainder.constant = floor_mod(a.constant, k);
  for (const Affine::Term& term : a.terms)
    if (term.coefficient % k == 0) {
      d.quotient.add(term.atom, term.coefficient / k);
    } else {
      d.remainder.add(term.atom, term.coefficient);
    }
  const auto low = bounds.lower(d.remainder), high = bounds.upper(d.remainder);
  if (!low || !high || floor_div(*low, k) != floor_div(*high, k)) return std::nullopt;
  const int64_t whole = floor_div(*low, k);
  d.quotient.constant += whole;
  d.remainder.constant -= whole * k;
  return d;
}

Expr simplify_division(const Binary& b, const Bounds& bounds) {
  const Expr a = simplify(b.a, bounds);
  const auto k = dsl::as_int(b.b);
  if (!k || *k <= 0) return dsl::binary(b.op, a, simplify(b.b, bounds));
  const Affine affine = to_affine(a);
  if (const auto d = divide(affine, *k, bounds))
    return to_expr(b.op == BinaryOp::Div ? d->quotient : d->remainder);
  if (b.op == BinaryOp::Div) {
    // floor((k q + r) / k) = q + floor(r / k)
    Affine quotient, remainder;
    remainder.constant = affine.constant;
    for (const Affine::Term& term : affine.terms)
      (term.coefficient % *k == 0 ? quotient : remainder)
          .add(term.atom, term.coefficient % *k == 0 ? term.coefficient / *k : term.coefficient);
    if (!quotient.terms.empty())
      return to_expr(quotient) + dsl::binary(BinaryOp::Div, to_expr(remainder), Expr(*k));
  } else {
    Affine remainder;
    remainder.constant = floor_mod(affine.constant, *k);
    for (const Affine::Term& term : affine.terms)
      if (term.coefficient % *k != 0) remainder.add(term.atom, term.coefficient);
    return dsl::binary(BinaryOp::Mod, to_expr(remainder), Expr(*k));
  }
  return dsl::binary(b.op, a, Expr(*k));
}

std::optional<Expr> simplify_comparison(const Expr& condition, const Bounds& bounds) {
  if (bounds.proves(condition)) return dsl::constant_int(Bool, 1);
  if (bounds.refutes(condition)) return dsl::constant_int(Bool, 0);
  return std::nullopt;
}

/// min(a, b, ...) without what another is proved not to exceed; likewise for the maximum.
Expr simplify_minmax(const Binary& b, const Bounds& bounds) {
  const Expr x = simplify(b.a, bounds), y = simplify(b.b, bounds);
  if (is_float(x.type())) return dsl::binary(b.op, x, y);
  std::vector<Expr> all, kept;
  alternatives(x, b.op, all);
  alternatives(y, b.op, all);
  for (const Expr& candidate : all) {
    const auto covers = [&](const Expr& a, const Expr& other) {
      return bounds.proves(b.op == BinaryOp::Min ? a <= other : other <= a);
    };
    if (std::any_of(kept.begin(), kept.end(), [&](const Expr& k) { return covers(k, candidate); }))
      continue;
    std::erase_if(kept, [&](const Expr& k) { return covers(candidate, k); });
    kept.push_back(candidate);
  }
  Expr result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = dsl::binary(b.op, result, kept[i]);
  return result;
}

Expr simplify_affine(const Expr& expr, const Bounds& bounds) {
  Affine sum;
  const Affine raw = to_affine(expr);
  sum.constant = raw.constant;
  for (const Affine::Term& term : raw.terms)
    sum.add(to_affine(simplify(term.atom, bounds)), term.coefficient);
  rejoin_fused(sum);
  return to_expr(sum);
}

}  // namespace

Expr simplify(const Expr& expr, const Bounds& bounds) {
  if (const dsl::Select* s = expr.as<dsl::Select>())
    return dsl::select(simplify(s->condition, bounds), simplify(s->a, bounds),
                       simplify(s->b, bounds));
  if (const dsl::Read* r = expr.as<dsl::Read>()) {
    std::vector<Expr> indices;
    for (const Expr& index : r->indices) indices.push_back(simplify(index, bounds));
    return dsl::read(r->tensor, std::move(indices), r->type, r->source);
  }
  if (const dsl::Cast* c = expr.as<dsl::Cast>()) return dsl::cast(c->type, simplify(c->a, bounds));
  if (const dsl::Unary* u = expr.as<dsl::Unary>()) return dsl::unary(u->op, simplify(u->a, bounds));
  const Binary* b = expr.as<Binary>();
  if (!b) return expr;
  switch (b->op) {
    case BinaryOp::Div:
    case BinaryOp::Mod:
      if (expr.type() == Int64) return simplify_division(*b, bounds);
      break;
    case BinaryOp::Min:
    case BinaryOp::Max:
      return simplify_minmax(*b, bounds);
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
      if (expr.type() == Int64) return simplify_affine(expr, bounds);
      break;
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::Eq:
    case BinaryOp::Ne:
      if (const auto decided = simplify_comparison(expr, bounds)) return *decided;
      break;
    default:
      break;
  }
  return dsl::binary(b->op, simplify(b->a, bounds), simplify(b->b, bounds));
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/bounds.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>

#include "base/hash.h"
#include "base/integer.h"

namespace tw::schedules {

using dsl::Binary;
using dsl::BinaryOp;

namespace {

// Elimination by ranges is free; the other rules of bound_below() are limited. One proof uses at
// most `most_rules` of them, and the whole search for a proof takes at most `search_steps` steps.
// Proofs about the loops of schedules use such rules 0 to 3 times. The limit of steps bounds the
// work if there is no proof.
constexpr int most_rules = 6;
constexpr int search_steps = 400;

// After this number of search steps, witnesses are evaluated to find out whether the search can
// succeed. Of 48 witnesses there is nearly always one in which both the row and the kernel position
// lie beyond an edge.
constexpr int steps_before_witnesses = 2;
constexpr size_t witness_count = 48;

std::optional<int64_t> best(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a) return b;
  if (!b) return a;
  return std::max(*a, *b);
}

/// Adds factor * value to a sum. Sets `overflows` if the sum or its negative leaves int64.
void add_product(int64_t factor, int64_t value, int64_t& sum, bool& overflows) {
  int64_t product;
  overflows |= __builtin_mul_overflow(factor, value, &product);
  overflows |= __builtin_add_overflow(sum, product, &sum);
  overflows |= sum == std::numeric_limits<int64_t>::min();
}

constexpr __int128 least_int64 = std::numeric_limits<int64_t>::min();
constexpr __int128 largest_int64 = std::numeric_limits<int64_t>::max();

/// The largest sum of a WideRange. A product of a coefficient and a value is at most 2^126, so
/// adding a product to such a sum does not overflow 128 bits.
constexpr __int128 most_sum = __int128{1} << 120;

/// If the greater side of a comparison exceeds int64 by at most `most_excess`, it wraps to at most
/// -2^62. Then the comparison fails if the lesser side is at least -`most_compared`. The same
/// holds, with signs exchanged, for a lesser side below int64.
constexpr __int128 most_excess = __int128{1} << 62, most_compared = __int128{1} << 61;

/// True if the values are within -65536..65535. This holds for values of types of at most 16 bits,
/// and of wider types that are masked or shifted.
bool is_narrow(const Range& values) { return values.low >= -65536 && values.high <= 65535; }

/// True for a comparison of indices (Int64) by <=, < or ==. Comparisons of narrower integers do not
/// count, because their sums wrap: a - b <= 3 does not imply a <= b + 3.
bool compares_indices(const Binary& b) {
  const bool compares = b.op == BinaryOp::Le || b.op == BinaryOp::Lt || b.op == BinaryOp::Eq;
  return compares && b.a.type() == Int64;
}

/// Returns the divisor of an integer division or modulo by a positive literal; 0 for any other
/// expression.
int64_t positive_divisor(const Expr& expr) {
  const Binary* b = expr.as<Binary>();
  if (!b || (b->op != BinaryOp::Div && b->op != BinaryOp::Mod) || is_float(expr.type())) return 0;
  return std::max<int64_t>(dsl::as_int(b->b).value_or(0), 0);
}

}  // namespace

// ---- numbered atoms -------------------------------------------------------------------------

void Bounds::Linear::add_constant(int64_t value, int64_t factor) {
  add_product(factor, value, constant, overflows);
}

void Bounds::Linear::add(int atom, int64_t factor) {
  if (factor == 0) return;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].atom != atom) continue;
    add_product(1, factor, terms[i].coefficient, overflows);
    if (terms[i].coefficient == 0) terms.erase(i);
    return;
  }
  terms.push_back({atom, factor});
}

void Bounds::Linear::add(const Linear& other, int64_t factor) {
  overflows |= other.overflows;
  add_constant(other.constant, factor);
  for (const Term& term : other.terms) {
    int64_t coefficient = 0;
    add_product(factor, term.coefficient, coefficient, overflows);
    add(term.atom, coefficient);
  }
}

int64_t Bounds::Linear::coefficient(int atom) const {
  for (const Term& term : terms)
    if (term.atom == atom) return term.coefficient;
  return 0;
}

Bounds::Linear Bounds::Linear::without(const Term& term) const {
  Linear rest{constant, {}, overflows};
  for (const Term& t : terms)
    if (t.atom != term.atom) rest.terms.push_back(t);
  return rest;
}

Bounds::Linear Bounds::Linear::negated() const {
  if (overflows) return *this;
  Linear result{-constant, terms};
  for (Term& term : result.terms) term.coefficient = -term.coefficient;
  return result;
}

// slots_ is a hash table of the numbers with open addressing. It is kept at most half full.
int Bounds::number(const Expr& expr) const {
  if (2 * (atoms_.size() + 1) > slots_.size()) {
    slots_.assign(std::max<size_t>(64, 2 * slots_.size()), -1);
    for (size_t id = 0; id < atoms_.size(); ++id) {
      size_t slot = atoms_[id].expr.hash() % slots_.size();
      while (slots_[slot] >= 0) slot = (slot + 1) % slots_.size();
      slots_[slot] = static_cast<int>(id);
    }
  }
  size_t slot = expr.hash() % slots_.size();
  for (; slots_[slot] >= 0; slot = (slot + 1) % slots_.size())
    if (dsl::equal(atoms_[static_cast<size_t>(slots_[slot])].expr, expr)) return slots_[slot];
  return enter(expr);
}

int Bounds::number_of_variable(const std::string& name) const {
  const size_t hash = std::hash<std::string>()(name);
  for (const NumberedVariable& v : numbered_variables_)
    if (v.hash == hash && atoms_[static_cast<size_t>(v.atom)].expr.as<dsl::Var>()->name == name)
      return v.atom;
  return number(dsl::var(name));
}

int Bounds::enter(const Expr& expr) const {
  Atom atom;
  atom.expr = expr;
  static const Ranges any_loops(loop_values);
  atom.values = expr.as<dsl::Var>() ? loop_values : any_loops.of(expr);
  atom.fits_int32 = atom.values.fits_int32();
  const Binary* b = expr.as<Binary>();
  if (expr.as<dsl::Var>()) {
    atom.kind = AtomKind::Variable;
  } else if (b && (b->op == BinaryOp::Min || b->op == BinaryOp::Max)) {
    atom.kind = b->op == BinaryOp::Min ? AtomKind::Min : AtomKind::Max;
    atom.a = value_in_any_scope(b->a);
    atom.b = value_in_any_scope(b->b);
    atom.sum = atom.a;
    atom.sum.add(atom.b, 1);
    atom.folds = atom.sum.terms.size() < std::min(atom.a.terms.size(), atom.b.terms.size());
  } else if (const int64_t divisor = positive_divisor(expr); divisor > 0) {
    atom.kind = b->op == BinaryOp::Div ? AtomKind::FloorDivision : AtomKind::Remainder;
    atom.a = value_in_any_scope(b->a);
    atom.divisor = divisor;
  } else if (const dsl::Select* s = expr.as<dsl::Select>()) {
    atom.kind = AtomKind::Choice;
    atom.a = value_in_any_scope(s->a);
    atom.b = value_in_any_scope(s->b);
  } else if (is_narrow(atom.values)) {
    atom.low = atom.values.low;
    atom.high = atom.values.high;
  }
  if (atom.kind != AtomKind::Variable)
    dsl::for_each(expr, [&](const Expr& e) {
      if (e.as<dsl::Var>()) atom.inside.push_back(number(e));
    });
  // The slot is searched only now, because numbering the subexpressions may take slots and grow the
  // table.
  const int id = static_cast<int>(atoms_.size());
  if (const dsl::Var* v = expr.as<dsl::Var>())
    numbered_variables_.push_back({std::hash<std::string>()(v->name), id});
  atoms_.push_back(std::move(atom));
  size_t slot = expr.hash() % slots_.size();
  while (slots_[slot] >= 0) slot = (slot + 1) % slots_.size();
  slots_[slot] = id;
  return id;
}

Bounds::Linear Bounds::linear(const Expr& expr) const {
  Linear result;
  split_sum(expr, 1, result.constant,
            [&](const Expr& atom, int64_t coefficient) { result.add(number(atom), coefficient); });
  return result;
}

Bounds::Linear Bounds::linear(const Affine& affine) const {
  Linear result;
  result.add_constant(affine.constant);
  for (const Affine::Term& term : affine.terms) {
    result.terms.push_back({number(term.atom), term.coefficient});
    result.overflows |= term.coefficient == std::numeric_limits<int64_t>::min();
  }
  return result;
}

Bounds::Linear Bounds::as_atom(const Expr& expr) const {
  Linear result;
  result.add(number(expr), 1);
  return result;
}

Bounds::Linear Bounds::value(const Expr& expr) const {
  Linear result = linear(expr);
  return may_wrap(result) ? as_atom(expr) : result;
}

Bounds::Linear Bounds::value_in_any_scope(const Expr& expr) const {
  Linear result = linear(expr);
  return fits_in_any_scope(result) ? result : as_atom(expr);
}

Bounds::WideRange Bounds::range_in_any_scope(const Linear& linear) const {
  WideRange sum{linear.constant, linear.constant};
  for (const Linear::Term& term : linear.terms) {
    const Range& values = atoms_[static_cast<size_t>(term.atom)].values;
    const __int128 a = __int128{term.coefficient} * values.low;
    const __int128 b = __int128{term.coefficient} * values.high;
    sum.low += std::min(a, b);
    sum.high += std::max(a, b);
    if (!sum.is_within(-most_sum, most_sum)) return {-most_sum, most_sum};
  }
  return sum;
}

/// True if the sum of the terms certainly fits int64, as 16 products of a factor up to 2^24 and a
/// value of 32 bits do. This quick test suffices for nearly all indices.
bool Bounds::is_small(const Linear& linear) const {
  constexpr int64_t most_constant = int64_t{1} << 60, most_factor = 1 << 24;
  const auto is_within = [](int64_t value, int64_t most) {
    return -most <= value && value <= most;
  };
  return linear.terms.size() <= 16 && is_within(linear.constant, most_constant) &&
         std::all_of(linear.terms.begin(), linear.terms.end(), [&](const Linear::Term& term) {
           return is_within(term.coefficient, most_factor) &&
                  atoms_[static_cast<size_t>(term.atom)].fits_int32;
         });
}

bool Bounds::fits_in_any_scope(const Linear& linear) const {
  return !linear.overflows &&
         (is_small(linear) || range_in_any_scope(linear).is_within(least_int64, largest_int64));
}

bool Bounds::may_wrap(const Linear& linear) const {
  return !fits_in_any_scope(linear) &&
         (!search_below(linear, std::nullopt) || !search_below(linear.negated(), std::nullopt));
}

bool Bounds::split(const Expr& condition, std::vector<Linear>& out) const {
  if (dsl::is_int(condition, 1)) return true;
  const Binary* b = condition.as<Binary>();
  if (!b) return false;
  if (b->op == BinaryOp::And) {
    const bool left = split(b->a, out);
    return split(b->b, out) && left;
  }
  if (!compares_indices(*b)) return false;
  Linear gap = value(b->b);
  gap.add(value(b->a), -1);
  if (b->op == BinaryOp::Lt) gap.add_constant(-1);
  out.push_back(gap);
  if (b->op == BinaryOp::Eq) out.push_back(gap.negated());
  return true;
}

int Bounds::depth_of(int atom) const {
  const Atom& a = atoms_[static_cast<size_t>(atom)];
  if (a.kind == AtomKind::Variable) return a.position;
  int depth = -1;
  for (const int v : a.inside) depth = std::max(depth, atoms_[static_cast<size_t>(v)].position);
  return depth;
}

bool Bounds::is_min_or_max(int atom) const {
  const AtomKind kind = atoms_[static_cast<size_t>(atom)].kind;
  return kind == AtomKind::Min || kind == AtomKind::Max;
}

/// True for a term c * min(a, b) with c > 0. The term is at least x only if both c * a and c * b
/// are at least x. The same holds for c * max(a, b) with c < 0.
bool Bounds::needs_both(const Linear::Term& term) const {
  return atoms_[static_cast<size_t>(term.atom)].kind ==
         (term.coefficient > 0 ? AtomKind::Min : AtomKind::Max);
}

/// Returns the form linear * k without the floor of its term +-floor(e / k). Then linear >= 0 if
/// and only if the result is >= 0, and linear is the result divided by k, rounded down.
///   floor(e/k) + r  ->  e + k r
///   r - floor(e/k)  ->  k r - e + k - 1
Bounds::Unfloored Bounds::without_floor(const Linear& linear, const Linear::Term& term) const {
  const Atom& division = atoms_[static_cast<size_t>(term.atom)];
  Linear scaled;
  scaled.add(linear.without(term), division.divisor);
  scaled.add(division.a, term.coefficient);
  if (term.coefficient < 0) scaled.add_constant(division.divisor - 1);
  return {std::move(scaled), division.divisor};
}

// ---- scope ----------------------------------------------------------------------------------

Range Bounds::push_loop(const std::string& variable, const Expr& begin, const Expr& end) {
  const auto low = lower(begin);
  const auto high = upper(end);
  const int id = number_of_variable(variable);
  Atom& atom = atoms_[static_cast<size_t>(id)];
  variables_.push_back({id, atom.position, low, high ? std::optional(*high - 1) : std::nullopt});
  ++ranges_;
  atom.position = static_cast<int>(variables_.size()) - 1;
  const Expr& v = atom.expr;
  if (!dsl::as_int(begin))
    for (const Expr& e : alternatives(begin, BinaryOp::Max))
      if (!dsl::as_int(e)) add_comparison(e, v, 0);
  if (!dsl::as_int(end))
    for (const Expr& e : alternatives(end, BinaryOp::Min))
      if (!dsl::as_int(e)) add_comparison(v, e, 1);
  const Variable& loop = variables_.back();
  const Range all;
  return {loop.low.value_or(all.low), loop.high.value_or(all.high)};
}

void Bounds::push_condition(const Expr& condition) {
  dsl::for_each_conjunct(condition, [&](const Expr& conjunct) {
    const Binary* b = conjunct.as<Binary>();
    if (!b || !compares_indices(*b)) return;
    add_comparison(b->a, b->b, b->op == BinaryOp::Lt);
    if (b->op == BinaryOp::Eq) add_comparison(b->b, b->a, 0);
  });
}

// A fact about the terms of a side is valid only if the sum of the terms does not wrap. If the sum
// may wrap, the side is one atom. There is one exception: a sum of the greater side that can only
// be too large. Where it wraps, it becomes less than the other side, so the comparison fails there.
// The comparison then proves the fact about the terms too. The same holds for a sum of the lesser
// side that can only be too small.
void Bounds::add_comparison(const Expr& less, const Expr& more, int64_t gap) {
  const auto add = [&](Linear fact, const Linear& subtracted) {
    fact.add(subtracted, -1);
    fact.add_constant(-gap);
    add_fact(std::move(fact));
  };
  const Linear low = linear(less), high = linear(more);
  const bool low_wraps = may_wrap(low), high_wraps = may_wrap(high);
  add(high_wraps ? as_atom(more) : high, low_wraps ? as_atom(less) : low);
  if (!low_wraps && !high_wraps) return;
  const WideRange lows = range_in_any_scope(low), highs = range_in_any_scope(high);
  const bool high_is_valid =
      !high_wraps || (highs.is_within(least_int64, largest_int64 + most_excess) &&
                      lows.is_within(-most_compared, most_compared));
  const bool low_is_valid =
      !low_wraps || (lows.is_within(least_int64 - most_excess, largest_int64) &&
                     highs.is_within(-most_compared, most_compared));
  if (low_is_valid && high_is_valid) add(high, low);
}

void Bounds::add_fact(Linear at_least_zero) {
  if (at_least_zero.overflows) return;
  // 2 x - 3 >= 0 over the integers is x - 2 >= 0.
  int64_t divisor = 0;
  int depth = -1;
  for (const Linear::Term& term : at_least_zero.terms) {
    divisor = std::gcd(divisor, term.coefficient);
    depth = std::max(depth, depth_of(term.atom));
  }
  if (divisor > 1) {
    for (Linear::Term& term : at_least_zero.terms) term.coefficient /= divisor;
    at_least_zero.constant = floor_div(at_least_zero.constant, divisor);
  }
  derive_facts(at_least_zero);
  for (const Linear::Term& term : at_least_zero.terms)
    ++atoms_[static_cast<size_t>(term.atom)].facts;
  facts_.push_back({std::move(at_least_zero), depth});
}

/// Derives a fact without a term that is a digit of a fused loop (t / 32 or t % 32) or a variable.
/// The other coefficients must have a common divisor that is larger than the coefficient of the
/// term. 39 - 4 x - t / 32 >= 0 with t / 32 >= 0 implies 39 - 4 x >= 0, which is 9 - x >= 0.
void Bounds::derive_without_digit(const Linear& at_least_zero) {
  for (const Linear::Term& term : at_least_zero.terms) {
    const AtomKind kind = atoms_[static_cast<size_t>(term.atom)].kind;
    if (kind != AtomKind::FloorDivision && kind != AtomKind::Remainder &&
        kind != AtomKind::Variable)
      continue;
    Linear rest = at_least_zero.without(term);
    int64_t divisor = 0;
    for (const Linear::Term& t : rest.terms) divisor = std::gcd(divisor, t.coefficient);
    if (divisor <= std::abs(term.coefficient)) continue;
    Linear digit;
    digit.add(term.atom, -term.coefficient);
    const Bound low = bound_by_ranges(digit);
    if (!low) continue;
    rest.add_constant(*low, -1);
    return add_fact(std::move(rest));
  }
}

void Bounds::derive_facts(const Linear& at_least_zero) {
  derive_without_digit(at_least_zero);
  for (const Linear::Term& term : at_least_zero.terms) {
    const Atom& atom = atoms_[static_cast<size_t>(term.atom)];
    if (atom.kind == AtomKind::FloorDivision && std::abs(term.coefficient) == 1)
      return add_fact(without_floor(at_least_zero, term).linear);
    if (!needs_both(term)) continue;
    for (const Linear* side : {&atom.a, &atom.b}) {
      Linear fact = at_least_zero.without(term);
      fact.add(*side, term.coefficient);
      add_fact(std::move(fact));
    }
    return;
  }
}

void Bounds::restore(Mark mark) {
  ranges_ += variables_.size() > mark.variables;
  while (variables_.size() > mark.variables) {
    const Variable& last = variables_.back();
    atoms_[static_cast<size_t>(last.atom)].position = last.shadowed;
    variables_.pop_back();
  }
  while (facts_.size() > mark.facts) {
    for (const Linear::Term& term : facts_.back().at_least_zero.terms)
      --atoms_[static_cast<size_t>(term.atom)].facts;
    facts_.pop_back();
  }
  witnessed_ = {std::min(witnessed_.variables, mark.variables),
                std::min(witnessed_.facts, mark.facts)};
}

// ---- questions ------------------------------------------------------------------------------

std::optional<int64_t> Bounds::lower(const Affine& affine) const {
  return search_below(linear(affine), std::nullopt);
}
std::optional<int64_t> Bounds::upper(const Affine& affine) const {
  const Bound bound = search_below(linear(affine).negated(), std::nullopt);
  return bound ? std::optional(-*bound) : std::nullopt;
}
std::optional<int64_t> Bounds::lower(const Expr& expr) const {
  if (const auto literal = dsl::as_int(expr)) return literal;
  return search_below(value(expr), std::nullopt);
}
std::optional<int64_t> Bounds::upper(const Expr& expr) const {
  if (const auto literal = dsl::as_int(expr)) return literal;
  const Bound bound = search_below(value(expr).negated(), std::nullopt);
  return bound ? std::optional(-*bound) : std::nullopt;
}

bool Bounds::proves_at_least_zero(const Affine& affine) const {
  const Bound low = search_below(linear(affine), 0);
  return low && *low >= 0;
}

bool Bounds::proves(const Expr& condition) const {
  std::vector<Linear> constraints;
  if (!split(condition, constraints)) return false;
  return std::all_of(constraints.begin(), constraints.end(), [&](const Linear& at_least_zero) {
    const Bound low = search_below(at_least_zero, 0);
    return low && *low >= 0;
  });
}

bool Bounds::refutes(const Expr& condition) const {
  if (dsl::is_int(condition, 0)) return true;
  std::vector<Linear> constraints;
  split(condition, constraints);
  return std::any_of(constraints.begin(), constraints.end(), [&](const Linear& at_least_zero) {
    const Bound low = search_below(at_least_zero.negated(), 1);
    return low && *low > 0;
  });
}

bool Bounds::proves_inside(const Expr& index, int64_t extent) const {
  const auto holds = [&](const Linear& l) {
    const Bound low = search_below(l, 0);
    return low && *low >= 0;
  };
  const auto inside = [&](const Linear& at_least_zero) {
    Linear room = at_least_zero.negated();
    room.add_constant(extent - 1);
    return holds(at_least_zero) && holds(room);
  };
  const Linear sum = linear(index);
  if (fits_in_any_scope(sum)) return inside(sum);
  // A condition on the whole index may have come before the facts that bound its terms. It is then
  // a fact about the index as one atom.
  return (!may_wrap(sum) && inside(sum)) || inside(as_atom(index));
}

std::optional<int64_t> Bounds::quotient(const Affine& affine, int64_t divisor) const {
  struct Side {
    Linear value;
    Bound bound;
    int steps = search_steps;
  };
  Side low{linear(affine), {}}, minus_high{low.value.negated(), {}};
  bool asked = false;
  for (int rules = 0; rules <= most_rules; ++rules) {
    for (Side* side : {&low, &minus_high}) {
      if (rules > 0 && side->steps <= 0) continue;
      steps_ = side->steps;
      side->bound = best(side->bound, bound_below(side->value, rules));
      side->steps = steps_;
    }
    if (!low.bound || !minus_high.bound) continue;
    const int64_t least = floor_div(*low.bound, divisor);
    if (least == floor_div(-*minus_high.bound, divisor)) return least;
    if (rules == 0 && only_ranges_apply(low.value)) break;
    if (!asked && search_steps - low.steps >= steps_before_witnesses) {
      asked = true;
      if (witness_quotients(low.value, divisor) > 1) break;
    }
  }
  return std::nullopt;
}

// ---- elimination ----------------------------------------------------------------------------

Bounds::Bound Bounds::search_below(const Linear& linear, Bound enough) const {
  if (linear.overflows) return std::nullopt;
  if (linear.terms.empty()) return linear.constant;
  steps_ = search_steps;
  Bound result, witnessed;
  bool asked = false;
  for (int rules = 0; rules <= most_rules && (rules == 0 || steps_ > 0); ++rules) {
    result = best(result, bound_below(linear, rules, enough));
    if (enough && result && *result >= *enough) break;
    if (rules == 0 && only_ranges_apply(linear)) break;
    if (!asked && search_steps - steps_ >= steps_before_witnesses) {
      witnessed = least_witnessed(linear, enough);
      asked = true;
    }
    if (witnessed && (enough ? *witnessed < *enough : result && *result >= *witnessed)) break;
  }
  return result;
}

Bounds::Bound Bounds::bound_above(const Linear& linear, int rules) const {
  const Bound bound = bound_below(linear.negated(), rules);
  return bound ? std::optional(-*bound) : std::nullopt;
}

Bounds::Bound Bounds::atom_bound(int id, bool below, int rules) const {
  const Atom& atom = atoms_[static_cast<size_t>(id)];
  const auto bound = [&](const Linear& l, bool low) {
    return low ? bound_below(l, rules) : bound_above(l, rules);
  };
  switch (atom.kind) {
    case AtomKind::Variable: {
      if (atom.position < 0) return std::nullopt;
      const Variable& variable = variables_[static_cast<size_t>(atom.position)];
      return below ? variable.low : variable.high;
    }
    case AtomKind::FloorDivision: {
      const Bound inner = bound(atom.a, below);
      return inner ? std::optional(floor_div(*inner, atom.divisor)) : std::nullopt;
    }
    case AtomKind::Remainder: {
      const Bound low = bound(atom.a, true), high = bound(atom.a, false);
      if (low && high && *low >= 0 && *high < atom.divisor) return below ? low : high;
      return below ? 0 : atom.divisor - 1;
    }
    case AtomKind::Choice: {
      const Bound a = bound(atom.a, below), b = bound(atom.b, below);
      if (!a || !b) return std::nullopt;
      return below ? std::min(*a, *b) : std::max(*a, *b);
    }
    default:
      return below ? atom.low : atom.high;
  }
}

/// Returns the bound of an atom that follows from ranges alone. It is cached, because one proof
/// uses the same atoms many times.
Bounds::Bound Bounds::atom_bound_by_ranges(int id, bool below) const {
  Atom& atom = atoms_[static_cast<size_t>(id)];
  KnownBound& known = below ? atom.known_low : atom.known_high;
  if (known.ranges != ranges_) known = {ranges_, atom_bound(id, below, 0)};
  return known.bound;
}

/// True if all terms of the form are variables that no fact mentions. The smallest value of the
/// form then follows from the variables' ranges.
bool Bounds::only_ranges_apply(const Linear& linear) const {
  return std::all_of(linear.terms.begin(), linear.terms.end(), [&](const Linear::Term& term) {
    const Atom& atom = atoms_[static_cast<size_t>(term.atom)];
    return atom.kind == AtomKind::Variable && atom.facts == 0;
  });
}

bool Bounds::has_choice(const Linear& linear) const {
  return std::any_of(linear.terms.begin(), linear.terms.end(),
                     [&](const Linear::Term& term) { return is_min_or_max(term.atom); });
}

/// Returns the bound that follows from ranges alone: the sum of the bounds of the terms. The order
/// of elimination does not matter.
Bounds::Bound Bounds::bound_by_ranges(const Linear& linear) const {
  int64_t sum = linear.constant;
  bool overflows = linear.overflows;
  for (const Linear::Term& term : linear.terms) {
    const Bound bound = atom_bound_by_ranges(term.atom, term.coefficient > 0);
    if (!bound) return std::nullopt;
    add_product(term.coefficient, *bound, sum, overflows);
  }
  return overflows ? Bound() : Bound(sum);
}

// Eliminates atoms by their ranges, beginning with the innermost variable. Before each elimination
// another rule may be applied instead, at most `rules` times in all. The search tries few rules
// before many, because existing proofs are short.
Bounds::Bound Bounds::bound_below(const Linear& linear, int rules, Bound enough) const {
  if (linear.overflows) return std::nullopt;
  if (linear.terms.empty()) return linear.constant;
  if (rules == 0 && !has_choice(linear)) return bound_by_ranges(linear);
  Bound result;
  const auto suffices = [&](Bound bound) {
    result = best(result, bound);
    return enough && result && *result >= *enough;
  };
  const Linear::Term term = next_to_eliminate(linear);
  if (is_min_or_max(term.atom)) {
    if (suffices(bound_of_choice(linear, term, rules, enough))) return result;
  } else if (const Bound bound = atom_bound(term.atom, term.coefficient > 0, rules)) {
    Linear replaced = linear.without(term);
    replaced.add_constant(*bound, term.coefficient);
    if (suffices(bound_below(replaced, rules, enough))) return result;
  }
  if (rules == 0 || steps_ <= 0) return result;
  --steps_;
  const int depth = depth_of(term.atom);
  for (const Fact& fact : facts_) {
    if (fact.depth != depth) continue;
    const int64_t a = fact.at_least_zero.coefficient(term.atom), c = term.coefficient;
    if (a == 0 || (a > 0) != (c > 0) || c % a != 0) continue;
    // linear = (linear - k fact) + k fact >= linear - k fact, for k = c / a > 0.
    Linear eliminated = linear;
    eliminated.add(fact.at_least_zero, -(c / a));
    if (suffices(bound_below(eliminated, rules - 1, enough))) return result;
  }
  if (suffices(bound_of_floors(linear, rules - 1, enough))) return result;
  suffices(rounded_bound(term, linear.without(term), rules - 1, enough));
  return result;
}

// Chooses the atom to eliminate next: one whose variables are innermost. If there are several,
// atoms that are not variables come first, since they may contain the variables. If the chosen atom
// is a minimum or maximum of which either side may be used, a minimum or maximum that needs_both()
// sides comes before it. Its two proofs may then choose different sides.
Bounds::Linear::Term Bounds::next_to_eliminate(const Linear& linear) const {
  const Linear::Term* next = &linear.terms[0];
  int deepest = depth_of(next->atom);
  for (const Linear::Term& term : linear.terms) {
    const int depth = depth_of(term.atom);
    const bool is_next_variable =
        atoms_[static_cast<size_t>(next->atom)].kind == AtomKind::Variable;
    if (depth > deepest || (depth == deepest && is_next_variable)) next = &term, deepest = depth;
  }
  if (!is_min_or_max(next->atom) || needs_both(*next)) return *next;
  for (const Linear::Term& term : linear.terms)
    if (needs_both(term)) return term;
  return *next;
}

Bounds::Bound Bounds::bound_of_choice(const Linear& linear, const Linear::Term& term, int rules,
                                      Bound enough) const {
  const Atom& choice = atoms_[static_cast<size_t>(term.atom)];
  Linear with_a = linear.without(term), with_b = with_a;
  with_a.add(choice.a, term.coefficient);
  with_b.add(choice.b, term.coefficient);
  const bool both = needs_both(term);
  const Bound x = bound_below(with_a, rules, enough);
  if (both && !x) return std::nullopt;
  if (!both && enough && x && *x >= *enough) return x;
  const Bound y = bound_below(with_b, rules, enough);
  if (both) return y ? std::optional(std::min(*x, *y)) : std::nullopt;
  const Bound either = best(x, y);
  if (!choice.folds || (enough && either && *either >= *enough)) return either;
  return best(either, bound_by_mean(linear, term, rules, enough));
}

// Uses 2 max(a, b) >= a + b and 2 min(a, b) <= a + b. This proves max(i, -i) >= 0 and min(i, 2 n -
// i) <= n, the bounds of a reflected index, which do not follow from either operand alone.
Bounds::Bound Bounds::bound_by_mean(const Linear& linear, const Linear::Term& term, int rules,
                                    Bound enough) const {
  Linear twice;
  twice.add(linear.without(term), 2);
  twice.add(atoms_[static_cast<size_t>(term.atom)].sum, term.coefficient);
  Bound enough_twice = enough ? checked_mul(*enough, 2) : enough;
  if (enough_twice) enough_twice = checked_add(*enough_twice, -1);
  const Bound bound = bound_below(twice, rules, enough_twice);
  return bound ? std::optional(ceil_div(*bound, 2)) : std::nullopt;
}

Bounds::Bound Bounds::bound_of_floors(const Linear& linear, int rules, Bound enough) const {
  for (const Linear::Term& term : linear.terms) {
    const Atom& division = atoms_[static_cast<size_t>(term.atom)];
    if (division.kind != AtomKind::FloorDivision) continue;
    const int64_t k = division.divisor, c = term.coefficient;
    if (std::abs(c) == 1) {
      const Bound scaled = bound_below(without_floor(linear, term).linear, rules,
                                       enough ? checked_mul(*enough, k) : std::nullopt);
      return scaled ? std::optional(floor_div(*scaled, k)) : std::nullopt;
    }
    if (c % k == 0) {
      // e - k + 1 <= k floor(e/k) <= e
      Linear replaced = linear.without(term);
      replaced.add(division.a, c / k);
      if (c > 0) replaced.add_constant(k - 1, -(c / k));
      return bound_below(replaced, rules, enough);
    }
  }
  return std::nullopt;
}

// Uses a fact a v + r >= 0 as an integer bound of v: v <= floor(max r / -a). Elimination over the
// rationals does not find it: 48 x + v < 56 leaves only x = 0.
Bounds::Bound Bounds::rounded_bound(const Linear::Term& term, const Linear& rest, int rules,
                                    Bound enough) const {
  Bound result;
  const int64_t c = term.coefficient;
  for (const Fact& fact : facts_) {
    const int64_t a = fact.at_least_zero.coefficient(term.atom);
    if (a == 0 || (a > 0) != (c > 0)) continue;
    const Bound low = bound_below(fact.at_least_zero.without({term.atom, a}).negated(), rules);
    if (!low) continue;
    Linear replaced = rest;
    replaced.add_constant(a > 0 ? ceil_div(*low, a) : floor_div(-*low, -a), c);
    result = best(result, bound_below(replaced, rules, enough));
  }
  return result;
}

// ---- witnesses ------------------------------------------------------------------------------

Bounds::Bound Bounds::least_witnessed(const Linear& linear, Bound enough) const {
  update_witnesses();
  Bound least;
  for (const Witness& witness : witnesses_) {
    if (witness.broken) continue;
    const Bound value = value_at(linear, witness);
    if (value && (!least || *value < *least)) least = value;
    if (least && enough && *least < *enough) break;
  }
  return least;
}

int Bounds::witness_quotients(const Linear& linear, int64_t divisor) const {
  update_witnesses();
  Bound first;
  for (const Witness& witness : witnesses_) {
    if (witness.broken) continue;
    const Bound value = value_at(linear, witness);
    if (!value) continue;
    const int64_t quotient = floor_div(*value, divisor);
    if (first && *first != quotient) return 2;
    first = quotient;
  }
  return first ? 1 : 0;
}

void Bounds::update_witnesses() const {
  witnesses_.resize(witness_count);
  for (size_t w = 0; w < witness_count; ++w) {
    Witness& witness = witnesses_[w];
    witness.values.resize(witnessed_.variables);
    for (size_t i = witnessed_.variables; i < variables_.size(); ++i)
      witness.values.push_back(chosen_value(w, variables_[i], i));
    if (witness.broken && *witness.broken >= witnessed_.facts) witness.broken.reset();
    for (size_t i = witnessed_.facts; i < facts_.size() && !witness.broken; ++i) {
      const Bound value = value_at(facts_[i].at_least_zero, witness);
      if (!value || *value < 0) witness.broken = i;
    }
  }
  witnessed_ = mark();
}

/// Returns the value of a variable in a witness: its smallest value in witness 0, its largest in
/// witness 1, and a value that a hash chooses in the others.
int64_t Bounds::chosen_value(size_t witness, const Variable& variable, size_t position) const {
  const int64_t low = variable.low.value_or(variable.high.value_or(0));
  const int64_t high = variable.high.value_or(low);
  const size_t any = mix(witness, position);
  if (witness == 0 || low >= high || (witness > 1 && any % 4 == 0)) return low;
  if (witness == 1 || any % 4 == 1) return high;
  return low + static_cast<int64_t>(any / 4 % static_cast<size_t>(high - low + 1));
}

Bounds::Bound Bounds::value_at(const Linear& linear, const Witness& witness) const {
  int64_t sum = linear.constant;
  bool overflows = linear.overflows;
  for (const Linear::Term& term : linear.terms) {
    const Bound value = value_at(term.atom, witness);
    if (!value) return std::nullopt;
    add_product(term.coefficient, *value, sum, overflows);
  }
  return overflows ? Bound() : Bound(sum);
}

Bounds::Bound Bounds::value_at(int id, const Witness& witness) const {
  const Atom& atom = atoms_[static_cast<size_t>(id)];
  if (atom.kind == AtomKind::Variable)
    return atom.position < 0 ? Bound() : Bound(witness.values[static_cast<size_t>(atom.position)]);
  if (atom.kind == AtomKind::Other || atom.kind == AtomKind::Choice) return std::nullopt;
  const Bound a = value_at(atom.a, witness);
  if (!a) return std::nullopt;
  if (atom.kind == AtomKind::FloorDivision) return floor_div(*a, atom.divisor);
  if (atom.kind == AtomKind::Remainder) return *a - floor_div(*a, atom.divisor) * atom.divisor;
  const Bound b = value_at(atom.b, witness);
  if (!b) return std::nullopt;
  return atom.kind == AtomKind::Min ? std::min(*a, *b) : std::max(*a, *b);
}

}  // namespace tw::schedules

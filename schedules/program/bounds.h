// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds holds the known facts about the variables in scope and derives bounds of index expressions
// from them. It is used to trim loops and to prove accesses to be inside of their buffers.
//
// A bound is found by eliminating variables, innermost first, by their constant ranges and by facts
// `a >= 0` (a Fourier-Motzkin step with one fact at a time). For example, the access in[y + r - 1]
// in
//
//   for y in 0..5
//     for r in max(0, 1 - y)..3
//
// has an index of at least 0: the bound r >= 1 - y eliminates r, and y + (1 - y) - 1 is 0. The
// method is sound, fast, and incomplete: a claim that cannot be proved is treated as false.
//
// Arithmetic on i64 wraps. If x is data, x + 1 < 100 does not imply x < 99, because the largest
// int64 satisfies it. So an expression that may wrap is not split into terms: it is one atom. A
// condition on x + 1 then bounds x + 1, but not x.
//
// If a proof is not found soon, a few witnesses, i.e. assignments of values to the variables, are
// tried. A witness that violates the claim shows that there is no proof.
//
// A search lowers thousands of schedules, each of which asks for hundreds of bounds. For speed,
// each atom (affine.h) gets a number when it is first seen, and the elimination works on these
// numbers alone. Bounds is a value. It is not thread-safe, not even for const calls.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/small_vector.h"
#include "dsl/expr.h"
#include "schedules/program/affine.h"
#include "schedules/program/ranges.h"

namespace tw::schedules {

class Bounds {
 public:
  /// Adds a variable with values in [begin, end). `begin` may be a max(...) and `end` a min(...) of
  /// affine expressions. Returns the inclusive range of the variable that is proved; an unknown end
  /// is the least or the largest int64.
  Range push_loop(const std::string& variable, const Expr& begin, const Expr& end);
  /// Adds the facts that a condition states. The terms of a conjunction are added from left to
  /// right, so earlier terms help later ones: 0 <= x && x < 100 proves that x + 1, in a later term,
  /// does not wrap.
  void push_condition(const Expr& condition);
  /// The numbers of variables and facts at one moment. Call mark() at the beginning of a scope, and
  /// restore() with the result at its end; restore() removes all that was added in between.
  struct Mark {
    size_t variables, facts;
  };
  Mark mark() const { return {variables_.size(), facts_.size()}; }
  void restore(Mark mark);

  /// lower() returns the best constant lower bound of the expression that is proved, and upper()
  /// the best upper bound. Bounds are inclusive. nullopt if none is proved.
  std::optional<int64_t> lower(const Expr& expr) const;
  std::optional<int64_t> upper(const Expr& expr) const;
  std::optional<int64_t> lower(const Affine& affine) const;
  std::optional<int64_t> upper(const Affine& affine) const;

  bool proves_at_least_zero(const Affine& affine) const;
  /// true if the condition is proved to hold for all values of the variables in scope
  bool proves(const Expr& condition) const;
  /// true if the condition is proved to fail for all values of the variables in scope
  bool refutes(const Expr& condition) const;
  bool proves_inside(const Expr& index, int64_t extent) const;  ///< 0 <= index < extent
  /// True unless the sum of the expression's terms, without wrapping, is proved to fit int64.
  bool may_wrap(const Expr& expr) const { return may_wrap(linear(expr)); }
  bool may_wrap(const Affine& affine) const { return may_wrap(linear(affine)); }
  /// Returns floor(affine / divisor) if it is proved to have the same value for all values of the
  /// variables in scope; nullopt otherwise. For x + 32 with x in 0..16, and the divisor 16, it is
  /// 2.
  std::optional<int64_t> quotient(const Affine& affine, int64_t divisor) const;

 private:
  /// As Affine, but a term has the number of its atom (an index in atoms_) in place of the atom.
  /// Nothing is proved with a form that overflows.
  struct Linear {
    struct Term {
      int atom;
      int64_t coefficient;
    };
    int64_t constant = 0;
    SmallVector<Term, 6> terms;
    /// true if a coefficient or the constant, or the negative of one of them, does not fit int64
    bool overflows = false;

    void add_constant(int64_t value, int64_t factor = 1);
    void add(int atom, int64_t coefficient);
    void add(const Linear& other, int64_t factor);
    int64_t coefficient(int atom) const;
    Linear without(const Term& term) const;
    Linear negated() const;
  };

  using Bound = std::optional<int64_t>;
  /// The range of a sum that is computed without wrapping, so it may exceed int64.
  struct WideRange {
    __int128 low, high;
    bool is_within(__int128 least, __int128 most) const { return low >= least && high <= most; }
  };
  /// A cached bound that follows from the ranges of variables alone. It is valid while `ranges_`
  /// has the value `ranges`, for which the bound was computed.
  struct KnownBound {
    size_t ranges = 0;
    Bound bound;
  };
  enum class AtomKind { Variable, Min, Max, FloorDivision, Remainder, Choice, Other };
  struct Atom {
    Expr expr;
    AtomKind kind = AtomKind::Other;
    Linear a, b;  ///< operands: numerator of a division; both sides of a minimum, maximum or choice
    Linear sum;   ///< of a minimum or maximum: a + b
    /// True if a and b have opposite slopes, so that `sum` has fewer terms than a or b: for min(x,
    /// 9 - x) the sum is 9.
    bool folds = false;
    int64_t divisor = 0;      ///< positive divisor of FloorDivision and Remainder
    std::vector<int> inside;  ///< numbers of the variables in the atom
    int position = -1;        ///< index of a variable in variables_; -1 if it is out of scope
    int facts = 0;            ///< number of facts in which the atom occurs
    std::optional<int64_t> low, high;  ///< for Other: range of its type
    Range values;                      ///< of the atom, for all 32-bit values of the variables
    bool fits_int32 = false;           ///< true if all `values` fit 32 bits
    KnownBound known_low, known_high;
  };
  struct Variable {
    int atom;
    int shadowed;  ///< position of the outer variable of the same name; -1 if there is none
    std::optional<int64_t> low, high;  ///< inclusive
  };
  struct NumberedVariable {
    size_t hash;  ///< hash of its name
    int atom;
  };
  struct Fact {
    Linear at_least_zero;
    int depth;  ///< position in variables_ of its innermost variable; -1 if it has none
  };
  /// The result of replacing floor(e / k) by e in a linear form that is multiplied by k. For x / 4
  /// + y * 3 it is x + y * 12, with the divisor k = 4.
  struct Unfloored {
    Linear linear;
    int64_t divisor;
  };
  /// An assignment of values to the variables in scope, in the order of variables_. If the values
  /// satisfy all facts, no lower bound of an expression can exceed the value that the expression
  /// has under the assignment.
  struct Witness {
    std::vector<int64_t> values;
    std::optional<size_t> broken;  ///< index of the first fact that fails
  };

  int number(const Expr& atom) const;
  int number_of_variable(const std::string& name) const;
  int enter(const Expr& atom) const;
  Linear linear(const Expr& expr) const;
  Linear linear(const Affine& affine) const;
  /// Returns the linear form of the expression, or the whole expression as one atom if the form may
  /// wrap.
  Linear value(const Expr& expr) const;
  /// Like value(), but does not use the facts, so the result stays valid when the scope changes.
  Linear value_in_any_scope(const Expr& expr) const;
  Linear as_atom(const Expr& expr) const;
  WideRange range_in_any_scope(const Linear& linear) const;
  bool is_small(const Linear& linear) const;
  bool fits_in_any_scope(const Linear& linear) const;
  bool may_wrap(const Linear& linear) const;
  /// Appends the constraints `a >= 0` that a conjunction consists of to `out`. Returns false if a
  /// term of the conjunction cannot be written as such constraints.
  bool split(const Expr& condition, std::vector<Linear>& out) const;
  /// Adds the facts that follow from more - less >= gap.
  void add_comparison(const Expr& less, const Expr& more, int64_t gap);

  bool is_min_or_max(int atom) const;
  bool needs_both(const Linear::Term& term) const;
  Unfloored without_floor(const Linear& linear, const Linear::Term& term) const;
  int depth_of(int atom) const;

  void add_fact(Linear at_least_zero);
  void derive_without_digit(const Linear& at_least_zero);
  void derive_facts(const Linear& at_least_zero);

  /// Searches for the best lower bound of the linear form. Stops as soon as it finds a bound of at
  /// least `enough`. nullopt if no bound is found.
  Bound search_below(const Linear& linear, Bound enough) const;
  Bound bound_below(const Linear& linear, int rules, Bound enough = std::nullopt) const;
  Bound bound_above(const Linear& linear, int rules) const;
  bool has_choice(const Linear& linear) const;
  bool only_ranges_apply(const Linear& linear) const;
  Bound bound_by_ranges(const Linear& linear) const;
  Linear::Term next_to_eliminate(const Linear& linear) const;
  Bound bound_of_choice(const Linear& linear, const Linear::Term& min_or_max, int rules,
                        Bound enough) const;
  Bound bound_by_mean(const Linear& linear, const Linear::Term& min_or_max, int rules,
                      Bound enough) const;
  Bound bound_of_floors(const Linear& linear, int rules, Bound enough) const;
  Bound rounded_bound(const Linear::Term& term, const Linear& rest, int rules, Bound enough) const;
  Bound atom_bound(int atom, bool below, int rules) const;
  Bound atom_bound_by_ranges(int atom, bool below) const;

  /// Returns the least value of the linear form for the witnesses that satisfy all facts. Stops at
  /// the first value below `enough` and returns that value. nullopt if no witness satisfies all
  /// facts.
  Bound least_witnessed(const Linear& linear, Bound enough) const;
  /// Counts the different values of floor(linear / divisor) for the witnesses that satisfy all
  /// facts, up to 2: the result 2 means that there are at least two values.
  int witness_quotients(const Linear& linear, int64_t divisor) const;
  void update_witnesses() const;
  int64_t chosen_value(size_t witness, const Variable& variable, size_t position) const;
  Bound value_at(const Linear& linear, const Witness& witness) const;
  Bound value_at(int atom, const Witness& witness) const;

  std::vector<Variable> variables_;
  std::vector<Fact> facts_;
  mutable std::deque<Atom> atoms_;
  mutable std::vector<NumberedVariable> numbered_variables_;
  mutable std::vector<int> slots_;  ///< hash table of atom numbers; -1 marks a free slot
  mutable int steps_ = 0;           ///< number of steps that the current search may still take
  size_t ranges_ = 1;               ///< version of the variables in scope; grows with each change
  mutable std::vector<Witness> witnesses_;
  mutable Mark witnessed_ = {0, 0};  ///< the scope for which witnesses_ are valid
};

}  // namespace tw::schedules

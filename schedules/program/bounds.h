// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds holds the known facts about the variables in scope and derives bounds of index expressions
// from them. Trimming of loops and the proof that accesses stay inside their buffers rest on it.
//
// The procedure is elimination, innermost variable first, by constant ranges and by facts `a >= 0`
// (a Fourier-Motzkin step with one fact at a time): sound, fast, and incomplete. A claim that it
// cannot prove is treated as false.
//
// If a proof is not found soon, a few witnesses, i.e. assignments of values to the variables, show
// whether there can be one.
//
// A search lowers thousands of schedules, and each asks hundreds of questions: atoms are numbered
// when they are first seen, and the elimination works on numbers alone. A value; not thread-safe,
// not even for const calls.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/small_vector.h"
#include "dsl/expr.h"
#include "schedules/program/affine.h"

namespace tw::schedules {

class Bounds {
 public:
  /// variable in [begin, end); begin may be a max(...) and end a min(...) of affine expressions.
  void push_loop(const std::string& variable, const Expr& begin, const Expr& end);
  void push_condition(const Expr& condition);
  /// Marks and restores the state around a scope.
  struct Mark {
    size_t variables, facts;
  };
  Mark mark() const { return {variables_.size(), facts_.size()}; }
  void restore(Mark mark);

  /// The best constant bound that can be proved; nullopt when there is none.
  std::optional<int64_t> lower(const Expr& expr) const;
  std::optional<int64_t> upper(const Expr& expr) const;
  std::optional<int64_t> lower(const Affine& affine) const;
  std::optional<int64_t> upper(const Affine& affine) const;

  bool proves_at_least_zero(const Affine& affine) const;
  bool proves(const Expr& condition) const;   ///< it holds for all values in scope
  bool refutes(const Expr& condition) const;  ///< it holds for none
  bool proves_inside(const Expr& index, int64_t extent) const;  ///< 0 <= index < extent
  /// floor(affine / divisor) if it is proved to be the same for all values in scope, else nullopt.
  std::optional<int64_t> quotient(const Affine& affine, int64_t divisor) const;

 private:
  /// Like Affine, over numbered atoms.
  struct Linear {
    struct Term {
      int atom;
      int64_t coefficient;
    };
    int64_t constant = 0;
    SmallVector<Term, 6> terms;

    void add(int atom, int64_t coefficient);
    void add(const Linear& other, int64_t factor);
    int64_t coefficient(int atom) const;
    Linear without(const Term& term) const;
    Linear negated() const;
  };

  using Bound = std::optional<int64_t>;
  /// A bound by the ranges of variables alone, and the state of the ranges for which it was found.
  struct KnownBound {
    size_t ranges = 0;
    Bound bound;
  };
  enum class AtomKind { Variable, Min, Max, FloorDivision, Remainder, Choice, Other };
  struct Atom {
    Expr expr;
    AtomKind kind = AtomKind::Other;
    Linear a, b;  ///< operands: the numerator of a division, both sides of a minimum or maximum
    Linear sum;   ///< a + b of a minimum or maximum
    bool folds = false;   ///< a and b have opposite slopes, so that `sum` has fewer terms than they
    int64_t divisor = 0;  ///< positive divisor of FloorDivision and Remainder
    std::vector<int> inside;           ///< variables in it
    int position = -1;                 ///< index of a variable in variables_; -1 out of scope
    int facts = 0;                     ///< number of facts that mention it
    std::optional<int64_t> low, high;  ///< range of the type of an Other
    KnownBound known_low, known_high;
  };
  struct Variable {
    int atom;
    int shadowed;                      ///< position of the one of the same name outside, or -1
    std::optional<int64_t> low, high;  ///< inclusive
  };
  struct NumberedVariable {
    size_t hash;  ///< hash of its name
    int atom;
  };
  struct Fact {
    Linear at_least_zero;
    int depth;  ///< depth of its innermost variable
  };
  /// A form without the floor(e / k) of a term; all other terms are scaled by k.
  struct Unfloored {
    Linear linear;
    int64_t divisor;
  };
  /// Values of the variables in scope, by position; no bound is better than a value here, unless
  /// a fact fails.
  struct Witness {
    std::vector<int64_t> values;
    std::optional<size_t> broken;  ///< index of the first fact that fails
  };

  int number(const Expr& atom) const;
  int number_of_variable(const std::string& name) const;
  int enter(const Expr& atom) const;
  Linear linear(const Expr& expr) const;
  Linear linear(const Affine& affine) const;
  void append(const Expr& expr, int64_t factor, Linear& out) const;
  /// Appends the constraints `a >= 0` of a conjunction; false if a term of it has no such form.
  bool split(const Expr& condition, std::vector<Linear>& out) const;
  Linear difference(const Expr& a, const Expr& b) const;

  bool is_min_or_max(int atom) const;
  bool needs_both(const Linear::Term& term) const;
  Unfloored without_floor(const Linear& linear, const Linear::Term& term) const;
  int depth_of(int atom) const;

  void add_fact(Linear at_least_zero);
  void derive_without_digit(const Linear& at_least_zero);
  void derive_facts(const Linear& at_least_zero);

  /// Searches for the best bound, or for one of at least `enough`.
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

  /// The least value among the witnesses that satisfy all facts, or a value below `enough`; nullopt
  /// if no witness satisfies them.
  Bound least_witnessed(const Linear& linear, Bound enough) const;
  /// Number of different values of floor(linear / divisor) among the witnesses: 0, 1, or 2 for
  /// several.
  int witness_quotients(const Linear& linear, int64_t divisor) const;
  void update_witnesses() const;
  int64_t chosen_value(size_t witness, const Variable& variable, size_t position) const;
  Bound value_at(const Linear& linear, const Witness& witness) const;
  Bound value_at(int atom, const Witness& witness) const;

  std::vector<Variable> variables_;
  std::vector<Fact> facts_;
  mutable std::deque<Atom> atoms_;
  mutable std::vector<NumberedVariable> numbered_variables_;
  mutable std::vector<int> slots_;  ///< numbers by the hash of their atoms, -1 where there is none
  mutable int steps_ = 0;           ///< steps left of the current search
  size_t ranges_ = 1;               ///< grows when the variables in scope change
  mutable std::vector<Witness> witnesses_;
  mutable Mark witnessed_ = {0, 0};  ///< part of the current scope that the witnesses cover
};

}  // namespace tw::schedules

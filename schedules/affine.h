// SPDX-License-Identifier: Apache-2.0
#pragma once
// Affine reasoning about index expressions: normal forms, what is known about the variables in
// scope, and the bounds that follow. This is what trims loops, proves accesses inside their buffers
// and simplifies the divisions that layouts and fused loops bring.
//
// The procedure is elimination, innermost variable first, by constant ranges and by facts `a >= 0`
// (a Fourier-Motzkin step with one fact at a time): sound, fast, and incomplete. What it cannot
// prove is treated as false. Values; Bounds is not thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/expr.h"

namespace tw::schedules {

using dsl::Expr;

/// constant + sum of coefficient * atom. Atoms are variables, or subexpressions that are not
/// affine.
struct Affine {
  struct Term {
    Expr atom;
    int64_t coefficient;
  };
  int64_t constant = 0;
  std::vector<Term> terms;

  void add(const Expr& atom, int64_t coefficient);
  void add(const Affine& other, int64_t factor = 1);
  int64_t coefficient(const Expr& atom) const;
  bool is_constant() const { return terms.empty(); }
};

Affine to_affine(const Expr& expr);
Expr to_expr(const Affine& affine);

/// A conjunction, split: each constraint means `affine >= 0`; what is not affine stays an
/// expression.
struct Constraints {
  std::vector<Affine> affine;
  std::vector<Expr> opaque;
};
Constraints split_condition(const Expr& condition);
Expr to_condition(const Affine& at_least_zero);

/// What is known at a point of a program: the variables in scope, outermost first, and facts on
/// them.
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

  bool proves(const Expr& condition) const;   ///< it holds for all values in scope
  bool refutes(const Expr& condition) const;  ///< it holds for none

 private:
  struct Variable {
    std::string name;
    std::optional<int64_t> low, high;  // inclusive
  };
  struct Fact {
    Affine at_least_zero;
    int depth;  // of its innermost variable
  };
  int depth_of(const std::string& name) const;
  int depth_of(const Expr& atom) const;
  /// A search for the best bound, or for one of at least `enough`.
  std::optional<int64_t> search_below(const Affine& affine, std::optional<int64_t> enough) const;
  std::optional<int64_t> bound_below(const Affine& affine, int rules,
                                     std::optional<int64_t> enough = std::nullopt) const;
  Affine::Term next_to_eliminate(const Affine& affine) const;
  std::optional<int64_t> bound_of_choice(const Affine& affine, const Affine::Term& min_or_max,
                                         int rules, std::optional<int64_t> enough) const;
  std::optional<int64_t> bound_of_floors(const Affine& affine, int rules,
                                         std::optional<int64_t> enough) const;
  std::optional<int64_t> rounded_bound(const Expr& atom, int64_t coefficient, const Affine& rest,
                                       int rules, std::optional<int64_t> enough) const;
  std::optional<int64_t> atom_bound(const Expr& atom, bool below, int rules) const;
  void add_fact(Affine at_least_zero);
  void derive_facts(const Affine& at_least_zero);

  std::vector<Variable> variables_;
  std::vector<Fact> facts_;
  mutable int steps_ = 0;  ///< left of the present search
};

/// An equivalent expression within the scope: affine parts normalised, divisions and modulos by
/// literals resolved where the ranges allow, comparisons decided, min/max and select resolved.
Expr simplify(const Expr& expr, const Bounds& bounds);

}  // namespace tw::schedules

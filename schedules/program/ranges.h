// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranges of index expressions, computed by plain interval arithmetic. They tell which expressions
// fit 32 bits or may wrap, and which operands of a division may be negative. Bounds gives tighter
// ranges but costs more, and does not give a range for every subexpression. Here every
// subexpression needs a range, because intermediate results must not overflow either. Not
// thread-safe.

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "schedules/program/affine.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// An inclusive range of values. An end that is the least or the largest int64 is unknown.
struct Range {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
  bool fits_int32() const;
  /// True if f32 represents all integers of the range exactly.
  bool fits_f32() const;
};

/// The values that the variable of a loop may have (schedules/program/legality.h).
inline constexpr Range loop_values = {std::numeric_limits<int32_t>::min(),
                                      std::numeric_limits<int32_t>::max()};

class Ranges {
 public:
  /// `others` is the range of all variables for which set() was not called.
  explicit Ranges(Range others = {}) : others_(others) {}

  /// Sets the range of a loop variable to [begin, end). A later call for the same name replaces it.
  /// In a phase only sibling loops may have variables of the same name.
  void set(const std::string& variable, const Expr& begin, const Expr& end);

  /// Returns a range that has all values of the expression. A result outside of its type wraps, so
  /// it may have any value of the type.
  Range of(const Expr& expr) const;
  /// True if `a op b` may exceed the type of the operands. Requires: `op` is +, - or *, and both
  /// operands have the same integer type.
  bool may_overflow(dsl::BinaryOp op, const Expr& a, const Expr& b) const;
  /// True if the values of `expr` and of each of its Int64 subexpressions fit 32 bits, signed. The
  /// indices of reads inside of `expr` are not checked.
  bool all_fit_int32(const Expr& expr) const;
  /// True if all partial sums of the terms fit 32 bits, whatever the order in which the terms are
  /// added.
  bool all_fit_int32(const Affine& affine) const;

 private:
  std::map<std::string, Range> variables_;
  Range others_;
};

}  // namespace tw::schedules

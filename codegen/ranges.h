// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranges of index expressions by plain interval arithmetic: which of them fit 32 bits, and which
// operands of a division may be negative. Cheaper and coarser than schedules::Bounds, and defined
// for every subexpression, since intermediate results must not overflow either. Not thread-safe.

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "schedules/program/affine.h"
#include "schedules/program/program.h"

namespace tw::codegen {

/// Inclusive; the limits of int64 mean "unknown, or larger".
struct Range {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
  bool fits_int32() const;
};

class Ranges {
 public:
  /// The variable runs over [begin, end) until it is set again: names are unique in a phase, or
  /// repeated in sibling loops only.
  void set(const std::string& variable, const schedules::Expr& begin, const schedules::Expr& end);

  Range of(const schedules::Expr& expr) const;
  /// The result of +, - or * on operands of one integer type may leave that type.
  bool may_overflow(dsl::BinaryOp op, const schedules::Expr& a, const schedules::Expr& b) const;
  /// The value of `expr`, and of every Int64 subexpression that is not inside a read, fits 32 bits.
  bool all_fit_int32(const schedules::Expr& expr) const;
  /// Every partial sum of the terms fits 32 bits, in whatever order they are added.
  bool all_fit_int32(const schedules::Affine& affine) const;

 private:
  std::map<std::string, Range> variables_;
};

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranges of index expressions by plain interval arithmetic. They tell which expressions fit 32
// bits, and which operands of a division may be negative. Ranges are cheaper and coarser than
// schedules::Bounds, and defined for every subexpression, because intermediate results must not
// overflow either. Not thread-safe.

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "schedules/program/affine.h"
#include "schedules/program/program.h"

namespace tw::codegen {

/// An inclusive range. A limit of int64 means "unknown, or beyond int64".
struct Range {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
  bool fits_int32() const;
};

class Ranges {
 public:
  /// Sets the range of a variable to [begin, end), until it is set again. A name is unique in a
  /// phase, or is repeated only in sibling loops.
  void set(const std::string& variable, const schedules::Expr& begin, const schedules::Expr& end);

  Range of(const schedules::Expr& expr) const;
  /// True if the result of +, - or * on operands of one integer type may exceed that type.
  bool may_overflow(dsl::BinaryOp op, const schedules::Expr& a, const schedules::Expr& b) const;
  /// True if the value of `expr`, and the value of every Int64 subexpression outside of reads, fits
  /// 32 bits.
  bool all_fit_int32(const schedules::Expr& expr) const;
  /// True if every partial sum of the terms fits 32 bits, in whatever order the terms are added.
  bool all_fit_int32(const schedules::Affine& affine) const;

 private:
  std::map<std::string, Range> variables_;
};

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// One number of any element type, and what each operation does to it: the arithmetic that the
// interpreters of computes and of programs share. Floats are computed in double, integers wrap, min
// and max ignore a NaN, casts to integers truncate and saturate. Division of integers rounds
// towards minus infinity and gives 0 where the divisor is 0, as its remainder does. Pure functions;
// thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "dsl/expr.h"

namespace tw::dsl {

/// A float in `f` or an integer in `i`, by the type of its expression.
struct Value {
  double f = 0;
  int64_t i = 0;
};

/// Floats are not rounded here, but for the operand of round(). Requires: an operation that both
/// operands need (not And, Or).
Value apply(BinaryOp op, DType operands, DType result, Value a, Value b);
Value apply(UnaryOp op, DType type, Value a);
Value convert(DType from, DType to, Value a);

/// A sum in double whose error does not grow with the number of terms (Neumaier,
/// Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen, ZAMM 54, 1974).
class CompensatedSum {
 public:
  void add(double term);
  double value() const;

 private:
  double sum_ = 0, lost_ = 0;
};

/// The exact rounding error of a + b: the exact sum minus the rounded sum (Knuth's TwoSum).
/// Requires: finite sums.
double rounding_of_sum(double a, double b);

/// Error text if the operation is a division or a remainder by a literal 0; nullopt for all other
/// operands and operations.
std::optional<std::string> divisor_error(BinaryOp op, const Expr& divisor);

}  // namespace tw::dsl

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A number of any element type, and the operations on it: the arithmetic that the interpreters of
// computes and of programs share. Floats are computed in double, integers wrap, min and max ignore
// a NaN, and casts to integers truncate and saturate. Integer division rounds towards minus
// infinity; division and remainder by 0 are 0. Pure functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "dsl/expr.h"

namespace tw::dsl {

/// A number: a float is in `f`, and an integer or bool in `i`. The type is that of its expression.
struct Value {
  double f = 0;
  int64_t i = 0;
};

/// Apply an operation or a conversion. Float results are not rounded to their type; only the
/// operand of round() is. Requires: an operation that needs both operands, so not And or Or.
Value apply(BinaryOp op, DType operands, DType result, Value a, Value b);
Value apply(UnaryOp op, DType type, Value a);
Value convert(DType from, DType to, Value a);

/// A sum in double with an error that does not grow with the number of terms (Neumaier,
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

/// The error text if the operation is a division or a remainder by a literal 0; nullopt otherwise.
std::optional<std::string> divisor_error(BinaryOp op, const Expr& divisor);

}  // namespace tw::dsl

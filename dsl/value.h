// SPDX-License-Identifier: Apache-2.0
#pragma once
// A number of any element type, and the operations on numbers. The interpreters of computes and of
// programs share this arithmetic. Floats are computed in double, and integers wrap. If one operand
// of min or max is NaN, the result is the other one. Casts of floats to integers truncate and
// saturate; NaN becomes 0. Integer division rounds towards minus infinity; division and remainder
// by 0 are 0. Pure functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "dsl/expr.h"

namespace tw::dsl {

/// A number. `f` has the value of a float, and `i` that of an integer or bool. The type is not
/// stored: it is the type of the expression that is evaluated.
struct Value {
  double f = 0;
  int64_t i = 0;
};

/// apply() computes an operation, and convert() a cast. `operands` and `result` are the types of
/// the operands and of the result. apply() does not round a float result to its type: the result
/// stays a double. For UnaryOp::Round, apply() rounds the operand to `type` first. convert() rounds
/// to the type `to`. Requires: `op` is neither And nor Or, because the caller evaluates their
/// second operand only if it is needed.
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

/// Returns the rounding error of a + b in double: the exact sum minus the rounded sum (Knuth's
/// TwoSum). NaN if the sum is not finite.
double rounding_of_sum(double a, double b);

/// Returns an error text if the operation divides by a literal 0 (Div or Mod); nullopt otherwise.
std::optional<std::string> divisor_error(BinaryOp op, const Expr& divisor);

}  // namespace tw::dsl

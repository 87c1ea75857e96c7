// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text form of expressions and computes. Printed text parses back to the same value.
//
//   input a: f32[16, 32]
//   weight b: f32[32, 8] @IO          # letters are optional
//   c: f32[m=16, n=8] = sum(k=32) a[m, k] * b[k, n]
//   out: f32[m=16, n=8] = max(c[m, n], 0.0)
//   output out                        # without this line, the last stage is the output
//
// A declaration ends at ';' or at the end of a line outside of brackets. docs/expressions.md is the
// reference. Text from untrusted sources is safe to parse: its size and nesting are bounded.
// Thread-safe.

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "dsl/compute.h"

namespace tw::dsl {

/// Parses and validates a compute. Fails with Invalid, or with Unsupported if extents overflow. The
/// message of a syntax error says the line, the column, and what was expected there.
Result<Compute> parse_compute(std::string_view text);

/// Prints the compute, one declaration on each line.
std::string to_text(const Compute& compute);
/// Prints the compute on one line, in the canonical form by which computes are compared: two
/// computes are equal if their lines are equal.
std::string to_line(const Compute& compute);
/// Returns the short_hash() (base/hash.h) of to_line(), 16 hex digits.
std::string hash(const Compute& compute);

/// Parses an expression. `tensors` gives the types of the tensors that the expression may read, by
/// name. The expression may use any variable, including loop variables such as "m.0".
Result<Expr> parse_expr(std::string_view text, const std::map<std::string, DType>& tensors = {});

}  // namespace tw::dsl

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text form of expressions and computes. Printed text parses back to the same value.
//
//   input a: f32[16, 32]
//   weight b: f32[32, 8] @IO          # letters are optional
//   c: f32[m=16, n=8] = sum(k=32) a[m, k] * b[k, n]
//   out: f32[m=16, n=8] = max(c[m, n], 0.0)
//   output out                        # the last stage where it is left out
//
// Declarations end at a line end outside of brackets, or at ';'. docs/expressions.md is the
// reference. Text of any origin is safe to parse: its size and nesting are bounded. Thread-safe.

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "dsl/compute.h"

namespace tw::dsl {

/// Errors are Invalid (Unsupported for extents that overflow) and name the line, the column, and
/// what was expected. The result is validated.
Result<Compute> parse_compute(std::string_view text);

/// One declaration a line.
std::string to_text(const Compute& compute);
/// The compute on one line, which is its canonical form: two computes are equal if their lines are.
std::string to_line(const Compute& compute);
/// Names the compute: 16 hex digits.
std::string hash(const Compute& compute);

/// An expression that may read `tensors` and use any variable, loop variables ("m.0") included.
Result<Expr> parse_expr(std::string_view text, const std::map<std::string, DType>& tensors = {});

}  // namespace tw::dsl

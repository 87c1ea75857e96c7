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
// A declaration ends at ';' or at the end of a line outside of brackets. docs/expressions.md is the
// reference. Text from untrusted sources is safe to parse: its size and nesting are bounded.
// Thread-safe.

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "dsl/compute.h"

namespace tw::dsl {

/// Parses and validates a compute. Errors are Invalid (Unsupported for extents that overflow) and
/// name the line, the column, and the text that was expected there.
Result<Compute> parse_compute(std::string_view text);

/// Prints the compute, one declaration on each line.
std::string to_text(const Compute& compute);
/// Prints the compute on one line. This is the canonical form: two computes are equal if their
/// lines are equal.
std::string to_line(const Compute& compute);
/// A hash of the compute as 16 hex digits.
std::string hash(const Compute& compute);

/// Parses an expression. It may read the tensors of the given types, and use any variable,
/// including loop variables ("m.0").
Result<Expr> parse_expr(std::string_view text, const std::map<std::string, DType>& tensors = {});

}  // namespace tw::dsl

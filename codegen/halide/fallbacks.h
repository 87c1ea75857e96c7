// SPDX-License-Identifier: Apache-2.0
#pragma once
// Marks fallbacks: branches that run only if a test for all lanes of a vector fails. Private to
// codegen/halide; thread-safe.
//
// Accesses in fallbacks are not counted (codegen/halide/access_counts.h). A fallback is the `else`
// case of a test. The simplifier also makes `else` cases, from two branches that exclude each
// other, and accesses in such cases do count. The mark tells the two kinds of `else` cases apart.
// Code that is compiled has no marks, because a mark keeps the simplifier from sharing
// subexpressions between the two versions of a branch.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

enum class Fallbacks { Plain, Marked };

/// Returns the statement, marked as a fallback.
HStmt as_fallback(const HStmt& body);

/// True if as_fallback() made the statement.
bool is_fallback(const HStmt& body);

}  // namespace tw::codegen::halide

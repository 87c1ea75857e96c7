// SPDX-License-Identifier: Apache-2.0
#pragma once
// Marks fallbacks: branches that run only if a test for all lanes of a vector fails. Private to
// codegen/halide; thread-safe.
//
// Accesses in fallbacks are not counted (codegen/halide/access_counts.h). A fallback is the `else`
// case of a test. The simplifier makes other `else` cases, of two branches that exclude each other,
// and accesses in these do count. The mark tells fallbacks from these cases. Code that is compiled
// has no marks, because a mark keeps the simplifier from sharing subexpressions between the two
// versions of a branch.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

enum class Fallbacks { Plain, Marked };

/// Returns the statement with a mark.
HStmt as_fallback(const HStmt& body);

/// True if as_fallback() made the statement.
bool is_fallback(const HStmt& body);

}  // namespace tw::codegen::halide

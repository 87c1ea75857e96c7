// SPDX-License-Identifier: Apache-2.0
#pragma once
// Marks fallbacks: branches that run if a test for all lanes of a vector fails. Private to
// codegen/halide; thread-safe.
//
// Fallbacks are marked when accesses are counted, because the simplifier also makes `else` cases of
// branches that exclude each other, and these must count. Code is compiled without marks, because a
// mark keeps the simplifier from sharing subexpressions between the versions of a branch.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

enum class Fallbacks { Plain, Marked };

/// Returns the statement with a mark.
HStmt as_fallback(const HStmt& body);

/// True if the statement has a mark.
bool is_fallback(const HStmt& body);

}  // namespace tw::codegen::halide

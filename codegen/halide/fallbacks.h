// SPDX-License-Identifier: Apache-2.0
#pragma once
// Marks of branches that are the fallback of a test for all lanes of a vector. Private to
// codegen/halide; thread-safe.
//
// When accesses are counted, a mark is on the version of a branch for vectors with masked lanes, to
// tell it from the `else` cases that the simplifier makes of branches that exclude each other. Code
// is compiled without the mark, which would keep the simplifier from sharing subexpressions between
// versions.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

enum class Fallbacks { Plain, Marked };

/// The statement with a mark.
HStmt as_fallback(const HStmt& body);

/// True if the statement has a mark.
bool is_fallback(const HStmt& body);

}  // namespace tw::codegen::halide

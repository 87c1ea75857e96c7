// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts accesses to buffers in the code that the back end receives. Private to codegen/halide;
// thread-safe.

#include <map>
#include <string>

#include "base/target.h"
#include "codegen/cpu_codegen.h"
#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Adds the accesses of a statement to the counts, which are by name of the buffer. Fallbacks do
/// not count. Requires: the passes ran (codegen/halide/passes.h) and fallbacks are marked.
void add_accesses(const HStmt& body, const Target& target,
                  std::map<std::string, AccessCounts>& counts);

}  // namespace tw::codegen::halide

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Accesses to buffers in the code that the back end receives. Private to codegen/halide;
// thread-safe.

#include <map>
#include <string>

#include "base/target.h"
#include "codegen/cpu_codegen.h"
#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Adds to the counts, by name of the buffer, how a statement accesses each buffer; fallbacks are
/// left out. Requires: the passes ran (codegen/halide/passes.h) and fallbacks are marked.
void add_accesses(const HStmt& body, const Target& target,
                  std::map<std::string, AccessCounts>& counts);

}  // namespace tw::codegen::halide

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the accesses to buffers in the statements that Halide's back end receives. Private to
// codegen/halide; thread-safe.

#include <map>
#include <string>

#include "base/target.h"
#include "codegen/cpu_codegen.h"
#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Adds the accesses of a statement to `counts`, whose keys are the names of buffers. Fallbacks
/// (codegen/halide/fallbacks.h) are left out. Requires: run_passes() made the statement, and its
/// fallbacks are marked.
void add_accesses(const HStmt& body, const Target& target,
                  std::map<std::string, AccessCounts>& counts);

}  // namespace tw::codegen::halide

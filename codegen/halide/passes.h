// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs Halide's passes over the statements of a phase, in the order that Halide's back end needs.
// Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Wraps the value of a let, so that the passes do not inline the value into every use.
/// run_passes() removes the wrapper.
HExpr kept(const HExpr& value);

/// Returns the statement as the back end receives it: vector loops have become vectors, and
/// unrolled loops copies.
HStmt run_passes(HStmt body);

}  // namespace tw::codegen::halide

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs Halide's passes over the translated statements of a phase, in the order that Halide's back
// end needs. Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Wraps the value of a let, so that the passes do not replace each use of the let's name by the
/// value. run_passes() removes the wrapper.
HExpr kept(const HExpr& value);

/// Runs the passes, and returns the statement that the back end receives. In it, vector loops have
/// become vector operations, and unrolled loops have become copies of their bodies.
HStmt run_passes(HStmt body);

}  // namespace tw::codegen::halide

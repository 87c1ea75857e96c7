// SPDX-License-Identifier: Apache-2.0
#pragma once
// Halide's passes over the statements of a phase, in the order that its back end needs. Private to
// codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// The value of a let, wrapped to keep it from being inlined into every use until the passes end.
HExpr kept(const HExpr& value);

/// The statement as the back end receives it: vector loops are vectors, unrolled ones are copies.
HStmt run_passes(HStmt body);

}  // namespace tw::codegen::halide

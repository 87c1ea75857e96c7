// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of the target features that Halide uses, and the masked vectors of a target. Private to
// codegen/halide; thread-safe.

#include "base/target.h"
#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Returns Halide's target with the features that those of our target imply, for compiling
/// functions without Halide's runtime and checks.
Halide::Target halide_target(const Target& target);

/// The lanes for which the target can load and store vectors under a mask. For other lanes LLVM
/// makes a branch for each lane.
struct Masks {
  bool words = false;   ///< lanes of 32 and 64 bits
  bool narrow = false;  ///< lanes of 8 and 16 bits
  int vector_bits = 128;
  bool has_f16 = true;  ///< true if an instruction rounds f32 to f16

  bool cover(Halide::Type lane) const { return lane.bits() >= 32 ? words : narrow; }
};

Masks masks_of(const Target& target);

}  // namespace tw::codegen::halide

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates our target to Halide's, and says which vectors a target can load and store under a
// mask. Private to codegen/halide; thread-safe.

#include "base/target.h"
#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Returns Halide's target with the features that the features of `target` imply. Functions that
/// are compiled for it contain neither Halide's runtime nor its checks.
Halide::Target halide_target(const Target& target);

/// The types of lanes for which the target can load and store vectors under a mask. For other types
/// LLVM makes a branch for each lane.
struct Masks {
  bool words = false;   ///< lanes of 32 and 64 bits
  bool narrow = false;  ///< lanes of 8 and 16 bits
  int vector_bits = 128;
  bool has_f16 = true;  ///< true if an instruction rounds f32 to f16

  bool cover(Halide::Type lane) const { return lane.bits() >= 32 ? words : narrow; }
};

Masks masks_of(const Target& target);

}  // namespace tw::codegen::halide

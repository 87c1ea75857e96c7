// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packing: programs that copy between a caller's row-major tensor and the layout in which a kernel
// stores it.

#include "schedules/program.h"

namespace tw::codegen {

/// The packing program of an argument. For an input its arguments are "logical" and "storage", and
/// it writes all of the storage, with zeros where the layout rounds up. For an output they are
/// "storage" and "logical", and it reads the elements that exist in the tensor. Tasks are the
/// outermost storage dimension. Requires: the storage is `layout` of `shape`.
schedules::Program pack_program(const schedules::Argument& argument);

}  // namespace tw::codegen

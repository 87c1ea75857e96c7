// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packing: between a tensor as callers have it, row-major, and a kernel's storage of it.

#include "schedules/program.h"

namespace tw::codegen {

/// An input's program writes all of the storage, zeros where the layout is rounded up; its
/// arguments are "logical", then "storage". An output's reads what the tensor has; "storage", then
/// "logical". Tasks are the outermost storage dimension. Requires: the storage is `layout` of
/// `shape`.
schedules::Program pack_program(const schedules::Argument& argument);

}  // namespace tw::codegen

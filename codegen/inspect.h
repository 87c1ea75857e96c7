// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inspects a compiled kernel: returns its instructions as text, and counts its register spills.
// Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

/// Returns the disassembly of an object, as objdump prints it. Each function begins with "<name>:".
/// Fails with Environment if there is no objdump for the target's architecture.
Result<std::string> disassemble(std::string_view object, const Target& target);

/// Estimates the number of register spills: counts the instructions that load or store a vector
/// register at a fixed distance from the stack pointer. Accesses to arrays on the stack count too
/// if they are at fixed places, for example accesses to a Local buffer that was not promoted to
/// registers. Accesses relative to the frame pointer's register do not count, because generated
/// code keeps other values in this register.
int count_spills(std::string_view disassembly, Architecture architecture);

}  // namespace tw::codegen

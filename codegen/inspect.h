// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inspects a compiled kernel: its instructions as text, and its number of register spills.
// Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

/// Returns the instructions of an object as text, by objdump; each function begins with "<name>:".
/// Environment: there is no objdump for the target's architecture.
Result<std::string> disassemble(std::string_view object, const Target& target);

/// Counts loads and stores of vector registers at a fixed distance from the stack pointer. Accesses
/// to stack arrays at fixed places count too, such as those to a Local buffer that was not promoted
/// to registers. Accesses through the frame pointer do not count, because it is a general register
/// in this code.
int count_spills(std::string_view disassembly, Architecture architecture);

}  // namespace tw::codegen

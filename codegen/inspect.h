// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inspects a compiled kernel: its instructions as text, and its number of register spills.
// Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

/// The instructions of an object, by objdump; functions begin with "<name>:". Environment: there is
/// no objdump for the target's architecture.
Result<std::string> disassemble(std::string_view object, const Target& target);

/// Loads and stores of vector registers at a fixed distance from the stack pointer. Stack arrays
/// that are accessed at fixed places count as well: a Local buffer that was not promoted is one.
/// Accesses through the frame pointer do not: it is a general register in this code.
int count_spills(std::string_view disassembly, Architecture architecture);

}  // namespace tw::codegen

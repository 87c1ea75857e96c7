// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of the instructions that can be interpreted. A row has the beginning of a mnemonic, the
// modifiers that may follow it in addition to types, and a function that executes the instruction
// for one thread, or for all threads of a warp or a warpgroup together. A mnemonic that has no row,
// or has a modifier that its row does not list, is an error of the parser.

#include <span>
#include <string_view>

#include "tests/ptx/machine.h"

namespace tw::ptx {

/// The threads that execute an instruction together.
enum class Scope : uint8_t { Thread, Warp, Warpgroup };

struct Row {
  std::string_view name;
  std::string_view modifiers;
  void (*execute)(Thread&, const Instruction&) = nullptr;
  Scope scope = Scope::Thread;
  void (*together)(std::span<Thread* const>, const Instruction&) = nullptr;
};

/// The rows of each source file.
std::span<const Row> arithmetic_rows();
std::span<const Row> memory_rows();
std::span<const Row> asynchronous_rows();
std::span<const Row> matrix_rows();

/// Returns the row with the longest name that the mnemonic begins with; null if there is none.
const Row* find_row(std::string_view mnemonic);

}  // namespace tw::ptx

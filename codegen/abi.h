// SPDX-License-Identifier: Apache-2.0
#pragma once
// The conventions that generated code and its callers share; runtime/artifact.h states the calling
// convention.
//
// A phase's tasks are numbered row-major over its axes, the last axis fastest. The scratch buffers
// of a program lie in one arena, in order, each at a multiple of 64 bytes. A task's own buffers
// (Local, Register) lie on its stack. Free functions; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/artifact.h"
#include "schedules/program/legality.h"
#include "schedules/program/program.h"

namespace tw::codegen {

inline constexpr int64_t codegen_abi = runtime::current_codegen_abi;

/// Stack that the buffers of a task may take: far below the 8 MiB of a thread, so that other uses
/// of the stack do not matter.
inline constexpr int64_t max_stack_bytes = schedules::Limits().local_bytes;
inline constexpr int64_t buffer_alignment = schedules::buffer_alignment;

struct ScratchLayout {
  std::vector<int64_t> offsets;  ///< in bytes, one for each scratch buffer
  int64_t bytes = 0;             ///< size of the arena
};
ScratchLayout scratch_layout(const schedules::Program& program);

/// "<prefix>_p<phase>".
std::string phase_symbol(const std::string& prefix, size_t phase);
/// The prefix of the symbols of Program::preparation: "<prefix>_prepare".
std::string preparation_prefix(const std::string& prefix);

/// Unsupported, naming the phase, unless task numbers fit 32 bits and each task's buffers its
/// stack.
Status check_limits(const schedules::Program& program);

}  // namespace tw::codegen

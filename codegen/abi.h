// SPDX-License-Identifier: Apache-2.0
#pragma once
// The conventions that generated code and its callers share. runtime/artifact.h defines how the
// functions are called. This header defines how tasks are numbered and where buffers lie.
//
// The tasks of a phase are numbered row-major over its axes, so the last axis varies fastest.
// Example: with the axes k of extent 2 and y of extent 56, task 58 has k = 1 and y = 2. The scratch
// buffers of a program lie one after another in one arena, each at a multiple of 64 bytes. The
// Local and Register buffers of a task lie on the stack. Free functions; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/artifact.h"
#include "schedules/program/legality.h"
#include "schedules/program/program.h"

namespace tw::codegen {

inline constexpr int64_t codegen_abi = runtime::current_codegen_abi;

/// Most bytes of stack that the buffers of a task may use. The limit is far below the 8 MiB of a
/// thread's stack, because the functions that call the task need stack too.
inline constexpr int64_t max_stack_bytes = schedules::Limits().local_bytes;
inline constexpr int64_t buffer_alignment = schedules::buffer_alignment;

struct ScratchLayout {
  std::vector<int64_t> offsets;  ///< in bytes, one for each scratch buffer
  int64_t bytes = 0;             ///< size of the arena
};
ScratchLayout scratch_layout(const schedules::Program& program);

/// Returns the symbol of the phase with this index: "<prefix>_p<phase>", for instance "gemm_p0".
std::string phase_symbol(const std::string& prefix, size_t phase);
/// Returns the prefix for the phases of Program::preparation: "<prefix>_prepare".
std::string preparation_prefix(const std::string& prefix);

/// Checks that the index of each task fits a signed 32-bit integer, and that the buffers of each
/// task fit max_stack_bytes. Otherwise it fails with Unsupported, and the message names the phase.
Status check_limits(const schedules::Program& program);

}  // namespace tw::codegen

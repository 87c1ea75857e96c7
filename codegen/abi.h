// SPDX-License-Identifier: Apache-2.0
#pragma once
// The conventions that generated code and its callers share. runtime/artifact.h defines the calling
// convention; this header defines the numbering of tasks and the place of buffers.
//
// A phase's tasks are numbered row-major over the phase's axes: the last axis varies fastest. The
// scratch buffers of a program lie in one arena, in order, each at a multiple of 64 bytes. The
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

/// Limit in bytes on the stack that the buffers of a task take. It is far below the 8 MiB of a
/// thread's stack, which leaves room for other uses.
inline constexpr int64_t max_stack_bytes = schedules::Limits().local_bytes;
inline constexpr int64_t buffer_alignment = schedules::buffer_alignment;

struct ScratchLayout {
  std::vector<int64_t> offsets;  ///< in bytes, one for each scratch buffer
  int64_t bytes = 0;             ///< size of the arena
};
ScratchLayout scratch_layout(const schedules::Program& program);

/// Returns the symbol of a phase: "<prefix>_p<phase>".
std::string phase_symbol(const std::string& prefix, size_t phase);
/// Returns the prefix for the phases of Program::preparation: "<prefix>_prepare".
std::string preparation_prefix(const std::string& prefix);

/// Checks that task numbers fit 32 bits and that the buffers of a task fit max_stack_bytes.
/// Unsupported, naming the phase, if not.
Status check_limits(const schedules::Program& program);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Instruction sets of x86-64, and a limit on those that this process uses: with
// TILEWRIGHT_MAX_ISA=avx2 the process behaves as on a machine without AVX-512. ONEDNN_MAX_CPU_ISA
// does the same for oneDNN.
//
// No other environment variable is read below tools/. host_target() describes the machine as this
// process may use it. Child processes inherit affinity, quota and this limit, so the limit holds
// for worker processes and for callers of the C interface without being passed to them. Thread-safe
// while no thread changes the environment.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw {

inline constexpr const char* max_isa_variable = "TILEWRIGHT_MAX_ISA";

/// Names of the instruction sets, smallest first: "sse41", "avx", "avx2", "avx512", ..., "amx".
/// Each set contains all sets before it.
const std::vector<std::string>& isa_names();

/// The target features that the instruction set of this name contains, sorted; nullopt if there is
/// no such set.
std::optional<std::vector<std::string>> features_of_isa(std::string_view name);

/// The limit in force, as isa_names() spells it. Returns nullopt if the variable is unset or empty,
/// or if check_max_isa() fails. The value of the variable may be in upper or lower case, and may be
/// oneDNN's name of the set, such as "AVX512_CORE_VNNI".
std::optional<std::string> max_isa();

/// Checks the value of the variable. An unset or empty variable is valid. Usage, listing the names,
/// if the value is no instruction set. Programs call this function when they start, and the runtime
/// calls it when a session is opened.
Status check_max_isa();

/// Asks Linux to let all threads of this process use the tile registers of Intel AMX. Without this
/// permission the first tile instruction of a process ends in SIGILL. May be called repeatedly, by
/// any thread. Environment: Linux refuses, or the processor is not x86-64.
Status request_tile_registers();

/// Explains missing features of a target: "TILEWRIGHT_MAX_ISA=avx2 allows no more" if the limit
/// excludes at least one of `features`; empty if it excludes none.
std::string cause_of_missing(const std::vector<std::string>& features);

}  // namespace tw

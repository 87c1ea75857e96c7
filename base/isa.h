// SPDX-License-Identifier: Apache-2.0
#pragma once
// Instruction sets of x86-64, and a limit on those that this process uses: with
// TILEWRIGHT_MAX_ISA=avx2 it behaves as on a machine without AVX-512, as ONEDNN_MAX_CPU_ISA makes
// oneDNN do.
//
// No other environment variable is read below tools/. host_target() describes the machine as the
// process may use it; affinity, quota and this limit are all inherited from the parent process and
// hold for worker processes and for callers of the C interface without being passed to them.
// Thread-safe while nobody changes the environment.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw {

inline constexpr const char* max_isa_variable = "TILEWRIGHT_MAX_ISA";

/// Names of the instruction sets, smallest first: "sse41", "avx", "avx2", "avx512", ..., "amx".
/// Each contains those before it.
const std::vector<std::string>& isa_names();

/// The target features that the instruction set contains, sorted; nullopt for an unknown name.
std::optional<std::vector<std::string>> features_of_isa(std::string_view name);

/// The limit in force, as isa_names() spells it. The variable may have it in any case, and oneDNN's
/// names such as "AVX512_CORE_VNNI" are accepted. nullopt where the variable is unset or empty, and
/// where check_max_isa() fails.
std::optional<std::string> max_isa();

/// Fails with Usage, listing the names, if the variable has another value. Programs call it when
/// they start, and the runtime when a session is opened.
Status check_max_isa();

/// Asks the system for the tile registers of Intel AMX, for all threads of the process: Linux keeps
/// them from a process that did not ask, whose first tile instruction would be a SIGILL. May be
/// called again, by any thread. Environment: it refuses them, or is not x86-64.
Status request_tile_registers();

/// "TILEWRIGHT_MAX_ISA=avx2 allows no more" where the limit excludes one of these features of a
/// target; else empty.
std::string cause_of_missing(const std::vector<std::string>& features);

}  // namespace tw

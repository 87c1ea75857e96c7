// SPDX-License-Identifier: Apache-2.0
#pragma once
// Instruction sets of x86-64, and the environment variable TILEWRIGHT_MAX_ISA, which limits the
// sets that this process uses. With TILEWRIGHT_MAX_ISA=avx2 the process behaves as on a machine
// without AVX-512. (oneDNN has ONEDNN_MAX_CPU_ISA for this purpose.)
//
// The limit is an environment variable because child processes inherit it, like the affinity mask
// and the quota of processors. So worker processes obey the limit, although nothing passes it to
// them. host_target() in base/target.h applies the limit, the mask and the quota. Thread-safe while
// no thread changes the environment.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw {

inline constexpr const char* max_isa_variable = "TILEWRIGHT_MAX_ISA";

/// Returns the names of the instruction sets, smallest first: "sse41", "avx", "avx2", "avx512",
/// ..., "amx". Each set contains all sets before it.
const std::vector<std::string>& isa_names();

/// Returns the target features that the instruction set of this name contains, sorted. Returns
/// nullopt if there is no such set.
std::optional<std::vector<std::string>> features_of_isa(std::string_view name);

/// Returns the limit as a name of isa_names(). Returns nullopt if there is no limit: the variable
/// is unset or empty, or its value is not an instruction set. The value may be in upper or lower
/// case, and may be oneDNN's name of the set: "AVX512_CORE_VNNI" gives "avx512_vnni".
std::optional<std::string> max_isa();

/// Checks the value of the variable. Fails with Usage, listing the valid names, if the value is not
/// an instruction set. An unset or empty variable is valid. Programs call this function when they
/// start, and the runtime calls it when a session is opened.
Status check_max_isa();

/// Asks Linux to let all threads of this process use the tile registers of Intel AMX. Without this
/// permission the first tile instruction of a process ends in SIGILL. May be called repeatedly, by
/// any thread. Fails with Environment if Linux refuses or the processor is not x86-64.
Status request_tile_registers();

/// Returns a text for an error message about `features` that this machine lacks. The text is
/// "TILEWRIGHT_MAX_ISA=avx2 allows no more" if the limit excludes at least one of them, and empty
/// otherwise.
std::string cause_of_missing(const std::vector<std::string>& features);

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads symbols and sections of 64-bit little-endian ELF objects. Other bytes are treated as an
// object without symbols and sections. Free functions; thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tw::codegen {

/// Returns the names that the shared object imports: the undefined symbols of its dynamic symbol
/// table, in the order of the table.
std::vector<std::string> imports_of(std::string_view shared);

/// Returns the size, flags and contents of each section that holds instructions or constants.
/// Symbol and string tables are left out, so the result does not depend on the names of functions.
std::string loaded_contents(std::string_view shared);

/// Returns the offset in the file of the contents of the first section with this name; nullopt if
/// there is no such section.
std::optional<uint64_t> offset_of_section(std::string_view object, std::string_view name);

/// Returns the number of registers of a thread for each function of a cubin, by the name of the
/// function. ptxas writes these numbers into the section ".nv.info". A function without such an
/// entry is left out.
std::map<std::string, int> registers_of_cubin(std::string_view cubin);

}  // namespace tw::codegen

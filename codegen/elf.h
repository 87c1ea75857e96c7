// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads symbols and sections of 64-bit little-endian ELF objects. Other bytes are read as an object
// without any. Free functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tw::codegen {

/// Returns the names that are undefined in the dynamic symbol table, in the table's order.
std::vector<std::string> imports_of(std::string_view shared);

/// Returns the contents of the sections with instructions and constants, each after its size and
/// flags. Symbol and string tables are left out, so the result does not depend on names.
std::string loaded_contents(std::string_view shared);

/// Returns the offset in the file of the contents of the first section with this name; nullopt if
/// there is no such section.
std::optional<uint64_t> offset_of_section(std::string_view object, std::string_view name);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads symbols and sections of 64-bit little-endian ELF objects. Bytes that are no such object
// count as an empty one. Free functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tw::codegen {

/// Names that the dynamic symbol table leaves undefined, in its order.
std::vector<std::string> imports_of(std::string_view shared);

/// The contents of the sections that a program loads and that name nothing: instructions and
/// constants, each after its size and flags.
std::string loaded_contents(std::string_view shared);

/// Offset in the file of the contents of the first section with this name; nullopt: there is none.
std::optional<uint64_t> offset_of_section(std::string_view object, std::string_view name);

}  // namespace tw::codegen

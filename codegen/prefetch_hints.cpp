// SPDX-License-Identifier: Apache-2.0
#include "codegen/prefetch_hints.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "codegen/elf.h"
#include "codegen/inspect.h"

namespace tw::codegen {
namespace {

constexpr std::string_view heading = "Disassembly of section ";
constexpr std::string_view opcode = "\x0f\x18";
// The field `reg` of the byte behind the opcode is the hint: 0 is NTA, 1 is T0.
constexpr unsigned hint_mask = 0x38, hint_t0 = 0x08;
// At most three prefixes stand before the opcode: segment, address size and REX.
constexpr size_t most_prefixes = 3;

/// Returns the address of the instruction in a line of a disassembly: 0x618 for "
/// 618:\tprefetchnta (%r9)".
std::optional<uint64_t> address_in(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  uint64_t address = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
  if (error != std::errc() || end == line.data() + line.size() || *end != ':') return std::nullopt;
  return address;
}

/// Changes the hint of the prefetch that begins at the offset from NTA to T0. Returns false if no
/// prefetch with the hint NTA begins there.
bool set_hint(std::string& object, uint64_t offset) {
  for (size_t prefixes = 0; prefixes <= most_prefixes; ++prefixes) {
    const uint64_t at = offset + prefixes;
    if (at + opcode.size() >= object.size()) return false;
    if (std::string_view(object).substr(at, opcode.size()) != opcode) continue;
    const auto modrm = static_cast<unsigned char>(object[at + opcode.size()]);
    if ((modrm & hint_mask) != 0) return false;
    object[at + opcode.size()] = static_cast<char>(modrm | hint_t0);
    return true;
  }
  return false;
}

}  // namespace

Result<std::string> with_temporal_prefetches(std::string object, const Target& target) {
  if (target.architecture != Architecture::X86_64) return object;
  TW_TRY(const std::string text, disassemble(object, target));
  std::optional<uint64_t> section;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(heading)) {
      const std::string_view name = line.substr(heading.size());
      section = offset_of_section(object, name.substr(0, name.rfind(':')));
    }
    if (line.find("\tprefetchnta") == std::string_view::npos) continue;
    const auto address = address_in(line);
    if (!section || !address || !set_hint(object, *section + *address))
      return fail(
          ErrorCode::Internal,
          "[codegen] objdump names a prefetch that is not at its address: " + std::string(line));
  }
  return object;
}

}  // namespace tw::codegen

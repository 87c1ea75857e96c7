// SPDX-License-Identifier: Apache-2.0
#include "codegen/elf.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>

namespace tw::codegen {
namespace {

template <typename T>
std::optional<T> at(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::vector<Elf64_Shdr> sections_of(std::string_view shared) {
  std::vector<Elf64_Shdr> sections;
  const auto header = at<Elf64_Ehdr>(shared, 0);
  for (size_t i = 0; header && i < header->e_shnum; ++i)
    if (const auto section = at<Elf64_Shdr>(shared, header->e_shoff + i * sizeof(Elf64_Shdr)))
      sections.push_back(*section);
  return sections;
}

/// Returns the string at `index` of a string table; empty if it lies outside of the object.
std::string string_of(std::string_view object, const Elf64_Shdr& strings, uint64_t index) {
  const uint64_t begin = strings.sh_offset + index;
  if (begin >= object.size()) return "";
  return std::string(object.substr(begin, object.find('\0', begin) - begin));
}

/// Returns the first section with this name; nullopt if there is no such section.
std::optional<Elf64_Shdr> section_of(std::string_view object, std::string_view name) {
  const auto header = at<Elf64_Ehdr>(object, 0);
  const std::vector<Elf64_Shdr> sections = sections_of(object);
  if (!header || header->e_shstrndx >= sections.size()) return std::nullopt;
  const Elf64_Shdr& strings = sections[header->e_shstrndx];
  for (const Elf64_Shdr& section : sections)
    if (string_of(object, strings, section.sh_name) == name) return section;
  return std::nullopt;
}

/// An attribute in the section ".nv.info" of a cubin: a header of 4 bytes, and for attributes of
/// the format `sized_attribute` a value of `size` bytes.
struct CubinAttribute {
  uint8_t format, kind;
  uint16_t size;
};
constexpr uint8_t sized_attribute = 4;
/// EIATTR_REGCOUNT of CUDA. Its value has the index of the function's symbol and the number of
/// registers.
constexpr uint8_t register_count = 0x2f;
struct RegisterCount {
  uint32_t symbol, registers;
};

/// Returns the values of all attributes that tell the number of registers of a function.
std::vector<RegisterCount> register_counts(std::string_view attributes) {
  std::vector<RegisterCount> counts;
  uint64_t offset = 0;
  while (const auto attribute = at<CubinAttribute>(attributes, offset)) {
    offset += sizeof(CubinAttribute);
    if (attribute->format != sized_attribute) continue;
    if (attribute->kind == register_count && attribute->size == sizeof(RegisterCount))
      if (const auto count = at<RegisterCount>(attributes, offset)) counts.push_back(*count);
    offset += attribute->size;
  }
  return counts;
}

}  // namespace

std::vector<std::string> imports_of(std::string_view shared) {
  std::vector<std::string> names;
  const std::vector<Elf64_Shdr> sections = sections_of(shared);
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_DYNSYM || table.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[table.sh_link];
    for (uint64_t s = 1; s < table.sh_size / sizeof(Elf64_Sym); ++s) {
      const auto symbol = at<Elf64_Sym>(shared, table.sh_offset + s * sizeof(Elf64_Sym));
      if (!symbol) break;
      if (symbol->st_shndx != SHN_UNDEF) continue;
      const uint64_t name = strings.sh_offset + symbol->st_name;
      if (name < shared.size()) names.push_back(string_of(shared, strings, symbol->st_name));
    }
  }
  return names;
}

std::optional<uint64_t> offset_of_section(std::string_view object, std::string_view name) {
  const auto section = section_of(object, name);
  return section ? std::optional<uint64_t>(section->sh_offset) : std::nullopt;
}

std::map<std::string, int> registers_of_cubin(std::string_view cubin) {
  std::map<std::string, int> registers;
  const auto info = section_of(cubin, ".nv.info");
  const std::vector<Elf64_Shdr> sections = sections_of(cubin);
  if (!info || info->sh_offset > cubin.size() || info->sh_link >= sections.size()) return registers;
  const Elf64_Shdr& symbols = sections[info->sh_link];
  if (symbols.sh_link >= sections.size()) return registers;
  for (const RegisterCount& count : register_counts(cubin.substr(info->sh_offset, info->sh_size))) {
    const uint64_t offset = symbols.sh_offset + count.symbol * sizeof(Elf64_Sym);
    if (const auto symbol = at<Elf64_Sym>(cubin, offset))
      registers[string_of(cubin, sections[symbols.sh_link], symbol->st_name)] =
          static_cast<int>(count.registers);
  }
  return registers;
}

std::string loaded_contents(std::string_view shared) {
  std::string contents;
  for (const Elf64_Shdr& section : sections_of(shared)) {
    if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_ALLOC)) continue;
    if (section.sh_offset > shared.size()) continue;
    contents += fmt::format("{} {}\n", section.sh_size, section.sh_flags);
    contents += shared.substr(section.sh_offset, section.sh_size);
  }
  return contents;
}

}  // namespace tw::codegen

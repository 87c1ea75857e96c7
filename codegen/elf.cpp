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
      if (name < shared.size())
        names.emplace_back(shared.substr(name, shared.find('\0', name) - name));
    }
  }
  return names;
}

std::optional<uint64_t> offset_of_section(std::string_view object, std::string_view name) {
  const auto header = at<Elf64_Ehdr>(object, 0);
  const std::vector<Elf64_Shdr> sections = sections_of(object);
  if (!header || header->e_shstrndx >= sections.size()) return std::nullopt;
  for (const Elf64_Shdr& section : sections) {
    const uint64_t name_at = sections[header->e_shstrndx].sh_offset + section.sh_name;
    if (name_at < object.size() &&
        object.substr(name_at, object.find('\0', name_at) - name_at) == name)
      return section.sh_offset;
  }
  return std::nullopt;
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

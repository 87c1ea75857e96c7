// SPDX-License-Identifier: Apache-2.0
#include "codegen/inspect.h"

#include <regex>

#include "base/text.h"
#include "codegen/command.h"

namespace tw::codegen {
namespace {

constexpr int64_t timeout_ns = 20'000'000'000;

/// True if a line accesses the stack at a fixed place: "0x40(%rsp)" on x86 (AT&T), "[sp, #64]" on
/// AArch64. An access with an index register does not count, because it accesses an element of an
/// array.
bool touches_stack(std::string_view line, Architecture architecture) {
  return line.find(architecture == Architecture::X86_64 ? "(%rsp)" : "[sp") !=
         std::string_view::npos;
}

bool has_vector_register(std::string_view line, Architecture architecture) {
  if (architecture == Architecture::X86_64) {
    for (const std::string_view name : {"%xmm", "%ymm", "%zmm"})
      if (line.find(name) != std::string_view::npos) return true;
    return false;
  }
  static const std::regex name("\\b[qdv][0-9]+\\b");
  return std::regex_search(line.begin(), line.end(), name);
}

}  // namespace

Result<std::string> disassemble(std::string_view object, const Target& target) {
  TW_TRY(const MemoryFile file, MemoryFile::create("object", object));
  const bool is_native = target.architecture == host_target().architecture;
  const std::string prefix = is_native                                    ? ""
                             : target.architecture == Architecture::Arm64 ? "aarch64-linux-gnu-"
                                                                          : "x86_64-linux-gnu-";
  TW_TRY(std::string text,
         run_command({prefix + "objdump", "-d", "--no-show-raw-insn", "--wide", file.path()},
                     timeout_ns));
  // The lines before this heading name a temporary file of this process.
  text.erase(0, std::min(text.find("Disassembly of section"), text.size()));
  return text;
}

int count_spills(std::string_view disassembly, Architecture architecture) {
  int spills = 0;
  while (!disassembly.empty()) {
    const size_t end = std::min(disassembly.find('\n'), disassembly.size());
    const std::string_view line = disassembly.substr(0, end);
    disassembly.remove_prefix(std::min(end + 1, disassembly.size()));
    if (touches_stack(line, architecture) && has_vector_register(line, architecture)) ++spills;
    // ldtilecfg reads the configuration of tile registers from the stack. The vector store of zeros
    // that initialises the configuration was counted above, but it is no spill.
    if (line.find("ldtilecfg") != std::string_view::npos) --spills;
  }
  return std::max(spills, 0);
}

}  // namespace tw::codegen

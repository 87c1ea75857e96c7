// SPDX-License-Identifier: Apache-2.0
#include "codegen/link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "codegen/command.h"
#include "codegen/elf.h"

namespace tw::codegen {
namespace {

std::string linker_for(const Target& target) {
  if (target.architecture == host_target().architecture) return "ld";
  return target.architecture == Architecture::Arm64 ? "aarch64-linux-gnu-ld"
                                                    : "x86_64-linux-gnu-ld";
}

/// Returns a linker version script that makes only `symbols` visible. --gc-sections then drops the
/// sections that the visible symbols do not need.
std::string version_script(const std::vector<std::string>& symbols) {
  return fmt::format("{{ global: {}; local: *; }};\n", join(symbols, "; "));
}

/// Checks that the object imports only the functions memset, memcpy, memmove and memcmp. LLVM turns
/// loops into calls of them, and the C library of every process has them.
Status check_imports(std::string_view shared) {
  constexpr std::array<std::string_view, 4> allowed = {"memset", "memcpy", "memmove", "memcmp"};
  for (const std::string& name : imports_of(shared))
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end())
      return fail(ErrorCode::Invalid,
                  fmt::format("[link] the object needs the symbol '{}': a kernel may call {} only",
                              name, fmt::join(allowed, ", ")));
  return {};
}

Error with_meaning(Error error) {
  const bool is_object = error.message.find("not defined") != std::string::npos;
  return is_object ? Error{ErrorCode::Invalid, error.message} : error;
}

}  // namespace

Result<std::string> link_shared(std::string_view object, const std::vector<std::string>& symbols,
                                const Target& target, const LinkOptions& options) {
  TW_TRY(const MemoryFile input, MemoryFile::create("object", object));
  TW_TRY(const MemoryFile script, MemoryFile::create("symbols", version_script(symbols)));
  TW_TRY(const MemoryFile output, MemoryFile::create("shared"));
  const std::string linker = options.linker.empty() ? linker_for(target) : options.linker;
  std::vector<std::string> argv = {
      linker, "-shared",     "-s", "--gc-sections",   "--build-id=none",  "-z",         "undefs",
      "-z",   "noexecstack", "-z", "noseparate-code", "--version-script", script.path()};
  for (const std::string& symbol : symbols) argv.push_back("--require-defined=" + symbol);
  argv.insert(argv.end(), {"-o", output.path(), input.path()});
  if (auto linked = run_command(argv, options.timeout_ns); !linked)
    return tl::unexpected<Error>(with_meaning(linked.error()));
  TW_TRY(std::string shared, output.content());
  if (shared.substr(0, 4) !=
      "\x7f"
      "ELF")
    return fail(ErrorCode::Environment,
                fmt::format("[{}] it ended well, but wrote {} bytes that are no ELF file: is it a "
                            "linker?",
                            linker, shared.size()));
  TW_RETURN_IF_ERROR(check_imports(shared));
  return shared;
}

}  // namespace tw::codegen

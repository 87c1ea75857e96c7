// SPDX-License-Identifier: Apache-2.0
#pragma once
// Links relocatable objects to shared objects, by the system's linker in a process of its own.
// Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

struct LinkOptions {
  /// The linker: a path, or a name that is searched on PATH. Empty: "ld", or "aarch64-linux-gnu-ld"
  /// if the target is not this machine's architecture.
  std::string linker;
  int64_t timeout_ns = 20'000'000'000;
};

/// Returns the bytes of a shared object that exports the functions `symbols` of `object`, and
/// contains only what these need. Environment: there is no linker, or it failed, crashed, hung or
/// wrote no ELF file; the message ends with the linker's output. Invalid: the object lacks one of
/// the symbols, or imports a symbol other than memset, memcpy, memmove and memcmp.
Result<std::string> link_shared(std::string_view object, const std::vector<std::string>& symbols,
                                const Target& target, const LinkOptions& options = {});

}  // namespace tw::codegen

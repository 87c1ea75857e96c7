// SPDX-License-Identifier: Apache-2.0
#pragma once
// Links a relocatable object to a shared object, by the system's linker in a process of its own.
// Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

struct LinkOptions {
  /// The linker: a path, or a name that is searched for on PATH. If empty, it is "ld", or a cross
  /// linker such as "aarch64-linux-gnu-ld" if the target is not this machine's architecture.
  std::string linker;
  int64_t timeout_ns = 20'000'000'000;
};

/// Links `object` and returns the bytes of a shared object. It exports the functions that `symbols`
/// names, and contains only the code and data that these functions need.
///
/// Fails with Environment if there is no linker, or if it failed, crashed, exceeded its time or
/// wrote no ELF file; the message ends with the linker's output. Fails with Invalid if the object
/// lacks one of the symbols, or imports a symbol other than memset, memcpy, memmove and memcmp.
Result<std::string> link_shared(std::string_view object, const std::vector<std::string>& symbols,
                                const Target& target, const LinkOptions& options = {});

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Relocatable objects -> shared objects, by the system's linker in a process of its own.
// Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

struct LinkOptions {
  /// A path or a name that is searched on PATH; empty: "ld", or "aarch64-linux-gnu-ld" when the
  /// target is not this machine's architecture.
  std::string linker;
  int64_t timeout_ns = 20'000'000'000;
};

/// The bytes of a shared object that exports `symbols` of `object` and carries nothing that these
/// do not need. Environment: there is no linker, or it failed, crashed, hung or wrote no ELF file;
/// the message ends with what it printed. Invalid: the object misses a symbol, or imports one other
/// than memset, memcpy, memmove and memcmp.
Result<std::string> link_shared(std::string_view object, const std::vector<std::string>& symbols,
                                const Target& target, const LinkOptions& options = {});

}  // namespace tw::codegen

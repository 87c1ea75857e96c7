// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets the hint of prefetch instructions, because Halide's hint is wrong for the step `prefetch`.
// Halide 21 emits `llvm.prefetch` with locality 0, the hint for data that is used once
// (`prefetchnta` on x86). A prefetch with this hint brings the line only to L1, and on Zen the line
// is lost when L1 evicts it. But the step `prefetch` requests lines long before they are read: it
// requests the next panel of weights, which is as large as L1. Thread-safe.

#include <string>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

/// Returns the relocatable object with each `prefetchnta` replaced by `prefetcht0`, which fills all
/// levels of cache. Objects for architectures other than x86-64 are returned unchanged. The
/// instructions are found by disassemble() (codegen/inspect.h); its errors are returned. Fails with
/// Internal if the disassembly does not agree with the object.
Result<std::string> with_temporal_prefetches(std::string object, const Target& target);

}  // namespace tw::codegen

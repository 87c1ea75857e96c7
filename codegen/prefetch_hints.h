// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets the hint of prefetch instructions. Halide 21 emits `llvm.prefetch` with locality 0, the hint
// for data that is used once (on x86 `prefetchnta`). Such a prefetch brings the line only to L1,
// and on Zen the line is lost when L1 evicts it. But the step `prefetch` requests lines long before
// they are read: the lines of the next panel of weights, which is as large as L1. Thread-safe.

#include <string>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

/// Returns the relocatable object with each `prefetchnta` replaced by `prefetcht0`, which fills all
/// levels of cache. The two instructions differ in one bit. Objects for architectures other than
/// x86-64 are returned unchanged. Errors as disassemble() (codegen/inspect.h).
Result<std::string> with_temporal_prefetches(std::string object, const Target& target);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets the hint of prefetch instructions. Halide 21 gives its prefetches the hint of data that is
// used once (`llvm.prefetch` with locality 0, on x86 `prefetchnta`). A line then goes to L1 alone,
// and on Zen it is gone when L1 evicts it. The step `prefetch` requests lines long before they are
// read: those of the next panel of weights, which has the size of L1. Thread-safe.

#include <string>

#include "base/result.h"
#include "base/target.h"

namespace tw::codegen {

/// The relocatable object with `prefetcht0`, which fills all levels of cache, in place of each
/// `prefetchnta`. The two differ in one bit. Unchanged for other architectures than x86-64. Errors
/// as disassemble() (codegen/inspect.h).
Result<std::string> with_temporal_prefetches(std::string object, const Target& target);

}  // namespace tw::codegen

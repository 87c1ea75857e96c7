// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings all threads of a pool into a running state before something is timed on them. A thread
// that has slept runs only after the system has woken it, which takes 50 us or more in a virtual
// machine, and after another process on its core has used up its time slice. Until then the caller
// runs the tasks of that thread too, so that a kernel would be timed on fewer threads.

#include <cstdint>

#include "runtime/thread_pool.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// A few time slices: beside one other process on its core, a thread waits for a slice of 3 or
/// 4 ms.
inline constexpr int64_t usual_patience_ns = 20'000'000;

/// Returns when `threads` threads of the pool run at the same time on cores of their own, or when
/// the patience has passed. Only the calling thread reads the clock.
void gather(runtime::ThreadPool& pool, int threads, const Clock& clock,
            int64_t patience_ns = usual_patience_ns);

}  // namespace tw::tuner

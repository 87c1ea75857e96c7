// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings the threads of a pool together before something is timed on all of them. A thread that has
// slept does not run before the system has woken it, which takes 50 us and more in a virtual
// machine, and not before another process on its core has used up its time slice. Until then the
// caller runs the tasks of that thread too, so that a kernel would be timed on fewer threads.

#include <cstdint>

#include "runtime/thread_pool.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// A few time slices: with one other process on a core, a thread waits for one of 3 or 4 ms.
inline constexpr int64_t usual_patience_ns = 20'000'000;

/// Returns once `threads` threads of the pool run at the same time on cores of their own, or when
/// the patience is used up. The clock is read by the calling thread only.
void gather(runtime::ThreadPool& pool, int threads, const Clock& clock,
            int64_t patience_ns = usual_patience_ns);

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads of a task, as a GPU's block has them: thread loops that directly contain each other are a
// nest, and its iterations are numbered row by row. Statements outside of nests are done once, by
// thread 0; loops and conditions outside of nests are the same for all threads.
//
//   a@c: shared f32[8, 64]
//   for k.0 in 0..32
//     thread t in 0..256: a@c[...] = ...        # each of 256 threads an element or two
//     barrier
//     thread i in 0..16: thread j in 0..16: ... # the same 256, numbered i * 16 + j
//     barrier
//
// All functions are pure and thread-safe.

#include <map>
#include <string>
#include <vector>

#include "base/machine.h"
#include "base/result.h"
#include "schedules/program.h"

namespace tw::schedules {

struct Limits;

/// The thread loops from `loop` inwards: what numbers the threads in its body.
struct ThreadNest {
  std::vector<const Loop*> loops;  ///< outermost first; the body of the last has no thread loop
  int64_t threads() const;
};
/// Requires: a thread loop.
ThreadNest thread_nest(const Loop& loop);

bool has_threads(const Block& body);
/// Whether there is a Reduce loop, in which all threads may take part.
bool has_reductions(const Block& body);
/// Of the largest nest; 1 where there is none.
int64_t threads_of(const Block& body);

/// Of each buffer of a thread's own that is allocated outside of nests: the dimensions that the
/// thread's number indexes. What is left of its extents, each thread holds.
using NumberedDimensions = std::map<std::string, std::vector<size_t>>;
NumberedDimensions numbered_dimensions(const Block& body);

/// In GPUs' shared memory a buffer begins at a multiple of this: vector accesses are of as many.
inline constexpr int64_t shared_alignment = 16;
/// Beyond, a launch asks for shared memory, from a multiple of the second on, after what is fixed.
inline constexpr int64_t most_static_shared_bytes = 48 << 10, dynamic_alignment = 1024;
/// Bytes of the buffers that all threads of a task see, and of the barriers of bulk copies: no less
/// than a kernel has.
int64_t shared_bytes(const Block& body);
/// Bytes of the buffers of one thread, which registers hold where the compiler can.
int64_t thread_bytes(const Block& body);

/// With a barrier wherever a nest touches a buffer that others see (shared, scratch, arguments),
/// another has touched it since the last barrier, and one of them writes; but not where the two are
/// proved to be in different slots of a pipeline.
Block place_barriers(const Block& body);

/// With If::uniform and Guard::uniform set wherever that is proved: the condition depends neither
/// on what numbers the threads, nor on loops whose iterations differ between them, nor on a
/// thread's own buffers.
Block mark_uniform(const Block& body);

/// Nests are perfect and within the limits; a thread's own buffers are indexed by its number, and
/// the same in each nest; conditions that are marked uniform are; no barrier is missing. What
/// cannot be proved is ErrorCode::Invalid.
Status check_threads(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules

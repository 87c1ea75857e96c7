// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads of a task, as a GPU's block has them. Thread loops that directly contain each other are a
// nest, whose iterations are numbered row by row. Thread 0 executes statements outside of nests;
// loops and conditions outside of nests are the same for all threads.
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
#include "schedules/program/program.h"

namespace tw::schedules {

struct Limits;

/// The thread loops from `loop` inwards, which number the threads in its body.
struct ThreadNest {
  std::vector<const Loop*> loops;  ///< outermost first; the body of the last has no thread loop
  int64_t threads() const;
};
/// Requires: a thread loop.
ThreadNest thread_nest(const Loop& loop);

bool has_threads(const Block& body);
/// True if there is a Reduce loop, in which all threads may take part.
bool has_reductions(const Block& body);
/// Number of threads of the largest nest; 1 if there is none.
int64_t threads_of(const Block& body);

/// For each private buffer that is allocated outside of nests, the dimensions that are indexed by
/// the thread's number. Each thread holds the remaining dimensions.
using NumberedDimensions = std::map<std::string, std::vector<size_t>>;
NumberedDimensions numbered_dimensions(const Block& body);

/// Alignment in bytes of a buffer in shared memory of GPUs: that of the widest vector access.
inline constexpr int64_t shared_alignment = 16;
/// Largest size of static shared memory, in bytes. More is requested by the launch; this dynamic
/// memory follows the static one, at a multiple of the second constant.
inline constexpr int64_t most_static_shared_bytes = 48 << 10, dynamic_alignment = 1024;
/// Upper bound on the shared memory of a kernel: bytes of the buffers that all threads of a task
/// see, and of the mbarriers of TMA copies.
int64_t shared_bytes(const Block& body);
/// Bytes of the private buffers of one thread; the compiler keeps them in registers if it can.
int64_t thread_bytes(const Block& body);

/// The body with the barriers that it needs: one wherever a nest accesses a buffer that other
/// threads see (shared, scratch, arguments), another nest has accessed it since the last barrier,
/// and one of them writes; unless both are proved to access different slots of a pipeline, or each
/// element is proved to be accessed once, as those of an output are. If accesses before a loop
/// alone make a barrier necessary, it stands before the loop.
Block place_barriers(const Block& body);

/// The body with If::uniform and Guard::uniform set wherever that can be proved: the condition
/// depends neither on variables that number the threads, nor on loops whose iterations differ
/// between threads, nor on private buffers.
Block mark_uniform(const Block& body);

/// Checks that nests are perfect and within the limits, that private buffers are indexed by the
/// thread's number in the same way in each nest, that conditions marked uniform are so, and that no
/// barrier is missing. Fails with ErrorCode::Invalid if that cannot be proved.
Status check_threads(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules

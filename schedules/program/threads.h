// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads of a task, which on a GPU are the threads of a block. Thread loops that directly contain
// each other are a nest. The threads of a nest are its iterations, numbered row by row. All threads
// run the loops and conditions outside of nests. Thread 0 alone runs the other statements there,
// such as assignments.
//
//   a@c: shared f32[8, 64]
//   for k.0 in 0..32
//     thread t in 0..256: a@c[...] = ...        # each of 256 threads copies two elements
//     barrier
//     thread i in 0..16: thread j in 0..16: ... # the same 256 threads, numbered i * 16 + j
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

/// The thread loops of one nest, from `loop` inwards. Together they number the threads.
struct ThreadNest {
  std::vector<const Loop*> loops;  ///< outermost first
  int64_t threads() const;
};
/// Returns the nest that begins with `loop`. Requires: `loop` is a thread loop.
ThreadNest thread_nest(const Loop& loop);

bool has_threads(const Block& body);
/// True if the body has a Reduce loop. The threads of a warp may share its iterations.
bool has_reductions(const Block& body);
/// Returns the number of threads that the body needs: the largest product of the extents of a nest
/// of thread loops. If there are no thread loops, returns the threads of a warp if a warp can share
/// the iterations of the Reduce loops, and 1 otherwise. The warp can share them if they are in no
/// other loop or condition, and read only buffers that the body does not write.
int64_t threads_of(const Block& body);

/// For each private buffer that is allocated outside of nests, the dimensions whose index is the
/// variable of a thread loop. Each thread has the elements of the other dimensions for itself. For
/// threads i and j that access acc: register f32[16, 16, 4] as acc[i, j, e], the dimensions are {0,
/// 1}, and a thread has 4 elements.
using NumberedDimensions = std::map<std::string, std::vector<size_t>>;
NumberedDimensions numbered_dimensions(const Block& body);

/// Alignment in bytes of a buffer in shared memory of a GPU: the size of the widest vector access.
inline constexpr int64_t shared_alignment = 16;
/// Largest size of static shared memory, in bytes. If a kernel needs more, the launch requests
/// dynamic shared memory, which follows the static memory at a multiple of `dynamic_alignment`.
inline constexpr int64_t most_static_shared_bytes = 48 << 10, dynamic_alignment = 1024;
/// Returns an upper bound of the shared memory of a kernel, in bytes: its Shared buffers, and the
/// mbarriers of TMA copies.
int64_t shared_bytes(const Block& body);
/// Returns the number of bytes of the private buffers of one thread. The compiler keeps them in
/// registers if it can.
int64_t thread_bytes(const Block& body);

/// Returns the body with the barriers that it needs. A nest needs a barrier before it if all of
/// these hold: the nest accesses a buffer that other threads see (shared, scratch, arguments);
/// another nest has accessed the buffer since the last barrier; at least one of the two nests
/// writes it. A statement that thread 0 runs alone counts as a nest. There are two exceptions: both
/// nests are proved to access different slots of a pipeline, or each element is proved to be
/// accessed only once, as elements of an output are. If a barrier inside of a loop would be needed
/// only because of accesses before the loop, it is placed before the loop.
Block place_barriers(const Block& body);

/// Sets If::uniform and Guard::uniform wherever they can be proved. A condition is uniform if it
/// depends on none of these: variables that number the threads, loops whose iterations differ
/// between threads, and private buffers.
Block mark_uniform(const Block& body);

/// Checks the threads of a phase. Nests must be perfect and within the limits. The shared memory of
/// a task and the private memory of a thread must be within the limits too. In each nest, the same
/// dimensions of a private buffer must be indexed by the same thread variables. Conditions that are
/// marked uniform must be uniform, and no barrier may be missing. Fails with ErrorCode::Invalid if
/// this cannot be proved.
Status check_threads(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules

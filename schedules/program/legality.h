// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks that a Program is legal before anything is compiled. A program whose legality cannot be
// proved is illegal.

#include <limits>

#include "base/result.h"
#include "base/target.h"
#include "schedules/program/program.h"

namespace tw::schedules {

struct Limits {
  /// largest number of statements of one phase after unrolling; larger phases take seconds to
  /// compile
  int64_t unrolled_statements = 2048;
  int64_t local_bytes = 1 << 20;    ///< stack of a task that has no threads
  int64_t threads = 1024;           ///< threads of one task
  int64_t shared_bytes = 48 << 10;  ///< memory that the threads of a task share
  /// most threads that a multiprocessor of a GPU can run at once
  int64_t resident_threads = std::numeric_limits<int64_t>::max();
  int64_t thread_bytes = 4 << 10;  ///< memory of one thread, in registers or on its stack
  /// 80 for sm_80; 0 if the target is no CUDA GPU, so that tensor tiles run as plain loops
  int gpu_architecture = 0;
  bool is_gpu = false;                 ///< true for CUDA and OpenCL, which have no core tiles
  bool architecture_specific = false;  ///< true for sm_90a, which has more instructions than sm_90
};

/// Returns the number of the target's CUDA architecture: 90 for "sm_90a"; 0 for other targets.
int gpu_architecture(const Target& target);
/// True if the target has cp.async, as GPUs from sm_80 on do. On other GPUs copies to shared memory
/// pass through registers, and threads wait for them.
bool copies_asynchronously(const Target& target);

/// Returns the limits of a target. For a GPU they are those of one block of threads.
Limits limits_of(const Target& target);

/// The largest number of unrolled statements of one phase that a search considers on a CPU. Code
/// generation takes a third of a millisecond per statement. On Zen 4, register tiles of up to 28
/// accumulators cause no register spills below about 400 statements.
inline constexpr int64_t most_statements_searched = 256;
/// As most_statements_searched, for GPUs. The limit allows four multiply-adds for each of 128
/// accumulators of a thread, which are 512 statements, and another 512 statements that initialise,
/// load and store the tile.
inline constexpr int64_t most_gpu_statements_searched = 1024;
/// Returns the limits of the target, with the smaller number of unrolled statements that a search
/// considers.
Limits limits_searched(const Target& target);

/// Proves that a program is legal:
///   - every access is inside its buffer for all iterations, and has the buffer's type,
///   - vector loops are innermost or a dot product (dot_products.h), and all loops but serial ones
///     have literal bounds,
///   - pipelines have the form that program.h describes,
///   - tensor tiles, TMA copies and specialised phases have the forms that tensor_tiles.h,
///     core_tiles.h, tma_copies.h and specialised.h describe,
///   - a barrier separates any two accesses of different threads to one element if one of the
///     accesses is a store (threads.h), and
///   - sizes are within limits.
/// The error (ErrorCode::Invalid) shows the statement; if a size is too large, it names the stage.
Status check_legal(const Program& program, const Limits& limits = {});

/// The address of each local buffer of a task is a multiple of this number of bytes.
inline constexpr int64_t buffer_alignment = 64;
/// Returns the number of bytes on the stack that the local buffers of the body need.
int64_t stack_bytes(const Block& body);

/// Returns the error of a phase that unrolls to more statements than the limits allow.
tl::unexpected<Error> too_large(const std::string& phase, const Limits& limits);

/// Returns the number of assignments and of prefetched lines in the body after unrolling.
/// Iterations of a serial loop are not counted separately. An assignment with a guard counts twice.
int64_t unrolled_statements(const Block& body);

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Legality of a Program, decided before anything is compiled. What cannot be proved is illegal.

#include "base/result.h"
#include "base/target.h"
#include "schedules/program.h"

namespace tw::schedules {

struct Limits {
  int64_t unrolled_statements = 2048;  ///< of one phase; beyond, compiling takes seconds
  int64_t local_bytes = 256 << 10;     ///< of one task's stack, where it has no threads
  int64_t threads = 1024;              ///< of one task
  int64_t shared_bytes = 48 << 10;     ///< between the threads of a task
  int64_t thread_bytes = 4 << 10;      ///< of one thread, in registers or on its stack
  int gpu_architecture = 0;            ///< 80: sm_80; 0: tensor tiles run as loops, any does
  bool architecture_specific = false;  ///< sm_90a, which has more than sm_90
};

/// 90 of "sm_90a"; 0 of targets that are no GPUs of CUDA.
int gpu_architecture(const Target& target);
/// Before sm_80 copies into shared memory pass through registers, and threads wait for them.
bool copies_asynchronously(const Target& target);

/// Those of a target: blocks of GPUs have theirs.
Limits limits_of(const Target& target);

/// Unrolled statements of one phase, at most, in what a search builds. Code generation takes a
/// third of a millisecond for each, and on Zen 4 tiles of up to 28 accumulators stay free of spills
/// below about 400.
inline constexpr int64_t most_statements_searched = 256;
/// The same for GPUs: a tile of 128 sums four times, and what clears, fetches and writes it.
inline constexpr int64_t most_gpu_statements_searched = 1024;
/// Those of the target, and no more statements than a search builds.
Limits limits_searched(const Target& target);

/// Every access is inside its buffer for all iterations and of its type; vector loops are innermost
/// with literal bounds; pipelines are as program.h says; threads of a task keep out of each other's
/// way (threads.h); sizes are within limits. The error (ErrorCode::Invalid) shows the statement.
Status check_legal(const Program& program, const Limits& limits = {});

/// The error of a phase that unrolls to more statements than the limits allow.
tl::unexpected<Error> too_large(const std::string& phase, const Limits& limits);

/// Assignments of the body after unrolling, each counted once whatever serial loops surround it,
/// and twice where it has a guard.
int64_t unrolled_statements(const Block& body);

}  // namespace tw::schedules

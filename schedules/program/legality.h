// SPDX-License-Identifier: Apache-2.0
#pragma once
// Legality of a Program, decided before anything is compiled. A program whose legality cannot be
// proved is illegal.

#include "base/result.h"
#include "base/target.h"
#include "schedules/program/program.h"

namespace tw::schedules {

struct Limits {
  int64_t unrolled_statements = 2048;  ///< limit of one phase; larger ones compile for seconds
  int64_t local_bytes = 1 << 20;       ///< stack of one task without threads
  int64_t threads = 1024;              ///< threads of one task
  int64_t shared_bytes = 48 << 10;     ///< memory shared by the threads of a task
  int64_t thread_bytes = 4 << 10;      ///< memory of one thread, in registers or on its stack
  int gpu_architecture = 0;            ///< 80: sm_80; 0: no CUDA GPU, any tensor tile runs as loops
  bool is_gpu = false;                 ///< of CUDA or OpenCL, where no tile of a core runs
  bool architecture_specific = false;  ///< sm_90a, which has more than sm_90
};

/// The number of the target's architecture: 90 for "sm_90a"; 0 for targets that are no CUDA GPUs.
int gpu_architecture(const Target& target);
/// True if the target has cp.async. Before sm_80 copies to shared memory pass through registers,
/// and threads wait for them.
bool copies_asynchronously(const Target& target);

/// Limits of a target. A GPU's block has its own.
Limits limits_of(const Target& target);

/// Largest number of unrolled statements of one phase in candidates of a search. Code generation
/// takes a third of a millisecond for each, and on Zen 4 tiles of up to 28 accumulators have no
/// spills below about 400 statements.
inline constexpr int64_t most_statements_searched = 256;
/// The same for GPUs: four multiply-adds for each of 128 accumulators of a thread, and the
/// statements that initialise, load and store its tile.
inline constexpr int64_t most_gpu_statements_searched = 1024;
/// Limits of the target, with the number of statements that a search allows.
Limits limits_searched(const Target& target);

/// Every access is inside its buffer for all iterations and of its type; vector loops are innermost
/// with literal bounds; pipelines are as program.h says; threads of a task keep out of each other's
/// way (threads.h); sizes are within limits. The error (ErrorCode::Invalid) shows the statement.
Status check_legal(const Program& program, const Limits& limits = {});

/// Each local buffer of a task begins at a multiple of this.
inline constexpr int64_t buffer_alignment = 64;
/// Bytes of the stack that the local buffers of the body take.
int64_t stack_bytes(const Block& body);

/// The error of a phase that unrolls to more statements than the limits allow.
tl::unexpected<Error> too_large(const std::string& phase, const Limits& limits);

/// Assignments of the body after unrolling, each counted once whatever serial loops surround it,
/// and twice where it has a guard.
int64_t unrolled_statements(const Block& body);

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who does what in a kernel, decided before a line of it is printed:
//
//   all threads     barriers, commits, waits, and the loops and conditions around nests
//   a nest          the threads that its loops number
//   the first warp  reductions, where the dialect has shuffles
//   thread 0        all other statements, and TMA copies
//   producers       TMA copies of a specialised phase, by warps that follow the others
//
// and where shared memory and the mbarriers of TMA copies lie. Pure functions and plain values;
// thread-safe.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/gpu/dialects.h"
#include "runtime/devices/tensor_map.h"
#include "schedules/program/program.h"
#include "schedules/program/tma_copies.h"

namespace tw::codegen {

/// The buffer of that name: an argument, scratch, or one that the phase allocates.
using FindBuffer = std::function<const schedules::Buffer&(const std::string& name)>;

struct SharedArray {
  schedules::Buffer buffer;
  int64_t alignment = 0;
  int64_t offset = 0;  ///< in dynamic shared memory, where it is dynamic
};

struct BoxCopy {
  schedules::TmaCopy copy;
  size_t map = 0;  ///< index into KernelPlan::maps
};

struct KernelPlan {
  int64_t threads = 1;            ///< threads of the body, producers excluded
  bool reduces_in_warps = false;  ///< the first warp shares the iterations of a reduction
  bool runs_warpgroups = false;   ///< some tiles are instructions of warpgroups
  bool has_cp_async = false;      ///< commits and waits order asynchronous copies by threads
  bool has_producers = false;
  bool is_persistent = false;  ///< a block runs several tasks, as its producers let it
  /// Arrays that all threads see, by decreasing period of their swizzle: as an array's size is a
  /// multiple of its period, each ends where the next one is aligned. Siblings of one name are one
  /// array.
  std::vector<SharedArray> shared;
  int64_t shared_bytes = 0;   ///< of the arrays and mbarriers
  int64_t dynamic_bytes = 0;  ///< of the arrays, if these are dynamic
  /// TMA copies, their tensor maps, and the number of mbarriers: of commit groups in flight. Group
  /// n signals mbarrier n % mbarriers, and n / mbarriers % 2 is the parity of the phase to wait
  /// for.
  std::vector<BoxCopy> boxes;
  std::vector<runtime::TensorMap> maps;
  int64_t mbarriers = 0;

  bool is_shared(const std::string& name) const;
};

KernelPlan plan_kernel(const schedules::Program& program, const schedules::Phase& phase,
                       const DialectRow& dialect, const FindBuffer& buffer);

bool is_global(schedules::Scope scope);
/// A shared buffer without a thread loop in its scope is private to thread 0.
bool is_shared(const schedules::Allocate& allocate);

/// True if all threads of the block execute the statement; else thread 0 executes it alone.
bool concerns_all(const schedules::Stmt& stmt, const KernelPlan& plan);

/// True if the copy, which the program allows to be asynchronous, can be: cp.async copies 4 bytes
/// or more from global to shared memory.
bool is_asynchronous(const schedules::Assign& assign, int64_t bytes, const KernelPlan& plan,
                     const DialectRow& dialect, const FindBuffer& buffer);

/// True for the outermost loop of a warpgroup's tile.
bool is_warpgroup_tile(const schedules::Stmt& stmt);
/// True for loops that contain tiles of warpgroups and nothing else.
bool is_warpgroup_tiles(const schedules::Loop& loop);
/// Index of a nest of warpgroup instructions that may be issued before the statements from `i` to
/// the nest, which are the copies of a pipeline; `i` if there is none. Legality has proved that no
/// barrier is needed between the two, so the copies write no element that the nest reads; and this
/// function checks that they access no accumulators.
size_t warpgroups_ahead(const schedules::Block& block, size_t i, const KernelPlan& plan,
                        const FindBuffer& buffer);

/// Registers of one thread. At the start all threads have equal shares of the multiprocessor's
/// registers; producers keep a quarter of theirs, and consumers share what is released. Whole
/// warpgroups move registers in steps of 8 and keep at least 24 (PTX ISA, "setmaxnreg"). nullopt:
/// the shares stay equal.
struct MovedRegisters {
  int64_t producer, consumer;
};
std::optional<MovedRegisters> moved_registers(int64_t consumer_threads);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The roles of the threads of a kernel, which are decided before the kernel is printed:
//
//   all threads     barriers, commits, waits, and the loops and conditions around nests
//   a nest          the threads that its loops number
//   the first warp  reductions, where the dialect has shuffles
//   thread 0        all other statements, and TMA copies
//   producers       TMA copies of a specialised phase, by warps that follow the others
//
// The plan also places the arrays of shared memory and the mbarriers of TMA copies. Pure functions
// and plain values; thread-safe.

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

/// Returns the buffer of a name: an argument, a scratch buffer, or a buffer that the phase
/// allocates.
using FindBuffer = std::function<const schedules::Buffer&(const std::string& name)>;

struct SharedArray {
  schedules::Buffer buffer;
  int64_t alignment = 0;
  int64_t offset = 0;  ///< offset in dynamic shared memory; unused if the array is static
};

struct BoxCopy {
  schedules::TmaCopy copy;
  size_t map = 0;  ///< index into KernelPlan::maps
};

struct KernelPlan {
  int64_t threads = 1;            ///< threads of a block, without producers
  bool reduces_in_warps = false;  ///< true if the first warp shares the iterations of a reduction
  bool runs_warpgroups = false;   ///< true if some tiles are instructions of warpgroups
  bool has_cp_async = false;  ///< true if commits and waits order asynchronous copies by threads
  bool has_producers = false;
  /// True if a block runs several tasks, which only phases with producers do.
  bool is_persistent = false;
  /// The arrays in shared memory, by decreasing period of their swizzle. The size of an array is a
  /// multiple of its period, so each array ends where the next one is aligned. Arrays of one name
  /// in sibling blocks of statements are one array.
  std::vector<SharedArray> shared;
  int64_t shared_bytes = 0;   ///< size of the arrays and mbarriers
  int64_t dynamic_bytes = 0;  ///< size of the arrays if they are dynamic, else 0
  /// The TMA copies, their tensor maps, and the number of mbarriers. The number is that of commit
  /// groups in flight: group n signals mbarrier n % mbarriers, and n / mbarriers % 2 is the parity
  /// of the phase to wait for.
  std::vector<BoxCopy> boxes;
  std::vector<runtime::TensorMap> maps;
  int64_t mbarriers = 0;

  bool is_shared(const std::string& name) const;
};

KernelPlan plan_kernel(const schedules::Program& program, const schedules::Phase& phase,
                       const DialectRow& dialect, const FindBuffer& buffer);

bool is_global(schedules::Scope scope);
/// True if all threads see the buffer. A shared buffer without a thread loop in its scope is
/// private to thread 0.
bool is_shared(const schedules::Allocate& allocate);

/// True if all threads of the block execute the statement; else thread 0 executes it alone.
bool concerns_all(const schedules::Stmt& stmt, const KernelPlan& plan);

/// True if a copy that the program allows to be asynchronous is asynchronous: cp.async copies at
/// least 4 bytes from global to shared memory.
bool is_asynchronous(const schedules::Assign& assign, int64_t bytes, const KernelPlan& plan,
                     const DialectRow& dialect, const FindBuffer& buffer);

/// True for the outermost loop of a warpgroup's tile.
bool is_warpgroup_tile(const schedules::Stmt& stmt);
/// True for loops that contain only tiles of warpgroups.
bool is_warpgroup_tiles(const schedules::Loop& loop);
/// Returns the index in the block of a nest of warpgroup instructions that may be issued before the
/// statements from `i` up to the nest, which are the copies of a pipeline; `i` if there is no such
/// nest. Legality has proved that no barrier is needed between the copies and the nest, so the
/// copies write no element that the nest reads. This function checks that they access no
/// accumulators.
size_t warpgroups_ahead(const schedules::Block& block, size_t i, const KernelPlan& plan,
                        const FindBuffer& buffer);

/// Registers of one producer thread and of one consumer thread. At the start all threads have equal
/// shares of the multiprocessor's registers. Producers keep a quarter of their share, and consumers
/// divide what producers release. Whole warpgroups move registers in steps of 8, and keep at least
/// 24 (PTX ISA, "setmaxnreg"). moved_registers() is nullopt if the shares stay equal.
struct MovedRegisters {
  int64_t producer, consumer;
};
std::optional<MovedRegisters> moved_registers(int64_t consumer_threads);

}  // namespace tw::codegen

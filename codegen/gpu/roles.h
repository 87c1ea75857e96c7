// SPDX-License-Identifier: Apache-2.0
#pragma once
// The roles of a kernel's threads. They are decided before the kernel is printed. This table shows
// who executes which statements. A nest is a nest of thread loops (schedules/program/program.h).
//
//   all threads        barriers, commits, waits, and the loops and conditions around nests
//   threads of a nest  the statements of the nest, whose loops number these threads
//   the first warp     reductions, if the dialect has shuffles
//   thread 0           all other statements, and TMA copies
//   producers          TMA copies of a specialised phase; producers are additional warps, whose
//                      threads have the highest numbers
//
// The plan also places the arrays in shared memory and the mbarriers of TMA copies. Pure functions
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

/// A function that returns the buffer with this name: an argument, a scratch buffer, or a buffer
/// that the phase allocates.
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
  bool has_cp_async =
      false;  ///< true if threads make copies by cp.async, which commits and waits order
  bool has_producers = false;
  /// True if a block runs several tasks. Only phases with producers have such blocks.
  bool is_persistent = false;
  /// The arrays in shared memory, those with the widest swizzle first. An array begins at a
  /// multiple of the period of its swizzle, and its size is a multiple of the period too. The
  /// period of the next array is not longer, so no gaps are needed for swizzles. Buffers of the
  /// same name in sibling blocks of statements share one array.
  std::vector<SharedArray> shared;
  int64_t shared_bytes = 0;   ///< size of the arrays and mbarriers
  int64_t dynamic_bytes = 0;  ///< size of the arrays if they are dynamic, else 0
  /// The TMA copies, their tensor maps, and the number of mbarriers that report their arrival.
  /// There is an mbarrier for each commit group that may be in flight. The copies of commit group n
  /// arrive at mbarrier n % mbarriers. Threads that wait for the group pass the parity
  /// n / mbarriers % 2 to mbarrier.try_wait. Example with 4 mbarriers: group 6 uses mbarrier 2 and
  /// parity 1.
  std::vector<BoxCopy> boxes;
  std::vector<runtime::TensorMap> maps;
  int64_t mbarriers = 0;

  bool is_shared(const std::string& name) const;
};

KernelPlan plan_kernel(const schedules::Program& program, const schedules::Phase& phase,
                       const DialectRow& dialect, const FindBuffer& buffer);

bool is_global(schedules::Scope scope);
/// True if the allocation is in memory that all threads of the block share. A Shared buffer is
/// private to thread 0 if the body of its allocation has no thread loop.
bool is_shared(const schedules::Allocate& allocate);

/// True if all threads of the block execute the statement, false if thread 0 executes it alone.
bool concerns_all(const schedules::Stmt& stmt, const KernelPlan& plan);

/// True if a copy of `bytes` bytes is made by cp.async. This instruction copies at least 4 bytes,
/// from global to shared memory. The program must also allow the assignment to be asynchronous
/// (Assign::asynchronous).
bool is_asynchronous(const schedules::Assign& assign, int64_t bytes, const KernelPlan& plan,
                     const DialectRow& dialect, const FindBuffer& buffer);

/// True if the statement is the outermost loop of a tensor tile that a warpgroup computes.
bool is_warpgroup_tile(const schedules::Stmt& stmt);
/// True if the loop contains nothing but tensor tiles that warpgroups compute.
bool is_warpgroup_tiles(const schedules::Loop& loop);
/// Looks in `block`, from statement `i` on, for a nest of warpgroup instructions that may be issued
/// early: before the statements from `i` up to the nest. These statements are the copies of a
/// pipeline, and the instructions then run while the threads copy. Returns the index of the nest in
/// the block, or `i` if no nest may be issued early.
///
/// Legality has proved that no barrier is needed between the copies and the nest, so the copies
/// write no element that the nest reads. This function checks that the copies access no
/// accumulators.
size_t warpgroups_ahead(const schedules::Block& block, size_t i, const KernelPlan& plan,
                        const FindBuffer& buffer);

/// Registers of one producer thread and of one consumer thread after registers were moved from
/// producers to consumers. At first all threads of the phase's resident blocks have equal shares of
/// the multiprocessor's registers. Then each producer keeps a quarter of its share, and the
/// consumers divide the rest. Only whole warpgroups can move registers. The number of registers of
/// a thread is a multiple of 8, and at least 24 (PTX ISA, "setmaxnreg"). Example: 256 consumers and
/// 128 producers begin with 168 registers each; in the end a consumer has 232 and a producer 40.
///
/// moved_registers() returns nullopt if registers cannot be moved in this way.
struct MovedRegisters {
  int64_t producer, consumer;
};
std::optional<MovedRegisters> moved_registers(int64_t consumer_threads, int64_t resident_blocks);

}  // namespace tw::codegen

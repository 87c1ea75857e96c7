// SPDX-License-Identifier: Apache-2.0
#pragma once
// GpuPhaseWalk walks through one phase of a kernel for a GPU and gathers the facts of the phase
// (gpu_facts.h). Two files implement the class: gpu_phase_walk.cpp has the walk, sections and
// totals; gpu_accesses.cpp has the accesses of warps, and the traffic that follows from them.
// Private to the cost model. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/facts/access.h"
#include "cost_model/facts/gpu_facts.h"
#include "cost_model/facts/iteration_space.h"
#include "cost_model/facts/occupancy.h"
#include "cost_model/facts/operations.h"
#include "cost_model/facts/warp_accesses.h"
#include "schedules/program/legality.h"
#include "schedules/program/specialised.h"
#include "schedules/program/tensor_tiles.h"
#include "schedules/program/threads.h"
#include "schedules/program/tma_copies.h"

namespace tw::cost_model::facts {

using dsl::Expr;
using schedules::Allocate;
using schedules::Assign;
using schedules::Barrier;
using schedules::Block;
using schedules::Buffer;
using schedules::Commit;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Program;
using schedules::Scope;
using schedules::Stmt;
using schedules::Wait;

inline constexpr double register_bytes = 4;

// Numbers of integer instructions. A condition costs two, compare and branch, each time that it is
// tested. An iteration of a serial loop costs one on average: the compiler unrolls the loop, and
// several iterations share the three instructions that count, compare and branch.
inline constexpr double condition_instructions = 2, iteration_instructions = 1;

inline bool is_own(Scope scope) { return scope == Scope::Register || scope == Scope::Local; }

inline bool uses_kind(const Expr& expr, const std::vector<Level>& levels, LoopKind kind) {
  return std::any_of(levels.begin(), levels.end(), [&](const Level& level) {
    return level.kind == kind && !level.is_task_axis && level.trips > 1 &&
           dsl::uses_var(expr, level.variable);
  });
}

inline bool is_straight(const Level& level) {
  return level.kind == LoopKind::Unrolled || level.kind == LoopKind::Vector;
}

/// An access to global memory, with its footprint in one iteration of each serial loop around it.
struct GlobalUse {
  Access access;
  std::vector<Level> levels;
  std::vector<const Loop*> loops;  // serial loops around, innermost first
  std::vector<double> trips;       // iterations of each of `loops`
  std::vector<double> footprints;  // bytes of one iteration of each of `loops`, then of the block
  double requested = 0;            // bytes of the sectors that one block requests
  bool is_tma = false;             // true if TMA makes the access
};

/// The memory that the lanes of a warp touch in one access.
struct WarpAccess {
  // share of the warps that execute the access, i.e. in which some lane makes it
  double executed = 0;
  double lanes = 0;                       // active lanes of a warp that executes the access
  double sectors = 0, ideal_sectors = 0;  // as in GpuPhaseFacts
  double bank_cycles = 0;
};

/// One walk through one phase.
class GpuPhaseWalk {
 public:
  GpuPhaseWalk(const Program& program, const Target& target)
      : gpu_(*target.machine.gpu), target_(target) {
    for (const schedules::Argument& argument : program.arguments)
      if (!argument.only_prepares) add_global(argument.buffer);
    for (const Buffer& buffer : program.scratch) add_global(buffer);
  }

  Result<GpuPhaseFacts> walk(const schedules::Phase& phase);

 private:
  // ---- the walk ----

  /// The facts about the loops and conditions around a statement that its cost depends on.
  struct Around {
    const Loop* innermost = nullptr;  ///< innermost serial or thread loop
    bool in_nest = false;             ///< true inside of thread loops
    bool in_pipeline = false;
    double executions = 1;  ///< executions by one block
  };

  void add_global(const Buffer& buffer);
  Status visit(const Block& body);
  /// Visits the statements of `body` with around_ set to `around`, and restores around_.
  Status visit(const Block& body, const Around& around);
  Status visit(const Stmt& stmt);
  Status visit_loop(const Loop& loop);
  /// True if the lanes of a warp share the iterations of a Reduce loop, as codegen/gpu/printer.cpp
  /// prints it. Otherwise one thread executes all iterations.
  bool is_reduced_by_warp(const Loop& loop) const;
  void add_pipeline(const schedules::LoopPipeline& pipeline, double entries, double iterations,
                    size_t first_section);
  Status visit_if(const If& branch);
  Status visit_allocate(const Allocate& allocate);
  Status visit_assign(const Assign& assign);

  /// Counts the instructions of one warp for a tensor tile: loads of the elements of both factors
  /// that its lanes hold, and the tensor instructions.
  Status visit_tile(const Loop& loop);

  /// Counts the costs of one warp for `instructions` warpgroup instructions, each of which four
  /// warps execute together. Such an instruction itself reads both factors from shared memory, and
  /// overlaps with earlier instructions.
  static void add_warpgroup(SectionFacts& s, const schedules::TensorNest& nest,
                            double instructions);

  /// Counts a TMA copy. One thread issues the copy. The copy engine then moves the rows of the box
  /// to shared memory, in lines of up to 128 bytes, and uses no registers.
  Status visit_tma_copy(const Loop& loop);

  /// Counts the loads and conversions of one factor of a tensor tile. `share` is the number of
  /// times that the statement runs in one execution of the section, below 1 under a condition.
  /// Returns the number of registers that hold the factor.
  double add_factor(SectionFacts& s, const schedules::TensorTile& tile, const Buffer& buffer,
                    const std::vector<Expr>& indices, double share);
  Result<const Buffer*> find(const std::string& name, size_t rank) const;

  // ---- sections ----

  /// Returns the section to which the current statement belongs. Creates the section if the
  /// statement is the first one in it.
  SectionFacts& section();

  /// Returns the number of copies that unrolled and vector loops make of the current statement.
  double copies() const;

  /// False if the accessed elements stay the same in all iterations of a thread's own innermost
  /// serial loop, so that their loads can be moved before this loop. True if there is no such loop.
  bool moves(const std::vector<Expr>& indices) const;

  /// Sets the number of independent sums that a section updates, and the number of updates of each
  /// sum. `access` is the access to the sums. Changes nothing if an earlier statement of the
  /// section makes more updates.
  void add_chain(SectionFacts& s, const Access& access);

  /// Returns the number of instructions for the divisions and remainders in `expr`. Loop-invariant
  /// divisions are computed before the loop. A division that has the same value in all threads,
  /// such as the one for the slot of a pipeline, is computed once for many accesses and so counts
  /// as 1.
  double divisions(const Expr& expr) const;

  // ---- accesses ----

  bool holds(const Expr& condition, const WarpPoint& point, WarpPoint& rest) const;

  /// Returns `point` with only those lanes active that satisfy `conditions` and all conditions
  /// around the statement; nullopt if no lane satisfies them.
  std::optional<WarpPoint> under(const std::vector<Expr>& conditions, const WarpPoint& point) const;
  WarpAccess warps_under(const std::vector<Expr>& conditions) const;

  /// Returns for each lane the offset of the accessed element in the buffer, in bytes; nullopt if
  /// an index depends on data.
  std::optional<LaneValues> addresses(const Buffer& buffer, const std::vector<Expr>& indices,
                                      const WarpPoint& point) const;
  static LaneValues swizzled(const Buffer& buffer, LaneValues addresses);

  /// Returns the number of bytes that a thread accesses by one instruction: the size of an element,
  /// or up to 16 bytes if elements are contiguous along the innermost vector or unrolled loop and
  /// all addresses are multiples of this number. For example, 4 adjacent f32 at a multiple of 16
  /// bytes are one access of 16 bytes.
  int64_t width(const Buffer& buffer, const std::vector<Expr>& indices) const;
  WarpAccess look_at(const Buffer& buffer, const std::vector<Expr>& indices, int64_t bytes,
                     const std::vector<Expr>& conditions) const;
  void note_life(const SectionFacts& s, const Buffer& buffer);

  /// Counts an access by all copies of the statement. `conditions` are those of the selects around
  /// the read. `turns` is the number of times that a copy makes the access in one execution of the
  /// section; it is below 1 if the load is moved before a loop, or if a condition skips the
  /// statement. Returns the number of registers that hold the loaded values; 0 for a store, and for
  /// buffers that are private to a thread.
  double add_access(SectionFacts& s, const Buffer& buffer, const std::vector<Expr>& indices,
                    bool is_store, const std::vector<Expr>& conditions, double turns);

  /// Adds the traffic of an access to global memory. A warp makes the access `count` times in one
  /// execution of the section, and each lane accesses `bytes` bytes each time. `warp` says what one
  /// such access touches. The caller counts the loads and stores.
  void add_global_traffic(SectionFacts& s, Access access, bool is_store, double count,
                          const WarpAccess& warp, double bytes);

  /// Returns the bytes that all threads of a block touch while the serial loops from the level
  /// `first` on run completely and the serial loops before it stay at one iteration. Loops over
  /// threads, unrolled loops and vector loops always run completely.
  double within(const Access& access, size_t first) const;

  /// True if a private buffer of a thread has to be in memory and not in registers. This is so if
  /// an index changes with a serial loop and thus is not constant after unrolling.
  bool is_in_memory(const Buffer& buffer, const std::vector<Expr>& indices) const;

  /// Returns the number of loaded values that registers have to keep for reuse, out of `elements`.
  /// Values are reused across the outermost unrolled loop that they do not depend on, so all values
  /// of one iteration of this loop are kept. For example, in an unrolled 8 x 4 tile of sums
  /// a[i] * b[j] the loop over i reuses all 4 values of b.
  double kept(const Access& access, double elements) const;

  // ---- totals ----

  double own_elements(const Buffer& buffer) const;
  void estimate_registers();

  /// Returns the limit on the registers of a thread: the limit of the GPU (such as 255), or fewer
  /// if the threads of the phase's resident blocks would need more registers than a multiprocessor
  /// has.
  double registers_of_thread() const;
  void find_residence();
  void add_up();

  // ---- traffic ----

  using ByBuffer = std::map<const Buffer*, double>;
  static void raise(ByBuffer& bytes, const Buffer* buffer, double value);
  static double sum(const ByBuffer& bytes);
  void find_traffic();

  /// Returns the bytes of L1 that one resident block can use as a cache. L1 and shared memory are
  /// parts of one memory, of which each resident block gets an equal part. A block's shared memory
  /// is subtracted from its part.
  double l1_of_block() const;

  /// Returns the bytes that one block fetches into L1 for an access. `working_sets` has the bytes
  /// of all accesses in one iteration of each loop. If these fit into L1, the data that the
  /// iteration shares with the next one is still there; else each iteration fetches its data anew.
  double into_l1(const GlobalUse& use, const std::map<const Loop*, double>& working_sets) const;

  /// Computes the traffic between L2 and DRAM. `fetched` has the bytes of each buffer that one
  /// block loads from L2. Blocks that run at the same time share the data that they fetch. If the
  /// data of the phase fits into L2, blocks that start later find it there. The share of it that a
  /// call finds there from the previous call depends on the size of all buffers of the kernel. It
  /// is everything if they fill at most half of L2, and nothing if they fill all of it.
  void find_dram_traffic(const ByBuffer& fetched);

  /// Returns the bytes that `blocks` consecutive blocks touch together by an access. Of the task
  /// axes, which number the blocks, the last varies fastest.
  double touched(const GlobalUse& use, double blocks) const;
  const Gpu& gpu_;
  const Target& target_;
  const CacheLines lines_ = lines_of(target_.machine.caches[0]);
  GpuPhaseFacts facts_;
  std::map<std::string, const Buffer*, std::less<>> buffers_;
  /// The indices of the first and the last section that access a private buffer of a thread. From
  /// the first to the last, registers hold the buffer.
  struct Life {
    size_t first, last;
  };
  std::map<const Buffer*, Life> lives_;
  schedules::NumberedDimensions numbered_;
  double kernel_bytes_ = 0;
  std::vector<Level> levels_;
  // The serial loops around the statement, outermost first, each with its index in levels_.
  std::vector<std::pair<const Loop*, size_t>> serial_;
  std::vector<Expr> conditions_;  // conditions around the statement that differ between threads
  Around around_;
  schedules::ThreadNest nest_;  // the latest nest of thread loops
  double resident_blocks_ = 1;  // Phase::resident_blocks
  bool has_waited_ = false;     // true if a warp has waited for global loads since the last barrier
  bool is_asynchronous_ = false;  // the current copy is asynchronous
  bool in_box_ = false;           // true inside of a TMA copy
  double barrier_copies_ = 1;  // number of copies of the current barrier that unrolled loops make
  std::vector<WarpPoint> points_;
  std::map<const Loop*, size_t> section_of_;  // index of the section, by its innermost loop

  std::vector<GlobalUse> uses_;
  double address_count_ = 0;
  double lanes_ = 0, slots_ = 0;    // lanes of memory instructions: active, and all
  double wide_ = 0, accesses_ = 0;  // global accesses: their bytes, and their number
};

}  // namespace tw::cost_model::facts

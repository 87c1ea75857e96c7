// SPDX-License-Identifier: Apache-2.0
#pragma once
// The walk through a phase of a GPU's kernel, which gathers the phase's facts (gpu_facts.h). The
// class is in two files: gpu_phase_walk.cpp has the walk, sections and totals; gpu_accesses.cpp has
// the accesses of warps, and the traffic that follows from them. Private to the cost model. Not
// thread-safe.

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

// Instructions of a condition (compare, branch) and of a loop iteration (count, compare, branch).
// The copies of an unrolled loop share the instructions of an iteration.
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

/// An access to global memory, with its footprints within each serial loop around it.
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
  double executed = 0;  // share of the warps that execute the access, because some lane takes part
  double lanes = 0;     // active lanes of a warp that executes the access
  double sectors = 0, bank_cycles = 0;
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

  /// The context of a statement: the loops and conditions around it, as far as they change its
  /// cost.
  struct Around {
    const Loop* innermost = nullptr;  ///< innermost serial or thread loop
    bool in_nest = false;             ///< true inside of thread loops
    bool in_pipeline = false;
    double executions = 1;  ///< executions by one block
  };

  void add_global(const Buffer& buffer);
  Status visit(const Block& body);
  /// Visits the body in this context.
  Status visit(const Block& body, const Around& around);
  Status visit(const Stmt& stmt);
  Status visit_loop(const Loop& loop);
  void add_pipeline(const schedules::LoopPipeline& pipeline, double entries, double iterations,
                    size_t first_section);
  Status visit_if(const If& branch);
  Status visit_allocate(const Allocate& allocate);
  Status visit_assign(const Assign& assign);

  /// Counts the instructions of a warp for a tile: loads of the lanes' elements of the factors, and
  /// the tensor instructions.
  Status visit_tile(const Loop& loop);

  /// Counts a warp's part of a warpgroup instruction. The instruction reads the factors itself, and
  /// overlaps with earlier instructions.
  static void add_warpgroup(SectionFacts& s, const schedules::TensorNest& nest,
                            double instructions);

  /// Counts a TMA copy: one thread issues it, and the engine moves lines of up to 128 bytes, which
  /// are parts of the box's rows, to shared memory without registers.
  Status visit_tma_copy(const Loop& loop);

  /// Counts the loads and conversions of a factor for tiles; returns the registers that hold it.
  double add_factor(SectionFacts& s, const schedules::TensorTile& tile, const Buffer& buffer,
                    const std::vector<Expr>& indices, double share);
  Result<const Buffer*> find(const std::string& name, size_t rank) const;

  // ---- sections ----

  /// Returns the current section, and creates it at its first statement.
  SectionFacts& section();

  /// Number of copies of the current statement that its unrolled and vector loops make.
  double copies() const;

  /// True if an index changes with the innermost serial loop and that loop is inside of the thread
  /// loops.
  bool moves(const std::vector<Expr>& indices) const;

  /// Sets the number of independent sums, and the length of the chain of updates of a sum.
  void add_chain(SectionFacts& s, const Access& access);

  /// Number of instructions for divisions by constants. Loop-invariant divisions are computed
  /// before the loop. Divisions with the same value in all threads, such as those for slots of a
  /// pipeline, are computed once for many accesses.
  double divisions(const Expr& expr) const;

  // ---- accesses ----

  bool holds(const Expr& condition, const WarpPoint& point, WarpPoint& rest) const;

  /// Returns the point with only the lanes that satisfy all conditions; nullopt if no lane does.
  std::optional<WarpPoint> under(const std::vector<Expr>& conditions, const WarpPoint& point) const;
  WarpAccess warps_under(const std::vector<Expr>& conditions) const;

  /// Returns the byte offsets in the buffer of the lanes' accesses; nullopt if an index depends on
  /// data.
  std::optional<LaneValues> addresses(const Buffer& buffer, const std::vector<Expr>& indices,
                                      const WarpPoint& point) const;
  static LaneValues swizzled(const Buffer& buffer, LaneValues addresses);

  /// Returns the bytes of one access of a thread. Contiguous elements along the innermost vector or
  /// unrolled loop form one access of up to 16 bytes, if every address is aligned to the access's
  /// size.
  int64_t width(const Buffer& buffer, const std::vector<Expr>& indices) const;
  WarpAccess look_at(const Buffer& buffer, const std::vector<Expr>& indices, int64_t bytes,
                     const std::vector<Expr>& conditions) const;
  void note_life(const SectionFacts& s, const Buffer& buffer);

  /// Counts one access of all copies of the statement. Returns the number of registers that hold
  /// the loaded values.
  double add_access(SectionFacts& s, const Buffer& buffer, const std::vector<Expr>& indices,
                    bool is_store, const std::vector<Expr>& conditions, double turns);

  /// Adds the traffic of an access to global memory; the caller counts the instructions.
  void add_global_traffic(SectionFacts& s, Access access, bool is_store, double count,
                          const WarpAccess& warp, double bytes);

  /// Returns the bytes that a block touches while its threads and the loops from `first` on run.
  /// The threads run through the loops around these together.
  double within(const Access& access, size_t first) const;

  /// True if a private array is in memory and not in registers, because an index is not constant
  /// after unrolling.
  bool is_in_memory(const Buffer& buffer, const std::vector<Expr>& indices) const;

  /// Returns the number of values that registers keep. In the order of the unrolled statements, a
  /// value is reused across the outermost unrolled loop that it does not depend on, so all values
  /// of one iteration of that loop are kept.
  double kept(const Access& access, double elements) const;

  // ---- totals ----

  double own_elements(const Buffer& buffer) const;
  void estimate_registers();

  /// Returns the limit on the registers of a thread. A block must fit on a multiprocessor, so the
  /// compiler limits each thread to its share.
  double registers_of_thread() const;
  void find_residence();
  void add_up();

  // ---- traffic ----

  using ByBuffer = std::map<const Buffer*, double>;
  static void raise(ByBuffer& bytes, const Buffer* buffer, double value);
  static double sum(const ByBuffer& bytes);
  void find_traffic();

  /// Returns a resident block's share of L1.
  double l1_of_block() const;

  /// Returns the traffic into L1, by the rule for the CPU's caches: if the data of an iteration
  /// fits, the data that the next iteration shares with it hits.
  double into_l1(const GlobalUse& use, const std::map<const Loop*, double>& working_sets) const;

  /// Computes the traffic to DRAM. Blocks that run at the same time share the data that they fetch.
  /// If all data fits into L2, later blocks find it there too; if twice the data fits, so does the
  /// next call.
  void find_dram_traffic(const ByBuffer& fetched);

  /// Returns the bytes that `blocks` consecutive blocks touch together; the last axes of blocks
  /// vary fastest.
  double touched(const GlobalUse& use, double blocks) const;
  const Gpu& gpu_;
  const Target& target_;
  const CacheLines lines_ = lines_of(target_.machine.caches[0]);
  GpuPhaseFacts facts_;
  std::map<std::string, const Buffer*, std::less<>> buffers_;
  /// The first and the last section that access a private buffer of a thread. The buffer is held in
  /// registers between them.
  struct Life {
    size_t first, last;
  };
  std::map<const Buffer*, Life> lives_;
  schedules::NumberedDimensions numbered_;
  double kernel_bytes_ = 0;
  std::vector<Level> levels_;
  // Serial loops around the statement, and the indices of their levels.
  std::vector<std::pair<const Loop*, size_t>> serial_;
  std::vector<Expr> conditions_;  // conditions around the statement that differ between threads
  Around around_;
  schedules::ThreadNest nest_;  // the latest nest of thread loops
  double producer_warps_ = 0;   // producer warps, in addition to the body's warps
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

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The walk through a phase of a kernel for processors, which gathers the phase's facts (facts.h).
// The class is in three files: phase_walk.cpp has the walk, loops and totals; phase_statements.cpp
// has the computations and loads of a block's statements; phase_traffic.cpp has the data that loops
// fetch from caches and memory. Private to the cost model. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/facts/access.h"
#include "cost_model/facts/facts.h"
#include "cost_model/facts/operations.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/dot_products.h"

namespace tw::cost_model::facts {

using dsl::Expr;
using schedules::Allocate;
using schedules::Assign;
using schedules::Block;
using schedules::Buffer;
using schedules::DotProduct;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Program;
using schedules::Scope;
using schedules::Stmt;

inline double bytes_of(const Buffer& buffer) { return static_cast<double>(buffer.bytes()); }
inline double elements_of(const Buffer& buffer) { return static_cast<double>(buffer.elements()); }

/// A buffer in scope, and what the walk learns about it.
struct Known {
  const Buffer* buffer;
  bool is_output = false;
  bool is_constant = false;
  bool vectorized = false;
  const Allocate* allocation = nullptr;                        // nullptr for a global buffer
  size_t loops_around = 0;                                     // loops around the allocation
  std::optional<std::vector<std::string>> storing_loops = {};  // set when it is first needed
};

/// Stretches of memory that inner loops read in turns: some lines of one stretch, then of the next.
struct Turns {
  double runs = 0;   ///< number of stretches; 0: no inner loop reads in turns
  double lines = 0;  ///< lines that are read of a stretch before the turn of the next
};

/// The memory of one buffer that a loop touches.
struct Use {
  size_t buffer = 0;
  // Footprints of one iteration and of all, by the access with the largest.
  Footprint body = {}, loop = {};
  double body_aliased = 0;  // largest Footprint::aliased_bytes of one iteration
  Traffic direct{};         // bytes that one iteration fetches into each cache
  Traffic waits{};   // loads of one iteration that wait in sequence, since nothing fetched ahead
  double begun = 0;  // bytes of one iteration at the beginnings of stretches
  // True if iterations of an inner loop leave gaps within a page, which later iterations fill: the
  // first reads the lines 0, 4 and 8, the second 1, 5 and 9.
  bool is_scattered = false;
  Turns turns = {};
  AllOrigins origins = {};  // origins of the accesses in the loop
};

/// A serial loop or a task axis; the first node of a phase stands for the phase itself.
struct Node {
  int parent = -1;
  size_t first_inner_level = 0;  // levels from here on run within one iteration
  size_t depth = 0;              // number of serial nodes from the phase to this node
  bool is_task_axis = false;
  double trips = 1;
  double entries = 1;                // times that the loop starts, per kernel call
  double entries_per_iteration = 1;  // starts per iteration of the parent
  bool has_literal_bounds = true;
  std::vector<Use> uses;
  std::optional<size_t> block;

  double iterations() const { return entries * trips; }
};

struct Site {
  const Assign* assign;
  double copies = 1;     // copies of the statement in its block
  double registers = 1;  // vector registers that one copy's lanes fill
  double weight = 1;     // average number of copies that run, since conditions may skip some
  size_t first_inner_level = 0;
};

/// The addresses that the statements of a block load from one buffer. Each address counts once.
struct Loaded {
  size_t buffer;
  const Assign* latest = nullptr;  // the last statement that loads from the buffer
  size_t latest_body = 0;          // the loop body that contains `latest`
  AllOrigins origins = {};
  double addresses = 0;
  double shared = 0;  // number of values that earlier statements have loaded too
  // Largest number of shared values that wait in registers for one statement at a time.
  double most_shared = 0;
};

/// Updates of one buffer by the statements of a block.
struct Sums {
  size_t buffer;
  AllOrigins origins = {};
  double updates = 0;  // number of unrolled statements that update
  double targets = 0;  // number of different elements
};

/// Bytes of a buffer that a phase fetches into each cache, if no cache holds any of the buffer at
/// the start: `once` for the first fetch of each line, and `again` for lines that were evicted
/// since.
struct Fetched {
  size_t buffer;
  Traffic once{}, again{}, waits{};
  double begun = 0;
  bool is_stored = false;  // the phase stores to the buffer
};

/// Returns the bytes of a cache. A level that the machine lacks has the bytes of the level before
/// it.
inline double capacity_of(const Machine& machine, size_t cache) {
  int64_t bytes = 0;
  for (size_t level = 0; level <= cache; ++level)
    bytes = std::max(bytes, machine.caches[level].bytes);
  return static_cast<double>(bytes);
}

/// One walk through one phase.
class PhaseWalk {
 public:
  PhaseWalk(const Program& program, const Target& target, KernelFacts& kernel)
      : target_(target),
        machine_(target.machine),
        has_core_tiles_(schedules::has_core_tiles(target)),
        kernel_(kernel) {
    for (const schedules::Argument& argument : program.arguments)
      if (!argument.only_prepares)
        known_.push_back({&argument.buffer, argument.is_output, argument.constant});
    for (const Buffer& buffer : program.scratch) known_.push_back({&buffer});
  }

  /// The arguments and scratch buffers, in an order that is the same for all phases.
  const std::vector<Known>& known() const { return known_; }
  /// The arguments and scratch that the phase touches. Requires: walk().
  const std::vector<Fetched>& fetched() const { return fetched_; }

  Result<PhaseFacts> walk(const schedules::Phase& phase);

 private:
  // ---- the walk ----

  /// A statement that computes only tiles of a core, and keeps their sums in registers.
  struct TileSums {
    size_t outside;  ///< number of loops around the statement
    bool begin_with_zero;
  };
  /// The context of a statement: the loops and conditions around it, as far as they change its
  /// cost.
  struct Around {
    int node = -1;          ///< the innermost node
    double weight = 1;      ///< probability of the conditions within the node
    bool masked = false;    ///< true under a condition that differs between lanes
    double lane_share = 1;  ///< share of the lanes that meet the condition
    size_t body = 0;        ///< number of the body of the innermost loop that is no vector loop
    std::optional<TileSums> tile_sums = {};  ///< set inside of a statement that computes only tiles
  };

  Status visit(const Block& body);
  /// Visits the body in this context.
  template <typename Body>
  Status visit(const Body& body, const Around& around) {
    const Around outer = std::exchange(around_, around);
    const Status status = visit(body);
    around_ = outer;
    return status;
  }

  /// True if the statement sets the sums of the next statement to 0, which keeps them in tile
  /// registers.
  bool begins_tiles(const Stmt& stmt, const Stmt& next) const;
  Status visit(const Stmt& stmt);
  Status visit_loop(const Loop& loop);

  /// Counts a dot product: a multiply-add of lanes that each sum products of several contiguous
  /// elements. If the target has no instruction for it, each of the products that a lane sums is a
  /// vector.
  Status visit_dot_product(const DotProduct& dot);

  /// Counts a tile of a core: one instruction, which takes the time of many multiply-adds. Its sums
  /// are in memory before and after the loops that continue them.
  Status visit_core_tile(const Loop& loop);

  /// Counts the load of a tile. The iterations of `rows` are the tile's rows; the iterations of
  /// `neighbours` and the terms of a group are the elements of a row.
  Status add_tile_load(BlockFacts& block, const schedules::CoreNest& nest, const dsl::Read& read,
                       const Loop& rows, const Loop& neighbours);
  void enter(const Loop& loop, LoopKind kind);
  Status visit_if(const If& branch);
  Status visit_allocate(const Allocate& allocate);
  Status visit_assign(const Assign& assign);

  /// True if iterations of the loop store to the buffer that is read. A loop around the allocation
  /// does not, because each of its iterations has its own buffer.
  bool is_stored_in(const dsl::Read& read, size_t loop);

  /// Returns the distance in elements of successive accesses along a level; nullopt if the
  /// distances differ.
  static std::optional<double> step_along(const Access& access, size_t level);

  /// True if both factors lie in memory as instructions read them: the products of a lane side by
  /// side, and the elements of the second factor lane by lane. Requires: the loop over lanes is the
  /// last level.
  Result<bool> has_neighbours(const DotProduct& dot);

  /// Counts a dot product that is one instruction. Requires: the loop over lanes is the last level.
  Status add_dot_product(const DotProduct& dot, const schedules::DotInstruction& instruction,
                         size_t target);

  /// Returns the number of digits that copies of a dot product take from one load: a vector is
  /// shifted and masked for each digit.
  double digits_of_load(const DotProduct& dot);
  Status visit_prefetch(const schedules::PrefetchLines& prefetch);

  // ---- trees ----

  /// Returns the first of the loops that repeat the statements of a block: the block's innermost
  /// serial loop.
  size_t first_varying_level();

  /// Returns the number of partial sums that an unrolled loop adds to one element, as at the end of
  /// a reduction over the lanes of a vector; 0 for other statements.
  double terms_of_tree(const Site& site, const Operations& operations, size_t target) const;

  /// Counts the additions of partial sums. LLVM adds them as vectors, in registers: first whole
  /// registers, then the halves of a register, which takes a shuffle and an addition each time.
  void add_tree(BlockFacts& block, const Site& site, const Operations& operations, size_t target,
                double terms);

  // ---- loops ----

  Node& current() { return nodes_[static_cast<size_t>(around_.node)]; }

  /// Adds a node inside of the current one, and returns its index.
  int add_node(double trips, bool has_literal_bounds, bool is_task_axis);

  /// Returns the copies that a level makes of the code in it. A vector loop makes one, because it
  /// runs all its lanes at once.
  static double code_copies(const Level& level);
  bool is_unrolled(size_t level, const Site& site) const;
  std::optional<size_t> vector_level() const;
  bool differs_by_lane(const Expr& condition) const;

  /// Returns the share of the registers of a contiguous vector that straddle two cache lines. It is
  /// 0 if every vector begins at a multiple of the register width, or of the line if the width does
  /// not divide the line.
  double split_share(const Access& access, Pattern how) const;
  double lanes() const;
  double registers_for(double lanes, double element_bytes) const;

  // ---- statements ----

  Result<size_t> find(const std::string& name, size_t rank) const;
  bool is_global(size_t i) const;
  bool is_register(size_t i) const { return known_[i].buffer->scope == Scope::Register; }

  Site make_site(const Assign& assign, const Buffer& target);
  BlockFacts& current_block();
  void add_operations(BlockFacts& block, const Site& site, const Operations& operations);

  /// Returns the time to divide a register of this statement, in divisions of 32 bytes of f32.
  double divider_work(const Site& site) const;
  void add_flops(BlockFacts& block, const Site& site, const Operations& operations);

  /// Returns the average share of a whole tile that the trimmed loops and guards around leave.
  double evenness() const;
  Status add_reads(BlockFacts& block, const Site& site, const Operations& operations,
                   size_t target);

  /// The pattern in which a block loads an operand, and the registers that it keeps.
  struct Operand {
    Pattern how = Pattern::Broadcast;
    double registers = 0;  ///< vector registers that hold values for later statements
  };
  Result<Operand> add_read(BlockFacts& block, const Site& site, const dsl::Read& read,
                           size_t target);
  void mark_vectorized(size_t buffer, const Access& access);

  /// Counts the loads of one operand. Each address counts once per block.
  Operand add_load(BlockFacts& block, const Site& site, const Access& access, size_t buffer,
                   bool into_registers);
  static double size_of(const Access& access) { return size_bytes(access.buffer->type); }

  bool varies_in_innermost_loop(const Access& access) const;

  /// Returns the number of values that must be kept for reuse. In the order of the unrolled
  /// statements, a value is reused across the outermost unrolled loop whose iterations share it.
  /// All iterations share the value if the access does not depend on the loop; successive
  /// iterations share it if they access overlapping taps of a window. The values that an iteration
  /// of that loop shares must be kept.
  double kept_values(const Site& site, const Access& access) const;

  /// Returns the number of values that successive iterations of an unrolled loop have in common.
  double shared_values(const Site& site, const Access& access, size_t loop) const;
  void add_target(BlockFacts& block, const Site& site, size_t target);
  void add_store(BlockFacts& block, const Site& site, const Access& access, size_t target);

  /// Notes the chains of updates of a statement. Statements that update the same element wait for
  /// each other: copies of one statement, or several statements, such as the taps of a window if
  /// padding cuts some of them. An update takes as long as `latency` multiply-adds.
  void add_chains(BlockFacts& block, const Site& site, const Access& access, size_t target,
                  double latency = 1);

  /// Notes the chains of a statement, unless another statement of the block has a longer one.
  static void note_chains(BlockFacts& block, double chains, double depth, bool loop_reduces,
                          double iterations);

  /// Returns the number of iterations of serial loops that update the same elements, from the
  /// innermost loop outward. The first `outside` of all loops are not considered.
  double iterations_of_sums(const Access& access, size_t outside = 0) const;
  Loaded& loaded_from(size_t block, size_t buffer);
  Sums& sums_of(size_t block, size_t buffer);
  void describe(BlockFacts& block, const Site& site, const Buffer& target);

  // ---- memory ----

  Use& use_of(Node& node, size_t buffer);

  /// Adds the access to the footprint of the buffer in each loop around it.
  void touch(const Access& access, size_t buffer);

  /// Returns the lines at the beginning of a stretch, before a prefetcher follows it.
  static double untrained(const Footprint& footprint);

  /// Returns the waits of a body that reads stretches of several pages side by side. Prefetchers
  /// follow stretches within one page by their distance, and a single stretch by its lines.
  static double waits_of(const Footprint& body);

  /// Returns the bytes at the beginnings of `runs` stretches of `bytes` bytes in all, where memory
  /// is slow. Bytes of stretches that are so short that nothing fetches their lines ahead count
  /// twice.
  static double begun_of(double bytes, double runs);

  /// True if each iteration of a loop continues the stretches of the iteration before, and
  /// prefetchers can follow that many stretches.
  static bool goes_on(const Use& use);

  /// Returns `fetched`, the bytes that a loop fetches into the cache, as a share of the bytes that
  /// it would fetch if its iterations shared nothing.
  static double share_of(const Node& node, const Use& use, size_t cache, double fetched);

  /// Returns the waits of all iterations of a loop that fetches `fetched` bytes into the cache. If
  /// the loop goes on along stretches, only the beginnings of the stretches are waited for.
  static double waits_of(const Node& node, const Use& use, size_t cache, double fetched);

  /// True if prefetchers follow the stretches of a loop that goes on along them: a single stretch
  /// that is read from end to end, or a few stretches in different pages.
  static bool is_followed(const Use& use);

  /// Returns the turns in which one iteration reads its stretches. An inner loop that goes on along
  /// all of them changes between them more often than the iteration as a whole.
  static Turns turns_of(const Use& use);

  /// Returns the bytes that a loop, which fetches `fetched` bytes from memory in all its
  /// iterations, fetches at the beginnings of stretches.
  static double begun_of(const Node& node, const Use& use, double fetched);
  static double total_footprint(const Node& node);

  /// Computes the traffic of all loops, inner loops first. If an iteration's data fits into a
  /// cache, the data that the next iteration shares with it is still there, and the loop fetches
  /// each line once; else each iteration fetches its data anew.
  void finish_traffic();
  double capacity(size_t cache) const { return capacity_of(machine_, cache); }

  /// Returns the share of data of `bytes` bytes, which is touched again and again, that is no
  /// longer in the cache when it is touched.
  double lost_share(size_t cache, double bytes) const;
  void add_traffic(const Node& node, size_t buffer, size_t cache, double bytes, double waits);
  void add_begun(const Node& node, const Use& use, double bytes);
  Fetched& fetched_of(size_t buffer);

  // ---- totals ----

  double registers_of(size_t buffer) const;
  double registers_of(const std::vector<size_t>& buffers) const;
  void finish_blocks();

  /// Returns the number of vector registers that a block can use. If multiply-adds cannot take
  /// their broadcast factor from memory, LLVM loads the factors of an unrolled reduction ahead, so
  /// tiles that leave no register for these loads spill (14 x 1 on AVX2: 8 to 80 spill instructions
  /// if the reduction is unrolled, none if it is not).
  double available_registers(const BlockFacts& block) const;

  /// Returns the number of shared values that are loaded again if only `free` registers are left
  /// for shared values.
  static double reloads(const std::vector<Loaded>& loads, double free);
  void add_footprints(BlockFacts& block, int innermost);
  void add_to_kernel(const BlockFacts& block);
  void count_loops();

  const Target& target_;
  const Machine& machine_;
  const bool has_core_tiles_;
  const CacheLines lines_ = lines_of(machine_.caches[0]);
  KernelFacts& kernel_;
  PhaseFacts phase_;
  std::vector<Known> known_;
  std::vector<size_t> live_;  // indices of the allocated buffers in scope
  std::vector<Level> levels_;
  std::vector<Node> nodes_;
  Around around_;
  int task_node_ = 0;
  size_t bodies_ = 0;  // number of bodies so far of loops that are not vector loops
  std::vector<int> block_nodes_;
  // For each block, the sets of Register buffers that are in scope at the same time.
  std::vector<std::vector<std::vector<size_t>>> block_buffers_;
  std::vector<std::vector<Sums>> block_sums_;
  std::vector<std::vector<Loaded>> block_loads_;
  std::vector<Fetched> fetched_;
  std::set<size_t> stored_;  // indices of the buffers that are stored to
};

}  // namespace tw::cost_model::facts

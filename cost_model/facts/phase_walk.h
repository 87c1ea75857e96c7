// SPDX-License-Identifier: Apache-2.0
#pragma once
// PhaseWalk walks through one phase of a kernel for a processor and gathers the facts of the phase
// (facts.h). Three files implement the class: phase_walk.cpp has the walk, loops and totals;
// phase_statements.cpp has the computations and loads of a block's statements; phase_traffic.cpp
// has the data that loops fetch from caches and memory. Private to the cost model. Not thread-safe.
//
// In these files a stretch, or run, is a range of memory that is read from end to end without a gap
// of a cache line or more.

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

/// A buffer in scope, and facts that the walk finds out about it.
struct Known {
  const Buffer* buffer;
  bool is_output = false;
  bool is_constant = false;
  bool vectorized = false;
  const Allocate* allocation = nullptr;                        // nullptr for a global buffer
  size_t loops_around = 0;                                     // loops around the allocation
  std::optional<std::vector<std::string>> storing_loops = {};  // set when it is first needed
};

/// Stretches of memory that inner loops read in turns. They read some lines of the first stretch,
/// then some lines of the second, and so on, and then the next lines of the first.
struct Turns {
  double runs = 0;   ///< number of stretches; 0: no inner loop reads in turns
  double lines = 0;  ///< lines that are read of one stretch before the turn of the next stretch
};

/// The memory of one buffer that a loop touches.
struct Use {
  size_t buffer = 0;
  // Footprints of one iteration (body) and of all iterations (loop). Of several accesses to the
  // buffer, the access with the largest footprint counts.
  Footprint body = {}, loop = {};
  double body_aliased = 0;  // largest Footprint::aliased_bytes of one iteration
  Traffic direct{};         // bytes that one iteration fetches into each cache
  // loads of one iteration that wait one after another, since no prefetcher fetched ahead
  Traffic waits{};
  double begun = 0;  // bytes of one iteration at the beginnings of stretches (PhaseFacts::begun)
  // True if an iteration of an inner loop leaves gaps within a page, and later iterations fill
  // these gaps. For example, the first iteration reads the lines 0, 4 and 8 of a page, the second
  // reads 1, 5 and 9.
  bool is_scattered = false;
  Turns turns = {};
  AllOrigins origins = {};  // origins of all accesses to the buffer in the loop
};

/// A serial loop or a task axis of a phase, with the memory that it touches. The first node stands
/// for the phase itself and has no loop.
struct Node {
  int parent = -1;
  size_t first_inner_level = 0;  // levels from this index on run within one iteration
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

/// The addresses that the statements of a block load from one buffer. An address that several
/// statements load counts once.
struct Loaded {
  size_t buffer;
  const Assign* latest = nullptr;  // the last statement that loads from the buffer
  size_t latest_body = 0;          // the loop body that contains `latest`
  AllOrigins origins = {};
  double addresses = 0;
  double shared = 0;  // number of values that earlier statements have loaded too
  // Largest number of values that registers have to hold at a time because a later statement of the
  // block uses them again.
  double most_shared = 0;
};

/// Updates of one buffer by the statements of a block.
struct Sums {
  size_t buffer;
  AllOrigins origins = {};
  double updates = 0;  // number of unrolled statements that update
  double targets = 0;  // number of different elements
};

/// Bytes of a buffer that a phase fetches into each cache if no cache holds any of the buffer when
/// the phase starts. `once` has the bytes of the first fetch of each line. `again` has the bytes of
/// lines that are fetched again because they were evicted since. `waits` and `begun` are explained
/// at PhaseFacts.
struct Fetched {
  size_t buffer;
  Traffic once{}, again{}, waits{};
  double begun = 0;
  bool is_stored = false;  // the phase stores to the buffer
};

/// Returns the size in bytes of a cache (0: L1, 1: L2, 2: L3). If the machine lacks this cache,
/// returns the size of the largest cache before it.
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

  /// Returns the arguments and scratch buffers, in an order that is the same for all phases.
  const std::vector<Known>& known() const { return known_; }
  /// Returns the arguments and scratch buffers that the phase touches. Requires: walk() was called.
  const std::vector<Fetched>& fetched() const { return fetched_; }

  Result<PhaseFacts> walk(const schedules::Phase& phase);

 private:
  // ---- the walk ----

  /// Sums of core tiles (tensor tiles of a CPU core, such as Intel AMX) that stay in tile registers
  /// while a statement runs, because the loops of the statement compute nothing else.
  struct TileSums {
    size_t outside;        ///< number of loops around the statement
    bool begin_with_zero;  ///< true if the sums begin as 0 and need no load
  };
  /// The facts about the loops and conditions around a statement that its cost depends on.
  struct Around {
    int node = -1;          ///< the innermost node
    double weight = 1;      ///< probability that the conditions inside of the node hold
    bool masked = false;    ///< true under a condition that differs between lanes
    double lane_share = 1;  ///< share of the lanes that meet the condition
    size_t body = 0;        ///< index of the body of the innermost loop that is not a vector loop
    std::optional<TileSums> tile_sums = {};  ///< set inside of a statement that computes only core
                                             ///< tiles
  };

  Status visit(const Block& body);
  /// Visits `body` with around_ set to `around`, and restores around_.
  template <typename Body>
  Status visit(const Body& body, const Around& around) {
    const Around outer = std::exchange(around_, around);
    const Status status = visit(body);
    around_ = outer;
    return status;
  }

  /// True if `stmt` sets the sums to 0 that `next` computes by core tiles. Tile registers then
  /// begin as 0, and the sums need not be loaded.
  bool begins_tiles(const Stmt& stmt, const Stmt& next) const;
  Status visit(const Stmt& stmt);
  Status visit_loop(const Loop& loop);

  /// Counts a dot product: each lane of a vector adds the products of several contiguous elements
  /// to its sum, for example 4 products of 8-bit integers to a 32-bit sum. If the target has no
  /// such instruction, each of these products is a multiply-add of whole vectors.
  Status visit_dot_product(const DotProduct& dot);

  /// Counts a core tile: one instruction, which takes the time of many multiply-adds. The sums of
  /// the tile are loaded before the loops that add to them, and stored after these loops.
  Status visit_core_tile(const Loop& loop);

  /// Counts the loads of one factor of a core tile. Each iteration of the loop `rows` is a row of
  /// the factor. The elements of a row are those that two loops access: `neighbours` and, inside of
  /// it, the loop over the terms of a group.
  Status add_tile_load(BlockFacts& block, const schedules::CoreNest& nest, const dsl::Read& read,
                       const Loop& rows, const Loop& neighbours);
  void enter(const Loop& loop, LoopKind kind);
  Status visit_if(const If& branch);
  Status visit_allocate(const Allocate& allocate);
  Status visit_assign(const Assign& assign);

  /// True if the buffer of the read may hold other values in each iteration of a loop. This is the
  /// case if the loop stores to the buffer, or if it is around the buffer's allocation, so that
  /// each iteration has a buffer of its own. `loop` is the index of the loop in levels_. False for
  /// arguments and scratch buffers.
  bool is_stored_in(const dsl::Read& read, size_t loop);

  /// Returns the distance, in elements, between the accesses of successive iterations of a level;
  /// nullopt if the distances differ.
  static std::optional<double> step_along(const Access& access, size_t level);

  /// True if both factors of a dot product lie in memory in the order in which the instruction
  /// reads them. In both factors, the elements that one lane multiplies have to be adjacent. In the
  /// factor that differs by lane, the elements of one lane also have to follow those of the lane
  /// before. Requires: the loop over lanes is the last level.
  Result<bool> has_neighbours(const DotProduct& dot);

  /// Counts a dot product that the target computes by `instruction`; `target` is the index of the
  /// buffer of the sums. Requires: the loop over lanes is the last level.
  Status add_dot_product(const DotProduct& dot, const schedules::DotInstruction& instruction,
                         size_t target);

  /// Returns the number of digits that copies of a dot product take from one loaded vector, which
  /// is shifted and masked for each digit. For example, weights of 4 bits are 2 digits of a byte.
  /// Requires: `dot.digit` is set.
  double digits_of_load(const DotProduct& dot);
  Status visit_prefetch(const schedules::PrefetchLines& prefetch);

  // ---- trees ----

  /// Returns the index in levels_ of the first loop that repeats the statements of the current
  /// block. This is the innermost serial loop around the block. If the block is not in a serial
  /// loop, it is the first unrolled or vector loop of the block.
  size_t first_varying_level();

  /// Returns the number of partial sums that the innermost loop, which is unrolled, adds to a
  /// single element. A reduction over the lanes of a vector ends with such a loop: 16 lanes of f32
  /// leave 16 partial sums. Returns 0 if the statement is not of this kind.
  double terms_of_tree(const Site& site, const Operations& operations, size_t target) const;

  /// Counts the additions of `terms` partial sums. LLVM adds the sums in vector registers: first
  /// whole registers, then the two halves of a register, by a shuffle and an addition each time.
  /// For example, 32 partial sums in registers of 16 take 1 + 2 * 4 instructions.
  void add_tree(BlockFacts& block, const Site& site, const Operations& operations, size_t target,
                double terms);

  // ---- loops ----

  Node& current() { return nodes_[static_cast<size_t>(around_.node)]; }

  /// Adds a node for the last level, as a child of the current node. Returns the index of the
  /// child.
  int add_node(double trips, bool has_literal_bounds, bool is_task_axis);

  /// Returns the number of copies that an unrolled or vector loop makes of its body. A vector loop
  /// makes one copy, which computes all lanes at once.
  static double code_copies(const Level& level);
  bool is_unrolled(size_t level, const Site& site) const;
  std::optional<size_t> vector_level() const;
  bool differs_by_lane(const Expr& condition) const;

  /// Returns the share of the vector registers of an access that straddle two cache lines. It is 0
  /// for accesses that are not contiguous. It is also 0 if all vectors are known to begin at
  /// multiples of the register width, or of a line if the width does not divide a line.
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

  /// Returns the work of the divider for one register of a statement, in units of a division of 32
  /// bytes of f32 (Instructions::divisions).
  double divider_work(const Site& site) const;
  void add_flops(BlockFacts& block, const Site& site, const Operations& operations);

  /// Returns the average share of the iterations of the loops around the current statement that are
  /// executed, from 0 to 1: loops that are trimmed at borders and conditions skip the others.
  double evenness() const;
  Status add_reads(BlockFacts& block, const Site& site, const Operations& operations,
                   size_t target);

  /// The pattern in which a block loads an operand, and the registers that the operand occupies.
  struct Operand {
    Pattern how = Pattern::Broadcast;
    double registers = 0;  ///< vector registers that hold values for later statements
  };
  Result<Operand> add_read(BlockFacts& block, const Site& site, const dsl::Read& read,
                           size_t target);
  void mark_vectorized(size_t buffer, const Access& access);

  /// Counts the loads of one operand. An address that several copies of the statement load counts
  /// once. `into_registers` is true if the statement stores its result in registers and not in
  /// memory, so that loaded values stay valid for later statements of the block.
  Operand add_load(BlockFacts& block, const Site& site, const Access& access, size_t buffer,
                   bool into_registers);
  static double size_of(const Access& access) { return size_bytes(access.buffer->type); }

  bool varies_in_innermost_loop(const Access& access) const;

  /// Returns the number of loaded values that registers have to keep for reuse, at least 1. Values
  /// are reused across the outermost unrolled loop whose iterations share values, so the values
  /// that one iteration of this loop shares with the next are kept. For example, in an unrolled
  /// tile of sums a[i] * b[j], with a loop over 14 i around a loop over 2 j, the 2 values of b are
  /// kept and 1 value of a.
  double kept_values(const Site& site, const Access& access) const;

  /// Returns the number of values that two successive iterations of an unrolled loop have in
  /// common. If the access does not depend on the loop, these are all values of an iteration. If
  /// iterations access overlapping taps of a window, these are the values of the overlap. Otherwise
  /// returns 0. `loop` is the index of the loop in levels_.
  double shared_values(const Site& site, const Access& access, size_t loop) const;
  void add_target(BlockFacts& block, const Site& site, size_t target);
  void add_store(BlockFacts& block, const Site& site, const Access& access, size_t target);

  /// Counts the updates by a statement that wait for each other because they update the same
  /// element. These are updates by copies of the statement, and by other statements of the block,
  /// such as the taps of a window that padding makes separate. An update takes as long as `latency`
  /// multiply-adds.
  void add_chains(BlockFacts& block, const Site& site, const Access& access, size_t target,
                  double latency = 1);

  /// Sets the numbers of the block that describe its sums: `chains` independent sums
  /// (accumulators), each with `depth` updates in sequence (chain). Does nothing if an earlier
  /// statement of the block makes more updates; a statement makes chains * depth updates.
  static void note_chains(BlockFacts& block, double chains, double depth, bool loop_reduces,
                          double iterations);

  /// Returns the number of successive iterations of serial loops that update the same elements. For
  /// example, if the two innermost serial loops, of 3 and 64 iterations, both reduce, the number is
  /// 192. The outermost `outside` loops are not considered.
  double iterations_of_sums(const Access& access, size_t outside = 0) const;
  Loaded& loaded_from(size_t block, size_t buffer);
  Sums& sums_of(size_t block, size_t buffer);
  void describe(BlockFacts& block, const Site& site, const Buffer& target);

  // ---- memory ----

  Use& use_of(Node& node, size_t buffer);

  /// Adds an access to the footprints of its buffer in all loops around the access. `buffer` is the
  /// index of the buffer in known_.
  void touch(const Access& access, size_t buffer);

  /// Returns the number of lines at the beginning of each stretch of a footprint that are loaded
  /// before a prefetcher follows the stretch.
  static double untrained(const Footprint& footprint);

  /// Returns the number of loads that wait one after another if one iteration reads several
  /// stretches side by side that are a page or more apart. Returns 0 for a single stretch, and for
  /// stretches within a page, because prefetchers follow these.
  static double waits_of(const Footprint& body);

  /// Returns the bytes at the beginnings of stretches (PhaseFacts::begun) if `runs` stretches have
  /// `bytes` bytes in all. For example, 4 stretches of 16 KiB each have 32 KiB at their beginnings.
  static double begun_of(double bytes, double runs);

  /// True if each iteration of a loop continues the stretches of the iteration before, and these
  /// are so few that prefetchers can follow all of them at a time.
  static bool goes_on(const Use& use);

  /// Returns the share of the bytes of all iterations of a loop that the loop fetches into a cache:
  /// `fetched` divided by the bytes that it would fetch if each iteration fetched its data anew.
  static double share_of(const Node& node, const Use& use, size_t cache, double fetched);

  /// Returns the number of loads that wait one after another in all iterations of a loop, which
  /// fetches `fetched` bytes into a cache. If goes_on(use), only loads at the beginnings of
  /// stretches wait.
  static double waits_of(const Node& node, const Use& use, size_t cache, double fetched);

  /// True if goes_on(use) and prefetchers are far ahead of the loop while it continues its
  /// stretches. This is so if it reads a single stretch, or a few stretches in different pages that
  /// it reads in short turns.
  static bool is_followed(const Use& use);

  /// Returns the turns in which one iteration of a loop reads its stretches. If an inner loop reads
  /// at least as many stretches in turns, these are the turns of the inner loop. Otherwise the
  /// iteration reads all its lines of one stretch, then all its lines of the next.
  static Turns turns_of(const Use& use);

  /// Returns the bytes at the beginnings of stretches (PhaseFacts::begun) of all iterations of a
  /// loop, which together fetch `fetched` bytes from memory.
  static double begun_of(const Node& node, const Use& use, double fetched);
  static double total_footprint(const Node& node);

  /// Computes the traffic of all loops, inner loops first. If the data of one iteration fits into a
  /// cache, the next iteration finds in the cache the data that both iterations use, and the loop
  /// fetches each line once. If the data does not fit, each iteration fetches its data anew.
  void finish_traffic();
  double capacity(size_t cache) const { return capacity_of(machine_, cache); }

  /// Returns the share of lines that are evicted from a cache before they are used again, from 0 to
  /// 1, if `bytes` bytes are used again and again. `cache` is 0 for L1, 1 for L2 and 2 for L3.
  double lost_share(size_t cache, double bytes) const;
  void add_traffic(const Node& node, size_t buffer, size_t cache, double bytes, double waits);
  void add_begun(const Node& node, const Use& use, double bytes);
  Fetched& fetched_of(size_t buffer);

  // ---- totals ----

  double registers_of(size_t buffer) const;
  double registers_of(const std::vector<size_t>& buffers) const;
  void finish_blocks();

  /// Returns the number of vector registers that a block can use. These are all registers, or all
  /// but one if the reduction is unrolled and multiply-adds cannot read a broadcast factor from
  /// memory. LLVM then loads the next factor ahead. For example, a tile of 14 x 1 on AVX2 has 8 to
  /// 80 spill instructions if its reduction is unrolled, and none if it is not.
  double available_registers(const BlockFacts& block) const;

  /// Returns the number of values that have to be loaded again although an earlier statement of the
  /// block has loaded them, because only `free` registers are left to keep them.
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
  // For each block, sets of indices of Register buffers. The buffers of a set are in scope
  // together.
  std::vector<std::vector<std::vector<size_t>>> block_buffers_;
  std::vector<std::vector<Sums>> block_sums_;
  std::vector<std::vector<Loaded>> block_loads_;
  std::vector<Fetched> fetched_;
  std::set<size_t> stored_;  // indices of the buffers that are stored to
};

}  // namespace tw::cost_model::facts

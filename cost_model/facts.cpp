// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "cost_model/operations.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/dot_products.h"

namespace tw::cost_model {
namespace {

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

constexpr int64_t page_bytes = 4 << 10;  // whose place in memory the system chooses
// The time of a division of f64 over that of as many bytes of f32: 8 and 5 cycles for 32 bytes on
// Intel's cores since Ice Lake.
constexpr double division_of_doubles = 1.6;
// Latency of a shuffle and an addition after it, in additions.
constexpr double shuffled_updates = 1.5;
// Cycles from the beginning of a tile's products to its sums (Intel 64 and IA-32 Architectures
// Optimization Reference Manual, "Intel AMX").
constexpr double core_tile_latency_cycles = 52;
// The addition behind a dot product, and the widening of a factor, take this share of the time of a
// multiplication. Cores multiply on two ports, and add integers on these and one or two others.
// Chosen for quantized networks on a Zen 3, whose predictions stay above their measured times.
constexpr double light_share = 0.25;

// Lines at the beginning of a stretch of memory until a prefetcher follows it, how many stretches
// one follows at a time, and how many loads a core waits for at once.
constexpr double lines_until_trained = 4, most_followed = 16, most_side_by_side = 10;
// Prefetchers ask memory for few lines ahead where a stretch begins, and for more as it goes on. A
// Zen 4 read whole arrays at 28 GB/s, stretches of 256 bytes to 8 KiB that do not continue each
// other at 9 to 11, of 16 KiB at 14 and of 32 KiB at 20.
constexpr double bytes_until_far_ahead = 8 << 10;
// Nothing is fetched ahead of such short stretches: a Zen 4 read stretches of one or two lines at 5
// to 6 GB/s.
constexpr double bytes_without_prefetch = 128;
// Lines that a core may take of one stretch before it turns to the next, where prefetchers are to
// follow several stretches. A Zen 4 that only read 2 to 16 of them in turns lost a tenth with 512
// bytes at a time, a third with 1 KiB and nearly half with 4 KiB. Kernels give prefetchers more
// time: a product by weights of 4 bits lost a tenth with 2 KiB.
constexpr double most_lines_in_turns = 32;

/// The probability that a Poisson variable of this mean is `count` or more.
double at_least(int count, double mean) {
  if (mean > 4.0 * count) return 1;
  double term = std::exp(-mean), below = 0;
  for (int i = 0; i < count; ++i) {
    below += term;
    term *= mean / (i + 1);
  }
  return std::clamp(1 - below, 0.0, 1.0);
}

double bytes_of(const Buffer& buffer) { return static_cast<double>(buffer.bytes()); }
double elements_of(const Buffer& buffer) { return static_cast<double>(buffer.elements()); }

/// The variables of the loops in the body that contain a store to the buffer.
std::vector<std::string> storing_loops(const Block& body, const std::string& buffer) {
  std::vector<std::string> loops;
  schedules::for_each(body, [&](const Stmt& stmt) {
    const Loop* loop = stmt.as<Loop>();
    bool stores = false;
    if (loop)
      schedules::for_each(*loop->body, [&](const Stmt& inner) {
        const Assign* assign = inner.as<Assign>();
        stores |= assign && assign->buffer == buffer;
      });
    if (stores) loops.push_back(loop->variable);
  });
  return loops;
}

/// A buffer in scope, and what the walk learns about it.
struct Known {
  const Buffer* buffer;
  bool is_output = false;
  bool is_constant = false;
  bool vectorized = false;
  const Allocate* allocation = nullptr;                        // nullptr for a global buffer
  size_t loops_around = 0;                                     // loops around the allocation
  std::optional<std::vector<std::string>> storing_loops = {};  // set where it is first asked for
};

/// Stretches of memory that inner loops read in turns.
struct Turns {
  double runs = 0;   ///< 0: no inner loop does
  double lines = 0;  ///< read of one stretch before the next one's turn
};

/// Memory of one buffer that a loop touches.
struct Use {
  size_t buffer = 0;
  Footprint body = {}, loop = {};  // footprints of one iteration and of all, by the largest access
  double body_aliased = 0;         // largest Footprint::aliased_bytes of one iteration
  Traffic direct{};                // bytes that one iteration fetches into each cache
  Traffic waits{};                 // loads of one iteration that nothing fetched ahead, in sequence
  double begun = 0;                // bytes of one iteration at the beginnings of stretches
  // Iterations of an inner loop leave gaps within a page, which later ones fill: the first reads
  // the lines 0, 4 and 8, the second 1, 5 and 9.
  bool is_scattered = false;
  Turns turns = {};
  AllOrigins origins = {};  // of the accesses in the loop
};

/// A serial loop or a task axis; the first node of a phase stands for the phase itself.
struct Node {
  int parent = -1;
  size_t first_inner_level = 0;  // levels from here on run within one iteration
  size_t depth = 0;              // serial nodes from the phase down to here
  bool is_task_axis = false;
  double trips = 1;
  double entries = 1;                // times that the loop starts, per kernel call
  double entries_per_iteration = 1;  // of the parent's body
  bool has_literal_bounds = true;
  std::vector<Use> uses;
  std::optional<size_t> block;

  double iterations() const { return entries * trips; }
};

struct Site {
  const Assign* assign;
  double copies = 1;     // of the statement in its block
  double registers = 1;  // vector registers that one copy's lanes fill
  double weight = 1;     // copies that run, where conditions skip some
  size_t first_inner_level = 0;
};

/// Addresses that the statements of a block load from one buffer, each counted once.
struct Loaded {
  size_t buffer;
  const Assign* latest = nullptr;  // the last statement that loads from the buffer
  size_t latest_body = 0;          // the loop body that contains `latest`
  AllOrigins origins = {};
  double addresses = 0;
  double shared = 0;       // values that earlier statements loaded too
  double most_shared = 0;  // those of one statement that wait for it at a time
};

/// Updates of one buffer by the statements of a block.
struct Sums {
  size_t buffer;
  AllOrigins origins = {};
  double updates = 0;  // unrolled statements
  double targets = 0;  // different elements
};

/// Bytes of a buffer that a phase fetches into each cache that begins without the buffer: `once`
/// for each line, and `again` for lines that were evicted since.
struct Fetched {
  size_t buffer;
  Traffic once{}, again{}, waits{};
  double begun = 0;
  bool is_stored = false;  // the phase stores to the buffer
};

/// Bytes of the cache; a level that the machine lacks has the bytes of the level before.
double capacity_of(const Machine& machine, size_t cache) {
  int64_t bytes = 0;
  for (size_t level = 0; level <= cache; ++level)
    bytes = std::max(bytes, machine.caches[level].bytes);
  return static_cast<double>(bytes);
}

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

  /// Arguments and scratch, in an order that is the same for all phases.
  const std::vector<Known>& known() const { return known_; }
  /// The arguments and scratch that the phase touches. Requires: walk().
  const std::vector<Fetched>& fetched() const { return fetched_; }

  Result<PhaseFacts> walk(const schedules::Phase& phase) {
    phase_.tasks = static_cast<double>(phase.tasks());
    open_node(1, true, false);
    for (const schedules::TaskAxis& axis : phase.axes) {
      levels_.push_back(make_level(levels_, axis.variable, 0, axis.extent, LoopKind::Serial));
      levels_.back().is_task_axis = true;
      open_node(levels_.back().trips, true, true);
    }
    task_node_ = node_;
    TW_RETURN_IF_ERROR(visit(*phase.body));
    finish_blocks();
    finish_traffic();
    count_loops();
    return std::move(phase_);
  }

 private:
  // ---- the walk ----

  Status visit(const Block& body) {
    for (size_t i = 0; i < body.size(); ++i) {
      const bool begins = i + 1 < body.size() && begins_tiles(body[i], body[i + 1]);
      if (begins) ++i;
      const bool are_tiles =
          begins || (has_core_tiles_ && !tile_sums_ && schedules::sums_of_tiles(body[i], target_));
      if (are_tiles) tile_sums_ = {levels_.size(), begins};
      TW_RETURN_IF_ERROR(visit(body[i]));
      if (are_tiles) tile_sums_.reset();
    }
    return {};
  }

  /// True if the statement sets the sums of the next one to 0, which are in tile registers there.
  bool begins_tiles(const Stmt& stmt, const Stmt& next) const {
    const bool may_begin = has_core_tiles_ && !tile_sums_;
    const std::string* sums = may_begin ? schedules::sums_of_tiles(next, target_) : nullptr;
    if (!sums) return false;
    const auto found = std::find_if(live_.rbegin(), live_.rend(), [&](size_t buffer) {
      return known_[buffer].buffer->name == *sums;
    });
    return found != live_.rend() && schedules::sets_to_zero(stmt, *known_[*found].buffer);
  }

  Status visit(const Stmt& stmt) {
    if (const auto branches = schedules::branches_of(stmt)) {
      TW_RETURN_IF_ERROR(visit_if(branches->taken));
      return visit_if(branches->otherwise);
    }
    return schedules::visit(
        stmt, [&](const Loop& loop) { return visit_loop(loop); },
        [&](const If& branch) { return visit_if(branch); },
        [&](const Assign& assign) { return visit_assign(assign); },
        [&](const Allocate& allocate) { return visit_allocate(allocate); },
        [&](const schedules::PrefetchLines& prefetch) { return visit_prefetch(prefetch); },
        // Synchronization of GPU threads costs nothing here: gpu_facts.cpp counts it.
        always<schedules::Barrier, schedules::Commit, schedules::Wait>(Status{}));
  }

  Status visit_loop(const Loop& loop) {
    if (const auto dot = schedules::dot_product(loop)) return visit_dot_product(*dot);
    if (loop.tile && schedules::has_core_tile(*loop.tile, target_)) return visit_core_tile(loop);
    levels_.push_back(make_level(levels_, loop.variable, loop.begin, loop.end, loop.kind));
    const int outer_node = node_;
    const double outer_weight = weight_;
    const bool serial = loop.kind != LoopKind::Unrolled && loop.kind != LoopKind::Vector;
    if (serial) {
      open_node(levels_.back().trips, levels_.back().has_literal_bounds, false);
      weight_ = 1;
    }
    const size_t outer_body = body_;
    if (loop.kind != LoopKind::Vector) body_ = ++bodies_;
    TW_RETURN_IF_ERROR(visit(*loop.body));
    body_ = outer_body;
    node_ = outer_node;
    weight_ = outer_weight;
    levels_.pop_back();
    return {};
  }

  /// A dot product is a multiply-add of lanes that have several neighbours each. Where the target
  /// has no instruction for it, each of the products that a lane sums is a vector.
  Status visit_dot_product(const DotProduct& dot) {
    TW_TRY(const size_t target, find(dot.sum->buffer, dot.sum->indices.size()));
    const schedules::DotInstruction* instruction = schedules::find_dot_instruction(
        target_, dot, known_[target].buffer->type, *dsl::as_int(dot.depth->end));
    if (instruction) {
      enter(*dot.lanes, LoopKind::Vector);
      TW_TRY(const bool is_one, has_neighbours(dot));
      if (is_one) TW_RETURN_IF_ERROR(add_dot_product(dot, *instruction, target));
      levels_.pop_back();
      if (is_one) return {};
    }
    enter(*dot.depth, LoopKind::Unrolled);
    enter(*dot.lanes, LoopKind::Vector);
    TW_RETURN_IF_ERROR(visit_assign(*dot.sum));
    levels_.resize(levels_.size() - 2);
    return {};
  }

  /// A tile of a core is one instruction, which takes the time of many multiply-adds. Its sums are
  /// in memory before and after the loops that continue them.
  Status visit_core_tile(const Loop& loop) {
    TW_TRY(const schedules::CoreNest nest, schedules::core_nest(loop));
    TW_TRY(const size_t target, find(nest.sum->buffer, nest.sum->indices.size()));
    const Core& core = machine_.core;
    const auto rows = static_cast<double>(nest.rows());
    const double dots = rows * schedules::most_core_extent;  // fewer groups take as long
    const double multiply_adds =
        dots / schedules::dots_per_cycle(*nest.tile, core) * core.fma_per_cycle;
    BlockFacts& block = current_block();
    const size_t outer = levels_.size();

    enter(*nest.column, LoopKind::Vector);
    const Site tile = make_site(*nest.sum, *known_[target].buffer);
    const Access sums = make_access(*known_[target].buffer, nest.sum->indices, levels_);
    block.instructions.fma += tile.weight;
    block.instructions.slow_dots += (multiply_adds - 1) * tile.weight;
    block.statements += tile.copies;
    add_chains(block, tile, sums, target, core_tile_latency_cycles / core.fma_latency_cycles);
    // Sums are loaded and stored where the loops begin and end that compute nothing but tiles.
    const double moved = rows * tile.weight / iterations_of_sums(sums, tile_sums_->outside);
    block.instructions.stores += moved;
    if (!tile_sums_->begin_with_zero) block.instructions.vector_loads += moved;
    levels_.resize(outer);

    enter(*nest.row, LoopKind::Unrolled);
    enter(*nest.column, LoopKind::Vector);
    Access stored = make_access(*known_[target].buffer, nest.sum->indices, levels_);
    stored.is_store = true;
    touch(stored, target);
    levels_.resize(outer);

    enter(*nest.row, LoopKind::Unrolled);
    enter(*nest.group, LoopKind::Unrolled);
    enter(*nest.column, LoopKind::Vector);
    describe(block, make_site(*nest.sum, *known_[target].buffer), *known_[target].buffer);
    enter(*nest.term, LoopKind::Vector);
    Operations multiply_add;
    multiply_add.fma = 1;
    multiply_add.flops = 2;
    add_flops(block, make_site(*nest.sum, *known_[target].buffer), multiply_add);
    levels_.resize(outer);

    TW_RETURN_IF_ERROR(add_tile_load(block, nest, *nest.by_row, *nest.row, *nest.group));
    return add_tile_load(block, nest, *nest.by_column, *nest.group, *nest.column);
  }

  /// The load of a tile whose rows are those of one loop, and whose neighbours are the iterations
  /// of the other, and groups of terms.
  Status add_tile_load(BlockFacts& block, const schedules::CoreNest& nest, const dsl::Read& read,
                       const Loop& rows, const Loop& neighbours) {
    TW_TRY(const size_t buffer, find(read.tensor, read.indices.size()));
    const size_t outer = levels_.size();
    enter(rows, LoopKind::Unrolled);
    enter(neighbours, LoopKind::Vector);
    enter(*nest.term, LoopKind::Vector);
    const Access access = make_access(*known_[buffer].buffer, read.indices, levels_);
    mark_vectorized(buffer, access);
    add_load(block, make_site(*nest.sum, *known_[buffer].buffer), access, buffer, true);
    touch(access, buffer);
    levels_.resize(outer);
    return {};
  }

  void enter(const Loop& loop, LoopKind kind) {
    levels_.push_back(make_level(levels_, loop.variable, loop.begin, loop.end, kind));
  }

  Status visit_if(const If& branch) {
    // A condition that differs between lanes is a mask, made once. All lanes go through the
    // statements.
    if (differs_by_lane(branch.condition)) {
      const double outer_share = lane_share_;
      lane_share_ *= probability(levels_, branch.condition);
      const bool outer_masked = std::exchange(masked_, true);
      const Status status = visit(*branch.body);
      masked_ = outer_masked;
      lane_share_ = outer_share;
      return status;
    }
    const double outer_weight = weight_;
    double copies = weight_;
    for (size_t i = current().first_inner_level; i < levels_.size(); ++i)
      copies *= code_copies(levels_[i]);
    current_block().instructions.tests += copies;
    kernel_.if_tests += current().iterations() * copies;
    weight_ *= probability(levels_, branch.condition);
    TW_RETURN_IF_ERROR(visit(*branch.body));
    weight_ = outer_weight;
    return {};
  }

  Status visit_allocate(const Allocate& allocate) {
    known_.push_back(
        {.buffer = &allocate.buffer, .allocation = &allocate, .loops_around = levels_.size()});
    live_.push_back(known_.size() - 1);
    if (allocate.buffer.scope == Scope::Local) kernel_.local_bytes += bytes_of(allocate.buffer);
    const Status status = visit(*allocate.body);
    live_.pop_back();
    return status;
  }

  Status visit_assign(const Assign& assign) {
    TW_TRY(const size_t target, find(assign.buffer, assign.indices.size()));
    const Operations operations = count_operations(
        assign, levels_, first_varying_level(),
        [&](const dsl::Read& read, size_t loop) { return is_stored_in(read, loop); });
    const Site site = make_site(assign, *known_[target].buffer);
    BlockFacts& block = current_block();
    if (const double terms = terms_of_tree(site, operations, target); terms > 0) {
      add_flops(block, site, operations);
      add_tree(block, site, operations, target, terms);
      return {};
    }
    add_operations(block, site, operations);
    TW_RETURN_IF_ERROR(add_reads(block, site, operations, target));
    add_target(block, site, target);
    describe(block, site, *known_[target].buffer);
    return {};
  }

  /// True if iterations of the loop store to the buffer that is read. Each iteration of a loop
  /// around the allocation has a buffer of its own.
  bool is_stored_in(const dsl::Read& read, size_t loop) {
    const auto found = find(read.tensor, read.indices.size());
    if (!found || !known_[*found].allocation) return false;
    Known& buffer = known_[*found];
    if (loop < buffer.loops_around) return true;
    if (!buffer.storing_loops)
      buffer.storing_loops = storing_loops(*buffer.allocation->body, buffer.buffer->name);
    return std::ranges::find(*buffer.storing_loops, levels_[loop].variable) !=
           buffer.storing_loops->end();
  }

  /// Elements between neighbours along a level; nullopt where they are not equally far apart.
  static std::optional<double> step_along(const Access& access, size_t level) {
    if (access.is_irregular_in(level)) return std::nullopt;
    double step = 0, stride = 1;
    for (size_t d = access.dimensions.size(); d > 0; --d) {
      for (const IndexTerm& term : access.dimensions[d - 1])
        if (term.level == level) step += term.coefficient * stride;
      stride *= static_cast<double>(access.extents[d - 1]);
    }
    return step;
  }

  /// True if both factors lie as instructions read them: the products of a lane side by side, and
  /// those of the second factor lane by lane. Requires: the loop over lanes is the last level.
  Result<bool> has_neighbours(const DotProduct& dot) {
    levels_.push_back(make_level(levels_, dot.depth->variable, dot.depth->begin, dot.depth->end,
                                 LoopKind::Vector));
    const size_t product = levels_.size() - 1, lane = product - 1;
    const auto depth = static_cast<double>(*dsl::as_int(dot.depth->end));
    bool all = true;
    for (const auto& [read, of_lane] : {std::pair(dot.shared, 0.0), std::pair(dot.own, depth)}) {
      TW_TRY(const size_t buffer, find(read->tensor, read->indices.size()));
      const Access access = make_access(*known_[buffer].buffer, read->indices, levels_);
      all &= step_along(access, product) == 1 && step_along(access, lane) == of_lane;
    }
    levels_.pop_back();
    return all;
  }

  /// Requires: the loop over lanes is the last level.
  Status add_dot_product(const DotProduct& dot, const schedules::DotInstruction& instruction,
                         size_t target) {
    const Site site = make_site(*dot.sum, *known_[target].buffer);
    BlockFacts& block = current_block();
    const double count = site.weight * site.registers;
    block.instructions.fma += count;
    block.instructions.slow_dots += (instruction.multiply_adds(target_.machine.core) - 1) * count;
    const int sums = (instruction.accumulates ? 0 : 1) + (instruction.by_pairs ? 1 : 0);
    block.instructions.arithmetic += light_share * sums * count;
    block.statements += site.copies * site.registers * (instruction.accumulates ? 1 : 2);
    add_target(block, site, target);
    describe(block, site, *known_[target].buffer);
    // The lanes of the one factor lie side by side, and so do the products of a lane. The other
    // factor is the same for all lanes, which are innermost for it.
    levels_.push_back(make_level(levels_, dot.depth->variable, dot.depth->begin, dot.depth->end,
                                 LoopKind::Vector));
    Operations multiply_add;
    multiply_add.fma = 1;
    multiply_add.flops = 2;
    add_flops(block, site, multiply_add);
    const double vectors = block.instructions.vector_loads;
    TW_TRY(const Operand own, add_read(block, site, *dot.own, target));
    const double widening =
        static_cast<double>(size_bytes(instruction.own)) / size_bytes(dot.own->type);
    const double loads = block.instructions.vector_loads - vectors;
    if (dot.digit) block.instructions.arithmetic += light_share * 2 * loads * digits_of_load(dot);
    if (widening > 1) block.instructions.arithmetic += light_share * widening * loads;
    std::swap(levels_[levels_.size() - 2], levels_.back());
    const double broadcasts = block.instructions.broadcast_loads;
    TW_TRY(const Operand shared, add_read(block, site, *dot.shared, target));
    // Loads broadcast 4 bytes or more; of fewer, they are a shuffle of their own.
    const int64_t bytes = instruction.depth * size_bytes(dot.shared->type);
    const int shuffles = (bytes < 4 ? 1 : 0) + (dot.shared->type != instruction.shared ? 1 : 0);
    block.instructions.arithmetic += shuffles * (block.instructions.broadcast_loads - broadcasts);
    block.operand_registers = std::max(block.operand_registers, own.registers + shared.registers);
    std::swap(levels_[levels_.size() - 2], levels_.back());
    levels_.pop_back();
    return {};
  }

  /// The number of digits that copies of a dot product take from one load: a vector is shifted and
  /// masked for each.
  double digits_of_load(const DotProduct& dot) {
    double digits = 1;
    for (size_t i = current().first_inner_level; i < levels_.size(); ++i) {
      const std::string& loop = levels_[i].variable;
      const bool is_loaded_anew = std::ranges::any_of(
          dot.own->indices, [&](const Expr& index) { return dsl::uses_var(index, loop); });
      if (dsl::uses_var(dot.digit->shift, loop) && !is_loaded_anew)
        digits *= code_copies(levels_[i]);
    }
    return digits;
  }

  Status visit_prefetch(const schedules::PrefetchLines& prefetch) {
    double lines = weight_ * static_cast<double>(prefetch.lines);
    for (size_t i = current().first_inner_level; i < levels_.size(); ++i)
      lines *= code_copies(levels_[i]);
    current_block().instructions.prefetches += lines;
    phase_.prefetched += current().iterations() * lines * schedules::prefetched_line_bytes;
    return {};
  }

  // ---- trees ----

  /// The first of the loops that repeat the statements of a block: its innermost serial loop.
  size_t first_varying_level() {
    const Node& node = current();
    const bool in_loop = node.parent >= 0 && !node.is_task_axis;
    return node.first_inner_level - (in_loop ? 1 : 0);
  }

  /// The number of partial sums that an unrolled loop adds up to one element, as at the end of a
  /// reduction over the lanes of a vector; 0 for any other statement.
  double terms_of_tree(const Site& site, const Operations& operations, size_t target) const {
    if (site.assign->combine == dsl::Combine::None || levels_.empty()) return 0;
    const size_t level = levels_.size() - 1;
    if (vector_level() || !is_unrolled(level, site) || operations.reads.size() != 1) return 0;
    const dsl::Read& read = *operations.reads[0];
    if (!site.assign->value.as<dsl::Read>()) return 0;
    const auto source = find(read.tensor, read.indices.size());
    if (!source || known_[*source].buffer->scope != Scope::Local) return 0;
    const Access from = make_access(*known_[*source].buffer, read.indices, levels_);
    const Access to = make_access(*known_[target].buffer, site.assign->indices, levels_);
    const bool is_one_sum = pattern(from, level) == Pattern::Contiguous && !to.depends_on(level);
    return is_one_sum ? levels_[level].trips : 0;
  }

  /// LLVM adds partial sums as vectors, in registers: first whole registers, then the halves of a
  /// register, each of which takes a shuffle and an addition.
  void add_tree(BlockFacts& block, const Site& site, const Operations& operations, size_t target,
                double terms) {
    const double most_lanes =
        machine_.core.vector_bytes / static_cast<double>(size_bytes(known_[target].buffer->type));
    const double registers = std::ceil(terms / most_lanes);
    const double halvings = std::ceil(std::log2(std::min(terms, most_lanes)));
    const double trees = site.weight / terms;
    block.instructions.arithmetic += trees * (registers - 1 + 2 * halvings);
    block.statements += site.copies / terms * (registers + 2 * halvings);
    const double depth = std::ceil(std::log2(registers)) + shuffled_updates * halvings;
    note_chains(block, std::max(1.0, site.copies / terms), depth, false, 1);
    const dsl::Read& read = *operations.reads[0];
    const size_t source = *find(read.tensor, read.indices.size());
    touch(make_access(*known_[source].buffer, read.indices, levels_), source);
    Access to = make_access(*known_[target].buffer, site.assign->indices, levels_);
    to.is_store = true;
    touch(to, target);
    describe(block, site, *known_[target].buffer);
    if (is_register(target)) return;
    block.instructions.stores += trees;
    if (known_[target].is_output) kernel_.output_writes += current().iterations() * site.weight;
  }

  // ---- loops ----

  Node& current() { return nodes_[static_cast<size_t>(node_)]; }

  void open_node(double trips, bool has_literal_bounds, bool is_task_axis) {
    Node node;
    node.parent = node_;
    node.first_inner_level = levels_.size();
    node.trips = trips;
    node.is_task_axis = is_task_axis;
    node.has_literal_bounds = has_literal_bounds;
    if (node_ >= 0) {
      const Node& parent = current();
      node.entries_per_iteration = weight_;
      // The node's own level is the last one; those between it and the parent are unrolled.
      for (size_t i = parent.first_inner_level; i + 1 < levels_.size(); ++i)
        node.entries_per_iteration *= code_copies(levels_[i]);
      node.entries = parent.iterations() * node.entries_per_iteration;
      node.depth = parent.depth + 1;
    }
    nodes_.push_back(std::move(node));
    node_ = static_cast<int>(nodes_.size()) - 1;
  }

  /// A vector loop runs all its lanes at once.
  static double code_copies(const Level& level) {
    return level.kind == LoopKind::Vector ? 1 : level.trips;
  }

  bool is_unrolled(size_t level, const Site& site) const {
    return level >= site.first_inner_level && levels_[level].kind == LoopKind::Unrolled &&
           levels_[level].trips > 1;
  }

  std::optional<size_t> vector_level() const {
    for (size_t i = levels_.size(); i > 0; --i)
      if (levels_[i - 1].kind == LoopKind::Vector && levels_[i - 1].trips > 1) return i - 1;
    return std::nullopt;
  }

  bool differs_by_lane(const Expr& condition) const {
    const auto level = vector_level();
    if (!level) return false;
    bool differs = false;
    dsl::for_each(condition, [&](const Expr& e) {
      const dsl::Var* v = e.as<dsl::Var>();
      differs |= v && v->name == levels_[*level].variable;
    });
    return differs;
  }

  /// Share of the registers of a contiguous vector that straddle two cache lines: 0 if every vector
  /// begins at a multiple of the register width, or of the line where the width does not divide it.
  double split_share(const Access& access, Pattern how) const {
    const auto level = vector_level();
    if (how != Pattern::Contiguous || !level) return 0;
    const double width = std::min(lanes() * size_of(access), machine_.core.vector_bytes * 1.0);
    const bool divides = std::fmod(lines_.bytes, width) == 0;
    if (is_aligned(access, levels_, divides ? width : lines_.bytes)) return 0;
    return std::min(1.0, width / lines_.bytes);
  }

  double lanes() const {
    double lanes = 1;
    for (const Level& level : levels_)
      if (level.kind == LoopKind::Vector) lanes *= level.trips;
    return lanes;
  }

  double registers_for(double lanes, double element_bytes) const {
    return lanes == 1 ? 1 : std::ceil(lanes * element_bytes / machine_.core.vector_bytes);
  }

  // ---- statements ----

  Result<size_t> find(const std::string& name, size_t rank) const {
    const auto check = [&](size_t i) -> Result<size_t> {
      if (known_[i].buffer->extents.size() == rank) return i;
      return fail(
          ErrorCode::Internal,
          fmt::format("[extract features] buffer {} has {} dimensions, an access has {}: the "
                      "program is not well formed",
                      name, known_[i].buffer->extents.size(), rank));
    };
    for (size_t i = live_.size(); i > 0; --i)
      if (known_[live_[i - 1]].buffer->name == name) return check(live_[i - 1]);
    for (size_t i = 0; i < known_.size(); ++i)
      if (is_global(i) && known_[i].buffer->name == name) return check(i);
    return fail(
        ErrorCode::Internal,
        fmt::format("[extract features] the program accesses {}, which is no argument, scratch "
                    "or allocated buffer: the program is not well formed",
                    name));
  }

  bool is_global(size_t i) const {
    const Scope scope = known_[i].buffer->scope;
    return scope == Scope::Argument || scope == Scope::Scratch;
  }
  bool is_register(size_t i) const { return known_[i].buffer->scope == Scope::Register; }

  Site make_site(const Assign& assign, const Buffer& target) {
    Site site{&assign};
    site.first_inner_level = current().first_inner_level;
    for (size_t i = site.first_inner_level; i < levels_.size(); ++i)
      site.copies *= code_copies(levels_[i]);
    // Wider operands (f32 accumulators of bf16 products) decide how many registers a copy needs.
    site.registers = registers_for(lanes(), size_bytes(target.type));
    site.weight = site.copies * weight_;
    return site;
  }

  BlockFacts& current_block() {
    Node& node = current();
    if (!node.block) {
      node.block = phase_.blocks.size();
      phase_.blocks.emplace_back();
      block_nodes_.push_back(node_);
      block_buffers_.emplace_back();
      block_sums_.emplace_back();
      block_loads_.emplace_back();
    }
    const size_t index = *node.block;
    std::vector<std::vector<size_t>>& alive = block_buffers_[index];
    std::vector<size_t> registers;
    for (const size_t buffer : live_)
      if (is_register(buffer)) registers.push_back(buffer);
    if (alive.empty() || alive.back() != registers) alive.push_back(std::move(registers));
    return phase_.blocks[index];
  }

  void add_operations(BlockFacts& block, const Site& site, const Operations& operations) {
    const double instructions = site.weight * site.registers;
    block.instructions.fma += instructions * operations.fma;
    block.instructions.arithmetic += instructions * (operations.arithmetic + operations.selects);
    // AVX2 has no masked multiply-add: it takes a multiplication, a mask and an addition.
    const bool has_mask_registers = machine_.core.vector_bytes >= 64;
    if (masked_ && !has_mask_registers)
      block.instructions.arithmetic += 2 * instructions * operations.fma;
    block.instructions.arithmetic += instructions * operations.roots;
    block.instructions.divisions +=
        instructions * divider_work(site) * (operations.divisions + operations.roots);
    // Calls of values that the loop does not change are made once before it.
    const double trips = first_varying_level() < current().first_inner_level ? current().trips : 1;
    block.instructions.calls +=
        instructions * operations.calls + operations.hoisted * weight_ / std::max(1.0, trips);
    block.statements += site.copies * site.registers;
    add_flops(block, site, operations);
  }

  /// The time to divide a register of this statement, in divisions of 32 bytes of f32.
  double divider_work(const Site& site) const {
    const double element = size_bytes(site.assign->value.type());
    const double bytes = std::min(lanes() * element, machine_.core.vector_bytes * 1.0);
    return std::max(1.0, bytes / 32) * (element > 4 ? division_of_doubles : 1);
  }

  void add_flops(BlockFacts& block, const Site& site, const Operations& operations) {
    const double executions = current().iterations();
    const double flops = site.weight * lanes() * operations.flops;
    block.flops += flops;
    kernel_.flops += executions * flops;
    kernel_.useful_flops += executions * flops * operations.useful * lane_share_;
    kernel_.fma_flops += executions * site.weight * lanes() * 2 * operations.fma;
    kernel_.selects += executions * site.weight * operations.selects;
    kernel_.partial_flops += executions * flops * (1 - evenness() * lane_share_);
  }

  /// The average share of a whole tile that the trimmed loops and guards around leave.
  double evenness() const {
    double share = weight_;
    for (const Level& level : levels_)
      if (level.most_trips > 0) share *= level.trips / level.most_trips;
    return std::clamp(share, 0.0, 1.0);
  }

  Status add_reads(BlockFacts& block, const Site& site, const Operations& operations,
                   size_t target) {
    double operands = 0;
    for (const dsl::Read* read : operations.reads) {
      TW_TRY(const Operand operand, add_read(block, site, *read, target));
      operands += operand.registers;
    }
    // An index that all lanes share is in a scalar register.
    for (const dsl::Read* read : operations.index_reads) {
      TW_TRY(const Operand operand, add_read(block, site, *read, target));
      if (operand.how != Pattern::Broadcast) operands += operand.registers;
    }
    block.operand_registers = std::max(block.operand_registers, operands);
    return {};
  }

  /// An operand as a block loads it.
  struct Operand {
    Pattern how = Pattern::Broadcast;
    double registers = 0;  ///< vector registers that hold values for later statements
  };

  Result<Operand> add_read(BlockFacts& block, const Site& site, const dsl::Read& read,
                           size_t target) {
    TW_TRY(const size_t buffer, find(read.tensor, read.indices.size()));
    const Access access = make_access(*known_[buffer].buffer, read.indices, levels_);
    mark_vectorized(buffer, access);
    if (is_register(buffer)) return Operand{};
    const Operand operand = add_load(block, site, access, buffer, is_register(target));
    touch(access, buffer);
    return operand;
  }

  void mark_vectorized(size_t buffer, const Access& access) {
    const auto level = vector_level();
    if (level && pattern(access, *level) == Pattern::Contiguous) known_[buffer].vectorized = true;
  }

  /// Counts the loads of one operand, each address once a block.
  Operand add_load(BlockFacts& block, const Site& site, const Access& access, size_t buffer,
                   bool into_registers) {
    const auto runs = [&](size_t level) { return is_unrolled(level, site); };
    const double of_statement = distinct_elements(access, levels_, runs);
    // Taps of a window are statements of their own where padding cuts some of them. What several
    // share is loaded once and kept, unless a store or a branch lies in between.
    double addresses = of_statement;
    if (into_registers && weight_ == 1) {
      Loaded& loaded = loaded_from(*current().block, buffer);
      add_origin(access, loaded.origins);
      const double together = are_one(loaded.origins)
                                  ? of_statement
                                  : distinct_elements(access, levels_, runs, loaded.origins);
      addresses = std::clamp(together - loaded.addresses, 0.0, of_statement);
      if (loaded.latest && loaded.latest != site.assign) {
        const double shared = of_statement - addresses;
        // Copies of two statements of one body alternate, those of statements in different ones
        // follow each other.
        const bool alternate = loaded.latest_body == body_;
        loaded.most_shared =
            std::max(loaded.most_shared, alternate ? std::min(1.0, shared) : shared);
        loaded.shared += shared;
      }
      loaded.addresses = std::max(loaded.addresses, together);
      loaded.latest = site.assign;
      loaded.latest_body = body_;
    }
    const auto level = vector_level();
    const Pattern how = level ? pattern(access, *level) : Pattern::Contiguous;
    const double per_address = how == Pattern::Broadcast ? 1
                               : how == Pattern::Contiguous
                                   ? registers_for(lanes(), size_of(access))
                                   : lanes();
    // A value that stays the same over the innermost loop is loaded before it, if no store to
    // memory may change it meanwhile.
    const bool hoisted = into_registers && !varies_in_innermost_loop(access);
    const double share = weight_ / (hoisted ? std::max(1.0, current().trips) : 1.0);
    double* counter = how == Pattern::Broadcast ? &block.instructions.broadcast_loads
                      : how == Pattern::Strided ? &block.instructions.strided_loads
                      : how == Pattern::Gather  ? &block.instructions.gather_loads
                      : level                   ? &block.instructions.vector_loads
                                                : &block.instructions.broadcast_loads;
    const double loads = addresses * per_address * share;
    *counter += loads;
    block.instructions.split_accesses += loads * split_share(access, how);
    const double loaded = how == Pattern::Contiguous ? addresses * lanes() * share : loads;
    kernel_.loaded_bytes += current().iterations() * loaded * size_of(access);
    const double registers = how == Pattern::Broadcast ? 1 : site.registers;
    return {how, (hoisted ? of_statement : kept_values(site, access)) * registers};
  }

  static double size_of(const Access& access) { return size_bytes(access.buffer->type); }

  bool varies_in_innermost_loop(const Access& access) const {
    const Node& node = nodes_[static_cast<size_t>(node_)];
    if (node.parent < 0 || node.is_task_axis) return true;
    return access.depends_on(node.first_inner_level - 1);
  }

  /// In the order of the unrolled statements a value is reused across the outermost unrolled loop
  /// whose iterations share it: all of them, if the access does not depend on the loop, or
  /// neighbours, as taps of a window do. What an iteration of that loop shares must be kept.
  double kept_values(const Site& site, const Access& access) const {
    for (size_t i = site.first_inner_level; i < levels_.size(); ++i) {
      if (!is_unrolled(i, site)) continue;
      const double shared = shared_values(site, access, i);
      if (shared > 0) return std::max(1.0, shared);
    }
    return 1;
  }

  /// Values that an iteration of an unrolled loop has in common with the next one.
  double shared_values(const Site& site, const Access& access, size_t loop) const {
    const auto values = [&](size_t first) {
      return distinct_elements(access, levels_, [&](size_t level) {
        return level >= first && is_unrolled(level, site);
      });
    };
    if (!access.depends_on(loop)) return values(loop + 1);
    const double of_one = values(loop + 1), trips = levels_[loop].trips;
    return of_one > 1 ? (trips * of_one - values(loop)) / (trips - 1) : 0;
  }

  void add_target(BlockFacts& block, const Site& site, size_t target) {
    Access access = make_access(*known_[target].buffer, site.assign->indices, levels_);
    access.is_store = true;
    mark_vectorized(target, access);
    add_chains(block, site, access, target);
    if (is_register(target)) return;
    add_store(block, site, access, target);
    touch(access, target);
  }

  void add_store(BlockFacts& block, const Site& site, const Access& access, size_t target) {
    const auto level = vector_level();
    const Pattern how = level ? pattern(access, *level) : Pattern::Contiguous;
    const bool scattered = how == Pattern::Strided || how == Pattern::Gather;
    const double stores = site.weight * (scattered ? lanes() : site.registers);
    block.instructions.stores += stores;
    block.instructions.split_accesses += stores * split_share(access, how);
    if (scattered) block.instructions.scattered_stores += stores;
    const double elements = current().iterations() * site.weight * lanes();
    if (known_[target].is_output) kernel_.output_writes += elements;
    if (site.assign->combine == dsl::Combine::None) return;
    // Read, combine, write: the read is a load of its own.
    (scattered ? block.instructions.strided_loads : block.instructions.vector_loads) += stores;
    kernel_.combine_bytes += 2 * elements * size_of(access);
    kernel_.loaded_bytes += elements * size_of(access);
  }

  /// Statements that update the same element wait for each other, whether they are copies of one or
  /// of several, as the taps of a window are where padding cuts some of them.
  /// An update takes as long as `latency` multiply-adds.
  void add_chains(BlockFacts& block, const Site& site, const Access& access, size_t target,
                  double latency = 1) {
    if (site.assign->combine == dsl::Combine::None) return;
    Sums& sums = sums_of(*current().block, target);
    sums.updates += site.copies;
    add_origin(access, sums.origins);
    const auto runs = [&](size_t level) { return is_unrolled(level, site); };
    sums.targets = std::max(sums.targets, distinct_elements(access, levels_, runs, sums.origins));
    note_chains(block, sums.targets * site.registers, latency * sums.updates / sums.targets,
                !varies_in_innermost_loop(access), iterations_of_sums(access));
  }

  /// Notes the updates of a statement that wait for each other, unless another statement of the
  /// block has more.
  static void note_chains(BlockFacts& block, double chains, double depth, bool loop_reduces,
                          double iterations) {
    if (chains * depth < block.accumulators * block.chain) return;
    block.accumulators = chains;
    block.chain = block.reduction_depth = depth;
    block.loop_reduces = loop_reduces;
    block.sum_iterations = iterations;
  }

  /// Iterations of the serial loops that update the same elements, from the innermost loop outward,
  /// without the first `outside` of all loops.
  double iterations_of_sums(const Access& access, size_t outside = 0) const {
    double iterations = 1;
    for (int n = node_; n >= 0; n = nodes_[static_cast<size_t>(n)].parent) {
      const Node& node = nodes_[static_cast<size_t>(n)];
      const bool continues = node.parent >= 0 && !node.is_task_axis &&
                             node.first_inner_level > outside &&
                             !access.depends_on(node.first_inner_level - 1);
      if (!continues) break;
      iterations *= node.trips;
    }
    return iterations;
  }

  Loaded& loaded_from(size_t block, size_t buffer) {
    for (Loaded& loaded : block_loads_[block])
      if (loaded.buffer == buffer) return loaded;
    return block_loads_[block].emplace_back(Loaded{.buffer = buffer});
  }

  Sums& sums_of(size_t block, size_t buffer) {
    for (Sums& sums : block_sums_[block])
      if (sums.buffer == buffer) return sums;
    return block_sums_[block].emplace_back(Sums{buffer});
  }

  void describe(BlockFacts& block, const Site& site, const Buffer& target) {
    const double size = size_bytes(target.type);
    const double used = lanes() * size, given = site.registers * machine_.core.vector_bytes;
    if (block.lanes > lanes()) return;
    block.lanes = lanes();
    block.lane_use = used / given;
    block.element_bytes = size;
    block.unrolled_loops = 0;
    for (size_t i = site.first_inner_level; i < levels_.size(); ++i)
      block.unrolled_loops += is_unrolled(i, site) ? 1 : 0;
  }

  // ---- memory ----

  Use& use_of(Node& node, size_t buffer) {
    for (Use& use : node.uses)
      if (use.buffer == buffer) return use;
    node.uses.push_back({.buffer = buffer});
    return node.uses.back();
  }

  /// Notes the access's footprint in each loop around it, together with that of other accesses of
  /// the buffer there.
  void touch(const Access& access, size_t buffer) {
    if (access.is_store) stored_.insert(buffer);
    // A loop's footprint is that of its parent's body where no unrolled loop stands between.
    size_t from = levels_.size() + 1;
    Footprint of_one;
    for (int n = node_; n >= 0; n = nodes_[static_cast<size_t>(n)].parent) {
      Node& node = nodes_[static_cast<size_t>(n)];
      Use& use = use_of(node, buffer);
      add_origin(access, use.origins);
      const bool is_alone = are_one(use.origins);
      const auto footprint_from = [&](size_t first) {
        const auto runs = [&](size_t level) { return level >= first; };
        if (!is_alone) return footprint(access, levels_, runs, lines_, use.origins);
        if (first != from) of_one = footprint(access, levels_, runs, lines_);
        from = first;
        return of_one;
      };
      const Footprint body = footprint_from(node.first_inner_level);
      if (body.bytes > use.body.bytes) use.body = body;
      use.body_aliased = std::max(use.body_aliased, body.aliased_bytes);
      const Footprint loop = footprint_from(node.parent < 0 ? 0 : node.first_inner_level - 1);
      if (loop.bytes > use.loop.bytes) use.loop = loop;
      if (n != node_) continue;
      const double weight = std::min(1.0, weight_);
      for (double& direct : use.direct) direct = std::max(direct, body.bytes * weight);
      if (access.is_store) continue;
      for (double& waits : use.waits) waits = std::max(waits, waits_of(body) * weight);
      use.begun = std::max(use.begun, begun_of(body.bytes, body.runs) * weight);
    }
  }

  /// Lines at the beginning of a stretch, which prefetchers have not yet seen to be one.
  static double untrained(const Footprint& footprint) {
    return std::min(footprint.lines_a_run, lines_until_trained);
  }

  /// The waits of a body that reads stretches of several pages side by side. Prefetchers follow
  /// stretches of one page by their distance, and a single one by its lines.
  static double waits_of(const Footprint& body) {
    if (body.runs < 2 || body.distance < page_bytes) return 0;
    return std::max(1.0, body.runs / most_side_by_side) * untrained(body);
  }

  /// Bytes at the beginnings of stretches of `bytes` in all, where memory is slow. Those of
  /// stretches so short that nothing fetches their lines ahead count twice.
  static double begun_of(double bytes, double runs) {
    if (bytes <= runs * bytes_without_prefetch) return 2 * bytes;
    return std::min(bytes, runs * bytes_until_far_ahead);
  }

  /// True if each iteration of a loop goes on along the stretches of the one before, and these are
  /// few enough to be followed.
  static bool goes_on(const Use& use) {
    return use.body.runs <= most_followed && use.loop.runs <= use.body.runs &&
           use.loop.bytes > use.body.bytes;
  }

  /// The share that a loop fetches, of the bytes that it would fetch if iterations shared nothing.
  static double share_of(const Node& node, const Use& use, size_t cache, double fetched) {
    const double anew = node.trips * use.direct[cache];
    return anew > 0 ? fetched / anew : 0;
  }

  /// The waits of all iterations of a loop that fetches `fetched` of the bytes that its iterations
  /// touch. Where the loop goes on, only the beginnings of its stretches are waited for.
  static double waits_of(const Node& node, const Use& use, size_t cache, double fetched) {
    const double each = use.waits[cache] * share_of(node, use, cache, fetched);
    if (!goes_on(use) || use.waits[cache] > waits_of(use.body)) return node.trips * each;
    return std::min(node.trips * each,
                    use.waits[cache] * untrained(use.loop) / untrained(use.body));
  }

  /// True if prefetchers follow the stretches of a loop's iterations as the loop goes on along
  /// them: one that is read from end to end, or a few in different pages.
  static bool is_followed(const Use& use) {
    const Footprint& body = use.body;
    if (use.is_scattered || use.begun > begun_of(body.bytes, body.runs) || !goes_on(use))
      return false;
    return body.runs <= 1 ||
           (body.distance >= page_bytes && turns_of(use).lines <= most_lines_in_turns);
  }

  /// The turns in which the stretches of one iteration are read: an inner loop that goes on along
  /// all of them changes between them more often than the iteration as a whole.
  static Turns turns_of(const Use& use) {
    if (use.turns.runs >= use.body.runs) return use.turns;
    return {use.body.runs, use.body.lines_a_run};
  }

  /// Bytes that all iterations of a loop fetch from memory at the beginnings of stretches.
  static double begun_of(const Node& node, const Use& use, double fetched) {
    const double all = node.trips * use.begun * share_of(node, use, cache_levels - 1, fetched);
    if (!is_followed(use)) return all;
    // Four whole rows of a matrix are one stretch of memory, but a core that reads them side by
    // side begins four.
    return std::min(all, begun_of(use.loop.bytes, std::max(use.loop.runs, use.body.runs)));
  }

  static double total_footprint(const Node& node) {
    double bytes = 0;
    for (const Use& use : node.uses) bytes += use.body.bytes;
    return bytes;
  }

  /// Inner loops first: where an iteration's data fits into a cache, what the next iteration shares
  /// with it is still there, and the loop fetches each line once; elsewhere each iteration pays
  /// anew.
  void finish_traffic() {
    for (size_t n = nodes_.size(); n > 0; --n) {
      Node& node = nodes_[n - 1];
      const double body = total_footprint(node);
      for (size_t c = 0; c < cache_levels; ++c) {
        const double lost = lost_share(c, body);
        for (Use& use : node.uses) {
          const double anew = node.trips * use.direct[c];
          // Inner loops that fetch lines again can make one iteration fetch more than the loop
          // touches.
          const double once = std::min(anew, std::max(use.direct[c], use.loop.bytes));
          const bool is_aliased = c == 0 && use.body_aliased > capacity(c);
          const double fetched = is_aliased ? anew : once + lost * (anew - once);
          add_traffic(node, use.buffer, c, fetched, waits_of(node, use, c, fetched));
          if (c + 1 == cache_levels) add_begun(node, use, begun_of(node, use, fetched));
        }
      }
    }
    phase_.footprint = total_footprint(nodes_[0]);
    phase_.task_footprint = total_footprint(nodes_[static_cast<size_t>(task_node_)]);
  }

  double capacity(size_t cache) const { return capacity_of(machine_, cache); }

  /// The share of `bytes`, touched again and again, that is not in the cache when it is touched.
  double lost_share(size_t cache, double bytes) const {
    const CacheLevel& level = machine_.caches[cache];
    const double ways = level.ways, filled = bytes / std::max(1.0, capacity(cache));
    // Arrays fill the sets of a cache that addresses index evenly, as far as its ways are larger
    // than a page; other data that passes takes a way of each set.
    if (level.way_bytes() <= page_bytes) return filled <= 1 - 1 / ways ? 0 : 1;
    // Pages lie in memory at random, so the number of them that share the same sets is Poisson's.
    // Where these are more than the ways, each throws out the next that is needed.
    return at_least(level.ways, ways * filled);
  }

  void add_traffic(const Node& node, size_t buffer, size_t cache, double bytes, double waits) {
    if (node.parent < 0) {
      const double footprint = use_of(nodes_[0], buffer).body.bytes;
      Fetched& fetched = fetched_of(buffer);
      fetched.once[cache] = std::min(bytes, footprint);
      fetched.again[cache] = bytes - fetched.once[cache];
      fetched.waits[cache] = waits;
      fetched.is_stored = stored_.contains(buffer);
      return;
    }
    Node& parent = nodes_[static_cast<size_t>(node.parent)];
    Use& use = use_of(parent, buffer);
    use.direct[cache] += node.entries_per_iteration * bytes;
    use.waits[cache] += node.entries_per_iteration * waits;
  }

  void add_begun(const Node& node, const Use& use, double bytes) {
    if (node.parent < 0) {
      fetched_of(use.buffer).begun = bytes;
      return;
    }
    Use& outer = use_of(nodes_[static_cast<size_t>(node.parent)], use.buffer);
    outer.begun += node.entries_per_iteration * bytes;
    const bool fills_gaps = use.loop.runs < use.body.runs && use.body.distance < page_bytes;
    outer.is_scattered |= use.is_scattered || fills_gaps;
    const bool goes_nowhere = use.loop.bytes <= use.body.bytes;
    if (!goes_nowhere && !is_followed(use)) return;
    const Turns turns = goes_nowhere ? use.turns : turns_of(use);
    if (turns.runs <= 1) return;
    outer.turns.runs = std::max(outer.turns.runs, turns.runs);
    outer.turns.lines = std::max(outer.turns.lines, turns.lines);
  }

  Fetched& fetched_of(size_t buffer) {
    for (Fetched& fetched : fetched_)
      if (fetched.buffer == buffer) return fetched;
    return fetched_.emplace_back(Fetched{buffer});
  }

  // ---- totals ----

  double registers_of(size_t buffer) const {
    const Buffer& b = *known_[buffer].buffer;
    if (!known_[buffer].vectorized) return elements_of(b);
    const double row = static_cast<double>(b.extents.empty() ? 1 : b.extents.back());
    return elements_of(b) / std::max(1.0, row) *
           std::ceil(row * size_bytes(b.type) / machine_.core.vector_bytes);
  }

  double registers_of(const std::vector<size_t>& buffers) const {
    double registers = 0;
    for (const size_t buffer : buffers) registers += registers_of(buffer);
    return registers;
  }

  void finish_blocks() {
    for (size_t i = 0; i < phase_.blocks.size(); ++i) {
      BlockFacts& block = phase_.blocks[i];
      const Node& node = nodes_[static_cast<size_t>(block_nodes_[i])];
      block.executions = node.iterations();
      block.trips = node.is_task_axis || node.parent < 0 ? 1 : node.trips;
      block.in_loop = !node.is_task_axis && node.parent >= 0;
      block.serial_depth = static_cast<double>(node.depth);
      for (const std::vector<size_t>& alive : block_buffers_[i])
        block.buffer_registers = std::max(block.buffer_registers, registers_of(alive));
      const double needed = block.buffer_registers + block.operand_registers;
      const double available = available_registers(block);
      block.spills = std::max(0.0, needed - available);
      block.reloads = reloads(block_loads_[i], std::max(0.0, available - needed));
      add_footprints(block, block_nodes_[i]);
      add_to_kernel(block);
    }
  }

  /// Number of vector registers that a block can use. If multiply-adds cannot take their broadcast
  /// factor from memory, LLVM loads the factors of an unrolled reduction ahead, so tiles that leave
  /// no register for this spill (14 x 1 on AVX2: 8 to 80 spill instructions where the reduction is
  /// unrolled, none where it is not).
  double available_registers(const BlockFacts& block) const {
    const bool loads_ahead = block.chain > 1 && !machine_.core.embedded_broadcast;
    return machine_.core.vector_registers - (loads_ahead ? 1 : 0);
  }

  /// Values that statements share where only `free` registers are left for them.
  static double reloads(const std::vector<Loaded>& loads, double free) {
    double shared = 0, kept = 0;
    for (const Loaded& loaded : loads) {
      shared += loaded.shared;
      kept += loaded.most_shared;
    }
    return kept > free ? shared * (1 - free / kept) : 0;
  }

  void add_footprints(BlockFacts& block, int innermost) {
    for (int n = innermost; n >= 0; n = nodes_[static_cast<size_t>(n)].parent) {
      const Node& node = nodes_[static_cast<size_t>(n)];
      block.footprints.push_back(total_footprint(node));
      if (node.is_task_axis) break;
    }
  }

  void add_to_kernel(const BlockFacts& block) {
    kernel_.instructions.add(block.instructions, block.executions);
    kernel_.statements += block.statements;
    if (block.flops > 0 && block.lane_use > 0)
      kernel_.lane_flops += block.flops * block.executions / block.lane_use;
  }

  void count_loops() {
    for (size_t n = static_cast<size_t>(task_node_) + 1; n < nodes_.size(); ++n) {
      phase_.serial_iterations += nodes_[n].iterations();
      phase_.loop_entries += nodes_[n].entries;
      if (!nodes_[n].has_literal_bounds) phase_.dynamic_entries += nodes_[n].entries;
    }
  }

  const Target& target_;
  const Machine& machine_;
  const bool has_core_tiles_;
  /// A statement that computes nothing but tiles of a core, whose sums are in registers meanwhile.
  struct TileSums {
    size_t outside;  ///< number of the loops around it
    bool begin_with_zero;
  };
  std::optional<TileSums> tile_sums_;  ///< the statement around
  const CacheLines lines_ = lines_of(machine_.caches[0]);
  KernelFacts& kernel_;
  PhaseFacts phase_;
  std::vector<Known> known_;
  std::vector<size_t> live_;  // allocated buffers in scope
  std::vector<Level> levels_;
  std::vector<Node> nodes_;
  int node_ = -1;
  int task_node_ = 0;
  double weight_ = 1;      // of the conditions within the current node
  bool masked_ = false;    // statements are under a condition that differs between lanes
  double lane_share_ = 1;  // of the lanes that meet it
  size_t body_ = 0;        // number of the body of the innermost loop that is no vector loop
  size_t bodies_ = 0;      // such bodies so far
  std::vector<int> block_nodes_;
  // For each block, the sets of Register buffers that are in scope at the same time.
  std::vector<std::vector<std::vector<size_t>>> block_buffers_;
  std::vector<std::vector<Sums>> block_sums_;
  std::vector<std::vector<Loaded>> block_loads_;
  std::vector<Fetched> fetched_;
  std::set<size_t> stored_;  // buffers
};

/// The traffic of phases that run one after the other, call after call, and find in the caches what
/// earlier phases left.
class CallSequence {
 public:
  CallSequence(const Machine& machine, dsl::CacheState state, std::vector<Known> known,
               std::vector<std::vector<Fetched>> phases)
      : machine_(machine), state_(state), known_(std::move(known)), phases_(std::move(phases)) {}

  void add_traffic(size_t phase, PhaseFacts& facts) const {
    Traffic& traffic = facts.traffic;
    for (const Fetched& fetched : phases_[phase])
      for (size_t cache = 0; cache < cache_levels; ++cache) {
        const double lost = evicted_share(all_bytes(), cache);
        // A buffer that is not known to all phases is local to a task.
        const double cold =
            fetched.buffer < known_.size() ? cold_share(phase, fetched.buffer, cache) : lost;
        const double bytes = fetched.once[cache] + fetched.again[cache];
        const double moved =
            fetched.once[cache] * cold + fetched.again[cache] * std::max(cold, lost);
        traffic[cache] += moved;
        const double share = bytes > 0 ? moved / bytes : 0;
        facts.waits[cache] += fetched.waits[cache] * share;
        if (cache + 1 < cache_levels) continue;
        facts.begun += fetched.begun * share;
        // Lines that were stored to are written back. Memory reads or writes, caches do both.
        const double written_back = fetched.is_stored ? bytes * lost : 0;
        traffic[cache] += written_back;
        facts.written_back += written_back;
      }
  }

 private:
  /// The share of a buffer that the phase has to fetch into the cache: 0 where the bytes touched
  /// since its last use fill at most half of the cache, 1 where they exceed the cache or other
  /// operators evicted it.
  double cold_share(size_t phase, size_t buffer, size_t cache) const {
    size_t back = 1;  // phases since the last use of the buffer, in this call or the previous one
    while (back < phases_.size() && !touches(before(phase, back), buffer)) ++back;
    if (back > phase && is_evicted(cache, known_[buffer])) return 1;
    return evicted_share(bytes_since(phase, back), cache);
  }

  double evicted_share(double bytes, size_t cache) const {
    return std::clamp(2 * bytes / std::max(1.0, capacity_of(machine_, cache)) - 1, 0.0, 1.0);
  }

  double all_bytes() const {
    double bytes = 0;
    for (const Known& known : known_) bytes += bytes_of(*known.buffer);
    return bytes;
  }

  /// Bytes touched between two uses of an element, in this phase and the phase `back` before it:
  /// all bytes of the phases in between, and half of the bytes of either phase, as elements lie
  /// anywhere in a buffer.
  double bytes_since(size_t phase, size_t back) const {
    double bytes = 0;
    for (size_t buffer = 0; buffer < known_.size(); ++buffer) {
      double share = 0;
      for (size_t i = 0; i <= back; ++i)
        if (touches(before(phase, i), buffer)) share += i == 0 || i == back ? 0.5 : 1;
      bytes += std::min(1.0, share) * bytes_of(*known_[buffer].buffer);
    }
    return bytes;
  }

  size_t before(size_t phase, size_t back) const {
    return (phase + phases_.size() - back) % phases_.size();
  }

  bool touches(size_t phase, size_t buffer) const {
    return std::ranges::any_of(phases_[phase],
                               [&](const Fetched& f) { return f.buffer == buffer; });
  }

  /// True where other operators of the network evicted the buffer from the cache since the previous
  /// call used it (dsl::CacheState).
  bool is_evicted(size_t cache, const Known& known) const {
    if (state_ == dsl::CacheState::Hot || !(known.is_constant || known.is_output)) return false;
    const bool from_memory = known.is_constant && state_ == dsl::CacheState::NetworkMemory;
    return from_memory || cache + 1 < cache_levels;
  }

  const Machine& machine_;
  const dsl::CacheState state_;
  const std::vector<Known> known_;
  const std::vector<std::vector<Fetched>> phases_;
};

void add_buffers(const Program& program, KernelFacts& facts) {
  for (const schedules::Argument& argument : program.arguments) {
    if (argument.only_prepares) continue;
    facts.argument_bytes += bytes_of(argument.buffer);
    if (argument.constant) facts.constant_bytes += bytes_of(argument.buffer);
    if (!argument.is_output) continue;
    facts.output_bytes += bytes_of(argument.buffer);
    facts.output_elements += elements_of(argument.buffer);
  }
  for (const Buffer& buffer : program.scratch) facts.scratch_bytes += bytes_of(buffer);
}

}  // namespace

void Instructions::add(const Instructions& other, double times) {
  fma += times * other.fma;
  slow_dots += times * other.slow_dots;
  arithmetic += times * other.arithmetic;
  calls += times * other.calls;
  divisions += times * other.divisions;
  vector_loads += times * other.vector_loads;
  broadcast_loads += times * other.broadcast_loads;
  strided_loads += times * other.strided_loads;
  gather_loads += times * other.gather_loads;
  stores += times * other.stores;
  scattered_stores += times * other.scattered_stores;
  split_accesses += times * other.split_accesses;
  tests += times * other.tests;
  prefetches += times * other.prefetches;
}

const BlockFacts* KernelFacts::hot_block() const {
  const BlockFacts* hot = nullptr;
  const auto weight = [](const BlockFacts& b) { return b.executions * b.instructions.total(); };
  for (const PhaseFacts& phase : phases)
    for (const BlockFacts& block : phase.blocks)
      if (!hot || weight(block) > weight(*hot)) hot = &block;
  return hot;
}

Result<KernelFacts> extract_facts(const Program& program, const Target& target,
                                  dsl::CacheState state) {
  KernelFacts facts;
  add_buffers(program, facts);
  std::vector<Known> known;
  std::vector<std::vector<Fetched>> fetched;
  for (const schedules::Phase& phase : program.phases) {
    PhaseWalk walk(program, target, facts);
    known = walk.known();
    TW_TRY(PhaseFacts phase_facts, walk.walk(phase));
    fetched.push_back(walk.fetched());
    facts.phases.push_back(std::move(phase_facts));
  }
  const CallSequence calls(target.machine, state, known, std::move(fetched));
  for (size_t i = 0; i < facts.phases.size(); ++i) calls.add_traffic(i, facts.phases[i]);
  if (target.is_gpu()) {
    TW_TRY(facts.gpu, extract_gpu_facts(program, target));
  }
  return facts;
}

}  // namespace tw::cost_model

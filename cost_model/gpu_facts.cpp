// SPDX-License-Identifier: Apache-2.0
#include "cost_model/gpu_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "cost_model/access.h"
#include "cost_model/iteration_space.h"
#include "cost_model/occupancy.h"
#include "cost_model/operations.h"
#include "cost_model/warp_accesses.h"
#include "schedules/program/legality.h"
#include "schedules/program/specialised.h"
#include "schedules/program/tensor_tiles.h"
#include "schedules/program/threads.h"
#include "schedules/program/tma_copies.h"

namespace tw::cost_model {
namespace {

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

// Registers that the compiler needs for thread and block numbers, loop counters and temporaries.
// With a 64-bit address for each access to memory, tiles of 8x8 accumulators need about 110, as
// they do with nvcc.
constexpr double base_registers = 20, address_registers = 2;
// Upper bound on registers for loads that are issued before the first of them is used.
constexpr double most_operands = 48;
// Registers for partial sums of tensor tiles that ptxas keeps even when it has to spill. While
// registers are free it takes more of them (nvrtc 13.0, products in split tf32).
constexpr double least_partial_sums = 64;
constexpr double register_bytes = 4;
constexpr int64_t widest_access = 16;
// Instructions of a division by a constant: a shift or mask for a power of two, else a 64-bit
// multiplication with its corrections.
constexpr double shift_instructions = 1, division_instructions = 8;
// Instructions that round an f32 to tf32, or split it into two of them.
constexpr double split_instructions = 4;
// Accumulators of a lane in a tensor tile of a warp.
constexpr double lane_sums = schedules::tile_part * schedules::tile_part;
// Instructions that compute the two descriptors of a warpgroup's tensor tile.
constexpr double descriptor_instructions = 4;
// Instructions that issue a TMA copy, after which the copy engine works alone; and the bytes that
// shared memory accepts per cycle.
constexpr double tma_instructions = 8, shared_line_bytes = 128;
// Instructions of a condition (compare, branch), and of a loop iteration (count, compare, branch),
// which the compiler shares between the iterations of a loop that it unrolls.
constexpr double condition_instructions = 2, iteration_instructions = 1;

bool is_own(Scope scope) { return scope == Scope::Register || scope == Scope::Local; }
bool is_global(Scope scope) { return scope == Scope::Argument || scope == Scope::Scratch; }

bool uses_kind(const Expr& expr, const std::vector<Level>& levels, LoopKind kind) {
  return std::any_of(levels.begin(), levels.end(), [&](const Level& level) {
    return level.kind == kind && !level.is_task_axis && level.trips > 1 &&
           dsl::uses_var(expr, level.variable);
  });
}

bool is_straight(const Level& level) {
  return level.kind == LoopKind::Unrolled || level.kind == LoopKind::Vector;
}

/// A read and the condition under which it is executed, which is that of the selects around it.
struct GuardedRead {
  const dsl::Read* read;
  std::vector<Expr> conditions;
};

void gather_reads(const Expr& expr, std::vector<Expr>& conditions, std::vector<GuardedRead>& out) {
  const auto gather = [&](const Expr& e) { gather_reads(e, conditions, out); };
  dsl::visit(
      expr,
      [&](const dsl::Read& r) {
        const bool known = std::any_of(out.begin(), out.end(), [&](const GuardedRead& g) {
          return g.read == &r ||
                 (g.read->tensor == r.tensor &&
                  std::equal(r.indices.begin(), r.indices.end(), g.read->indices.begin(),
                             g.read->indices.end(),
                             [](const Expr& a, const Expr& b) { return dsl::equal(a, b); }));
        });
        if (!known) out.push_back({&r, conditions});
        for (const Expr& index : r.indices) gather(index);
      },
      [&](const dsl::Select& s) {
        gather(s.condition);
        conditions.push_back(s.condition);
        gather(s.a);
        conditions.back() = !s.condition;
        gather(s.b);
        conditions.pop_back();
      },
      [&](const dsl::Binary& b) {
        gather(b.a);
        gather(b.b);
      },
      [&](const dsl::Unary& u) { gather(u.a); }, [&](const dsl::Cast& c) { gather(c.a); },
      ignore<dsl::Const, dsl::Var>);
}

/// An access to global memory, with its footprints within each serial loop around it.
struct GlobalUse {
  Access access;
  std::vector<Level> levels;
  std::vector<const Loop*> loops;  // serial loops, innermost first
  std::vector<double> trips;       // iterations of each
  std::vector<double> footprints;  // bytes of one iteration of each, then of the block
  double requested = 0;            // bytes of sectors, by one block
  bool is_tma = false;             // TMA copies it
};

/// The memory that the lanes of a warp touch in one access.
struct WarpAccess {
  double executed = 0;  // share of the warps with a lane that takes part
  double lanes = 0;     // active ones, of a warp that executes it
  double sectors = 0, bank_cycles = 0;
};

class GpuPhaseWalk {
 public:
  GpuPhaseWalk(const Program& program, const Target& target)
      : gpu_(*target.machine.gpu), target_(target) {
    for (const schedules::Argument& argument : program.arguments)
      if (!argument.only_prepares) add_global(argument.buffer);
    for (const Buffer& buffer : program.scratch) add_global(buffer);
  }

  Result<GpuPhaseFacts> walk(const schedules::Phase& phase) {
    facts_.blocks = static_cast<double>(phase.tasks());
    facts_.threads = static_cast<double>(schedules::threads_of(*phase.body));
    facts_.warps = std::ceil(facts_.threads / warp_threads);
    facts_.has_producers =
        phase.specialised && schedules::gpu_architecture(target_) >= schedules::tma_architecture;
    if (facts_.has_producers)
      producer_warps_ = static_cast<double>(schedules::producer_threads) / warp_threads;
    facts_.is_persistent = phase.persistent && facts_.has_producers;
    facts_.pipeline_depth = 1;
    facts_.shared_bytes = static_cast<double>(schedules::shared_bytes(*phase.body));
    numbered_ = schedules::numbered_dimensions(*phase.body);
    for (const schedules::TaskAxis& axis : phase.axes) {
      levels_.push_back(make_level(levels_, axis.variable, 0, axis.extent, LoopKind::Serial));
      levels_.back().is_task_axis = true;
    }
    TW_RETURN_IF_ERROR(visit(*phase.body));
    estimate_registers();
    find_residence();
    add_up();
    find_traffic();
    return std::move(facts_);
  }

 private:
  // ---- the walk ----

  void add_global(const Buffer& buffer) {
    buffers_[buffer.name] = &buffer;
    kernel_bytes_ += static_cast<double>(buffer.bytes());
  }

  Status visit(const Block& body) {
    for (const Stmt& stmt : body) TW_RETURN_IF_ERROR(visit(stmt));
    return {};
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
        [&](const Barrier&) {
          barrier_copies_ = copies();
          // Consumers wait for copies that arrived long ago, and not for each other.
          if (!facts_.has_producers || !in_pipeline_)
            facts_.barriers += executions_ * barrier_copies_;
          has_waited_ = false;
          return Status{};
        },
        // Commits and waits are accounted for by the pipelined loop.
        always<Commit, Wait, schedules::PrefetchLines>(Status{}));
  }

  Status visit_loop(const Loop& loop) {
    if (loop.tile) return visit_tile(loop);
    if (loop.kind == LoopKind::Bulk) return visit_tma_copy(loop);
    if (loop.kind == LoopKind::Thread && !in_nest_) nest_ = schedules::thread_nest(loop);
    // The lanes of a warp share the iterations, and combine their results in five steps.
    const bool by_warp = loop.kind == LoopKind::Reduce;
    levels_.push_back(make_level(levels_, loop.variable, loop.begin, loop.end,
                                 by_warp ? LoopKind::Serial : loop.kind));
    double trips = levels_.back().trips;
    const double outer_executions = executions_;
    if (by_warp) trips = std::ceil(trips / warp_threads) + std::log2(warp_threads);
    const Loop* outer = innermost_;
    const bool outer_in_nest = in_nest_;
    if (levels_.back().kind == LoopKind::Serial) {
      executions_ *= trips;
      serial_.push_back({&loop, levels_.size() - 1});
    }
    if (!is_straight(levels_.back())) innermost_ = &loop;
    in_nest_ |= loop.kind == LoopKind::Thread;
    const bool outer_in_pipeline = in_pipeline_;
    in_pipeline_ |= loop.pipeline.has_value();
    const size_t first_section = facts_.sections.size();
    TW_RETURN_IF_ERROR(visit(*loop.body));
    if (loop.pipeline) add_pipeline(*loop.pipeline, outer_executions, first_section);
    in_pipeline_ = outer_in_pipeline;
    in_nest_ = outer_in_nest;
    innermost_ = outer;
    executions_ = outer_executions;
    if (levels_.back().kind == LoopKind::Serial) serial_.pop_back();
    levels_.pop_back();
    return {};
  }

  void add_pipeline(const schedules::LoopPipeline& pipeline, double entries, size_t first_section) {
    const auto ahead = static_cast<double>(pipeline.ahead);
    facts_.pipeline_depth = std::max(facts_.pipeline_depth, ahead + 1);
    if (schedules::copies_asynchronously(target_))
      facts_.pipelines.push_back(
          {entries, executions_, ahead, first_section, facts_.sections.size()});
  }

  Status visit_if(const If& branch) {
    const double outer = executions_;
    section().instructions.integer +=
        copies() * condition_instructions + divisions(branch.condition);
    const bool differs = !branch.uniform && facts_.threads > 1;
    if (differs) {
      conditions_.push_back(branch.condition);
    } else {
      executions_ *= probability(levels_, branch.condition);
    }
    TW_RETURN_IF_ERROR(visit(*branch.body));
    if (differs) conditions_.pop_back();
    executions_ = outer;
    return {};
  }

  Status visit_allocate(const Allocate& allocate) {
    const Buffer& buffer = allocate.buffer;
    buffers_[buffer.name] = &buffer;
    return visit(*allocate.body);
  }

  Status visit_assign(const Assign& assign) {
    is_asynchronous_ = assign.asynchronous && schedules::copies_asynchronously(target_);
    // One instruction copies, or writes zeros if there is nothing to copy.
    if (is_asynchronous_ && !assign.value.as<dsl::Read>()) return {};
    SectionFacts& s = section();
    // A section that begins under a condition may continue outside of it.
    const double share = s.executions > 0 ? executions_ / s.executions : 0;
    points_ = sample_warps(levels_);
    const double executed = warps_under({}).executed * share * copies();
    // No loop belongs to a block, so none is asked whether it stores to a buffer.
    const Operations operations = count_operations(assign, levels_, levels_.size(), {});
    s.instructions.fma += executed * operations.fma;
    s.instructions.arithmetic += executed * (operations.arithmetic + operations.selects);
    s.instructions.calls += executed * (operations.calls + operations.roots);
    TW_TRY(const Buffer* target, find(assign.buffer, assign.indices.size()));
    std::vector<GuardedRead> reads;
    std::vector<Expr> conditions;
    gather_reads(assign.value, conditions, reads);
    double operands = 0;
    for (const GuardedRead& read : reads) {
      TW_TRY(const Buffer* buffer, find(read.read->tensor, read.read->indices.size()));
      const bool hoisted = is_own(target->scope) && !moves(read.read->indices);
      const double turns =
          share / (hoisted ? std::max(1.0, levels_[serial_.back().second].trips) : 1);
      operands += add_access(s, *buffer, read.read->indices, false, read.conditions, turns);
    }
    if (!is_asynchronous_) s.operands = std::max(s.operands, std::min(operands, most_operands));
    if (assign.combine != dsl::Combine::None && !is_own(target->scope))
      add_access(s, *target, assign.indices, false, {}, share);
    add_access(s, *target, assign.indices, true, {}, share);
    if (assign.combine != dsl::Combine::None)
      add_chain(s, make_access(*target, assign.indices, levels_));
    return {};
  }

  /// Counts the instructions of a warp for a tile: loads of the lanes' elements of the factors, and
  /// the tensor instructions.
  Status visit_tile(const Loop& loop) {
    if (!in_nest_) return fail(ErrorCode::Internal, "[extract features] a tensor tile of no warp");
    is_asynchronous_ = false;
    TW_TRY(const schedules::TensorNest nest, schedules::tensor_nest(loop, nest_));
    TW_TRY(const Buffer* by_row, find(nest.by_row->tensor, nest.by_row->indices.size()));
    TW_TRY(const Buffer* by_column, find(nest.by_column->tensor, nest.by_column->indices.size()));
    TW_TRY(const Buffer* sums, find(nest.sum->buffer, nest.sum->indices.size()));
    const schedules::TensorTile& tile = *nest.tile;
    SectionFacts& s = section();
    note_life(s, *sums);
    const double share = s.executions > 0 ? executions_ / s.executions : 0;
    const double instructions = copies() * tile.instructions * share;
    const auto columns = static_cast<double>(schedules::columns_of(nest));
    const double fma =
        static_cast<double>(schedules::tile_rows) * columns * static_cast<double>(tile.depth);
    s.instructions.tensor += instructions;
    s.tensor_fma += instructions * fma * size_bytes(tile.operand) / size_bytes(Float16) /
                    (tile.is_of_warpgroup ? gpu_.warpgroup_speed : 1);
    if (tile.is_of_warpgroup) {
      add_warpgroup(s, nest, instructions);
      return {};
    }
    const size_t outside = levels_.size();
    // A product that takes several instructions is added to the accumulators outside of the tensor
    // cores (codegen/gpu/prelude.cpp).
    if (tile.instructions > 1) {
      s.instructions.arithmetic += copies() * lane_sums * share;
      s.partial_sums += copies() * lane_sums;
    }
    for (const Loop* part : {nest.part, nest.column})
      levels_.push_back(
          make_level(levels_, part->variable, part->begin, part->end, LoopKind::Unrolled));
    add_chain(s, make_access(*sums, nest.sum->indices, levels_));
    s.tensor_chain = std::max(s.tensor_chain, s.chain * tile.instructions);
    const std::string element = "%element";  // no variable of a program is named so
    levels_.push_back(
        make_level(levels_, element, 0, schedules::lane_elements(tile), LoopKind::Vector));
    points_ = sample_warps(levels_);
    const Expr i = dsl::var(element);
    const double operands =
        add_factor(s, tile, *by_row, row_indices(nest, dsl::var(nest.part->variable), i), share) +
        add_factor(s, tile, *by_column, column_indices(nest, i), share);
    s.operands = std::max(s.operands, std::min(operands, most_operands));
    levels_.erase(levels_.begin() + static_cast<ptrdiff_t>(outside), levels_.end());
    return {};
  }

  /// Counts a warp's part of a warpgroup instruction, which reads the factors itself and overlaps
  /// with earlier ones.
  static void add_warpgroup(SectionFacts& s, const schedules::TensorNest& nest,
                            double instructions) {
    const int64_t elements = (rows_of(nest) + columns_of(nest)) * nest.tile->depth;
    const double bytes = static_cast<double>(elements) * size_bytes(nest.tile->operand);
    s.shared_cycles += instructions * bytes / (shared_banks * 4.0) /
                       static_cast<double>(schedules::warpgroup_warps);
    s.instructions.integer += instructions * descriptor_instructions;
    s.chain = std::max(s.chain, 1.0);
    s.tensor_chain = std::max(s.tensor_chain, 1.0);
    s.drains = 1;
  }

  /// Counts a TMA copy: one thread issues it, and the engine moves lines of up to 128 bytes, which
  /// are parts of the box's rows, to shared memory without registers.
  Status visit_tma_copy(const Loop& loop) {
    const size_t outside = levels_.size();
    double elements = 1;
    const Assign* copy = nullptr;
    for (const Loop* inner = &loop; inner; inner = inner->body->front().as<Loop>()) {
      levels_.push_back(
          make_level(levels_, inner->variable, inner->begin, inner->end, inner->kind));
      elements *= levels_.back().trips;
      copy = inner->body->front().as<Assign>();
    }
    TW_CHECK(copy, "a box is a copy");
    const dsl::Read& read = *copy->value.as<dsl::Read>();
    TW_TRY(const Buffer* source, find(read.tensor, read.indices.size()));
    SectionFacts& s = section();
    const double share = s.executions > 0 ? executions_ / s.executions : 0;
    const double bytes = elements * size_bytes(source->type) * share;
    s.instructions.integer += tma_instructions * share;
    const double row_bytes = levels_.back().trips * size_bytes(source->type);
    const double cycles = bytes / row_bytes * std::ceil(row_bytes / shared_line_bytes);
    s.shared_cycles += cycles;
    s.tma_cycles += cycles;
    s.tma_sectors += bytes / sector_bytes;
    is_asynchronous_ = true;
    WarpAccess line;
    line.executed = 1;
    line.lanes = warp_threads;
    line.sectors = shared_line_bytes / sector_bytes;
    in_box_ = true;
    add_global_traffic(s, make_access(*source, read.indices, levels_), false,
                       bytes / shared_line_bytes, line, shared_line_bytes / warp_threads);
    in_box_ = false;
    levels_.erase(levels_.begin() + static_cast<ptrdiff_t>(outside), levels_.end());
    return {};
  }

  /// Counts the loads and conversions of a factor for tiles; returns the registers that hold it.
  double add_factor(SectionFacts& s, const schedules::TensorTile& tile, const Buffer& buffer,
                    const std::vector<Expr>& indices, double share) {
    const double registers = add_access(s, buffer, indices, false, {}, share);
    if (tile.input_error == 0) return registers;
    const double elements =
        distinct_elements(make_access(buffer, indices, levels_), levels_,
                          [&](size_t level) { return is_straight(levels_[level]); });
    s.instructions.arithmetic += split_instructions * elements * share;
    return tile.instructions > 1 ? 2 * registers : registers;  // the two parts of a split f32
  }

  Result<const Buffer*> find(const std::string& name, size_t rank) const {
    const auto found = buffers_.find(name);
    if (found != buffers_.end() && found->second->extents.size() == rank) return found->second;
    return fail(ErrorCode::Internal,
                fmt::format("[extract features] the program accesses {} with {} indices, which is "
                            "no buffer of that rank: the program is not well formed",
                            name, rank));
  }

  // ---- sections ----

  /// The current section; it begins at its first statement.
  SectionFacts& section() {
    const auto [found, is_new] = section_of_.try_emplace(innermost_, facts_.sections.size());
    if (!is_new) return facts_.sections[found->second];
    SectionFacts s;
    s.executions = executions_;
    double threads = 1;
    for (const Level& level : levels_)
      if (level.kind == LoopKind::Thread) threads *= level.trips;
    s.warps = std::ceil(threads / warp_threads);
    if (innermost_ && innermost_->kind != LoopKind::Thread) {
      s.instructions.integer += iteration_instructions;
      if (in_nest_) s.trips = levels_[serial_.back().second].trips;
    }
    facts_.sections.push_back(s);
    return facts_.sections.back();
  }

  /// Copies of the current statement that its unrolled and vector loops make.
  double copies() const {
    double copies = 1;
    for (const Level& level : levels_)
      if (is_straight(level)) copies *= level.trips;
    return copies;
  }

  /// True if an index changes with the innermost serial loop and that loop is inside of the thread
  /// loops.
  bool moves(const std::vector<Expr>& indices) const {
    if (!innermost_ || innermost_->kind != LoopKind::Serial || !in_nest_) return true;
    return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
      return dsl::uses_var(index, innermost_->variable);
    });
  }

  /// Adds the number of independent sums, and the length of each one's chain of updates.
  void add_chain(SectionFacts& s, const Access& access) {
    const double sums = distinct_elements(
        access, levels_, [&](size_t level) { return is_straight(levels_[level]); });
    const double chain = copies() / std::max(1.0, sums);
    if (chain * sums < s.chain * s.accumulators) return;
    s.chain = chain;
    s.accumulators = sums;
  }

  /// Instructions for divisions by constants. Loop-invariant ones are computed before the loop, and
  /// those with the same value in all threads, such as slots of a pipeline, once for many accesses.
  double divisions(const Expr& expr) const {
    double instructions = 0;
    dsl::for_each(expr, [&](const Expr& e) {
      const dsl::Binary* b = e.as<dsl::Binary>();
      if (!b || (b->op != dsl::BinaryOp::Div && b->op != dsl::BinaryOp::Mod)) return;
      const auto divisor = dsl::as_int(b->b);
      const bool shifts =
          divisor && *divisor > 0 && std::has_single_bit(static_cast<uint64_t>(*divisor));
      const bool shared = !uses_kind(e, levels_, LoopKind::Thread);
      const double cost = shifts || shared ? shift_instructions : division_instructions;
      const bool moves = uses_kind(e, levels_, LoopKind::Serial);
      const double turns = moves ? 1 : 1 / std::max(1.0, executions_);
      const double times = uses_kind(e, levels_, LoopKind::Unrolled) ? copies() : 1;
      instructions += cost * turns * times;
    });
    return instructions;
  }

  // ---- accesses ----

  bool holds(const Expr& condition, const WarpPoint& point, WarpPoint& rest) const {
    const auto value = evaluate(condition, levels_, point);
    if (!value) return true;  // depends on data
    for (size_t lane = 0; lane < rest.active.size(); ++lane)
      rest.active[lane] = rest.active[lane] && (*value)[lane] != 0;
    return rest.count() > 0;
  }

  /// The point with the lanes that satisfy all conditions; nullopt if there is no such lane.
  std::optional<WarpPoint> under(const std::vector<Expr>& conditions,
                                 const WarpPoint& point) const {
    WarpPoint rest = point;
    if (rest.count() == 0) return std::nullopt;
    for (const Expr& condition : conditions_)
      if (!holds(condition, point, rest)) return std::nullopt;
    for (const Expr& condition : conditions)
      if (!holds(condition, point, rest)) return std::nullopt;
    return rest;
  }

  WarpAccess warps_under(const std::vector<Expr>& conditions) const {
    WarpAccess result;
    for (const WarpPoint& point : points_)
      if (const auto rest = under(conditions, point)) {
        result.executed += 1;
        result.lanes += rest->count();
      }
    result.lanes /= std::max(1.0, result.executed);
    result.executed /= static_cast<double>(points_.size());
    return result;
  }

  /// Byte offsets of the lanes' accesses in the buffer; nullopt if an index depends on data.
  std::optional<LaneValues> addresses(const Buffer& buffer, const std::vector<Expr>& indices,
                                      const WarpPoint& point) const {
    LaneValues result{};
    int64_t row = static_cast<int64_t>(size_bytes(buffer.type));
    for (size_t d = indices.size(); d > 0; --d) {
      const auto index = evaluate(indices[d - 1], levels_, point);
      if (!index) return std::nullopt;
      for (size_t lane = 0; lane < result.size(); ++lane) result[lane] += row * (*index)[lane];
      row *= buffer.extents[d - 1];
    }
    return result;
  }

  static LaneValues swizzled(const Buffer& buffer, LaneValues addresses) {
    for (int64_t& at : addresses) at = buffer.swizzled(at);
    return addresses;
  }

  /// Bytes of one access of a thread. Neighbours along the innermost vector or unrolled loop form
  /// one access of up to 16 bytes, if every address is aligned to its size.
  int64_t width(const Buffer& buffer, const std::vector<Expr>& indices) const {
    const auto size = static_cast<int64_t>(size_bytes(buffer.type));
    size_t level = levels_.size();
    while (level > 0 && !(is_straight(levels_[level - 1]) && levels_[level - 1].trips > 1)) --level;
    if (level == 0) return size;
    const auto trips = static_cast<int64_t>(levels_[level - 1].trips);
    int64_t width = widest_access;
    while (width > size && (trips * size) % width != 0) width /= 2;
    for (const WarpPoint& point : points_) {
      WarpPoint begin = point, next = point;
      begin.values[level - 1].fill(0);
      next.values[level - 1].fill(1);
      const auto here = addresses(buffer, indices, begin), there = addresses(buffer, indices, next);
      if (!here || !there) return size;
      for (size_t lane = 0; lane < here->size(); ++lane) {
        if (!point.active[lane]) continue;
        if ((*there)[lane] != (*here)[lane] + size) return size;
        while (width > size && (*here)[lane] % width != 0) width /= 2;
      }
    }
    return std::max(width, size);
  }

  WarpAccess look_at(const Buffer& buffer, const std::vector<Expr>& indices, int64_t bytes,
                     const std::vector<Expr>& conditions) const {
    WarpAccess result = warps_under(conditions);
    double seen = 0;
    for (const WarpPoint& point : points_) {
      const auto rest = under(conditions, point);
      if (!rest) continue;
      seen += 1;
      const auto at = addresses(buffer, indices, *rest);
      // An index that depends on data is assumed to touch a sector of its own for each lane.
      result.sectors += at ? sectors(*at, bytes, *rest) : rest->count();
      result.bank_cycles += at ? bank_cycles(swizzled(buffer, *at), bytes, *rest) : 1;
    }
    result.sectors /= std::max(1.0, seen);
    result.bank_cycles /= std::max(1.0, seen);
    return result;
  }

  void note_life(const SectionFacts& s, const Buffer& buffer) {
    const auto at = static_cast<size_t>(&s - facts_.sections.data());
    const auto found = lives_.try_emplace(&buffer, at, at).first;
    found->second.last = std::max(found->second.last, facts_.sections.size() - 1);
  }

  /// Counts one access of the statement's copies; returns the registers that hold what it loads.
  double add_access(SectionFacts& s, const Buffer& buffer, const std::vector<Expr>& indices,
                    bool is_store, const std::vector<Expr>& conditions, double turns) {
    const Access access = make_access(buffer, indices, levels_);
    // For indices that wrap around only the hull of the accessed elements is known.
    const double elements = std::min(
        copies(), distinct_elements(access, levels_,
                                    [&](size_t level) { return is_straight(levels_[level]); }));
    if (is_own(buffer.scope)) {
      note_life(s, buffer);
      if (is_in_memory(buffer, indices)) s.instructions.local += elements * turns;
      return 0;
    }
    const int64_t bytes = width(buffer, indices);
    const WarpAccess warp = look_at(buffer, indices, bytes, conditions);
    const double size = size_bytes(buffer.type);
    const double count = elements * size / static_cast<double>(bytes) * turns * warp.executed;
    s.instructions.integer += divisions(schedules::linear_index(buffer, indices)) * turns;
    lanes_ += s.executions * s.warps * count * warp.lanes;
    slots_ += s.executions * s.warps * count * warp_threads;
    if (is_global(buffer.scope)) {
      (is_store ? s.instructions.global_stores : s.instructions.global_loads) += count;
      add_global_traffic(s, access, is_store, count, warp, static_cast<double>(bytes));
    } else {
      // cp.async writes 16 bytes to shared memory past L1, and fewer by way of it.
      if (!is_asynchronous_ || bytes < widest_access) s.instructions.shared += count;
      s.shared_cycles += count * warp.bank_cycles;
    }
    for (const Expr& condition : conditions)
      s.instructions.integer += (condition_instructions * elements + divisions(condition)) * turns;
    return is_store ? 0 : kept(access, elements) * std::max(1.0, size / register_bytes);
  }

  /// Adds an access to global memory, independent of the instructions that make it.
  void add_global_traffic(SectionFacts& s, Access access, bool is_store, double count,
                          const WarpAccess& warp, double bytes) {
    s.sectors += count * warp.sectors;
    if (is_store) s.stored_sectors += count * warp.sectors;
    s.instructions.integer += 1;
    // Addresses of copies ahead of a pipeline need no registers inside of it.
    if (!is_asynchronous_ || in_pipeline_) address_count_ += 1;
    const double executions = s.executions * s.warps * count;
    facts_.ideal_sectors +=
        facts_.blocks * executions * std::ceil(warp.lanes * bytes / sector_bytes);
    wide_ += executions * bytes;
    accesses_ += executions;
    if (!is_store && !has_waited_ && !is_asynchronous_) {
      has_waited_ = true;
      s.waits = std::min(barrier_copies_, copies());
    }
    access.is_store = is_store;
    const double touched_bytes = executions * warp.sectors * sector_bytes;
    if (is_store && warp.lanes * bytes < warp.sectors * sector_bytes)
      facts_.partial_store_bytes += facts_.blocks * touched_bytes;
    GlobalUse use{std::move(access), levels_, {}, {}, {}, touched_bytes};
    use.is_tma = in_box_;
    for (size_t i = serial_.size(); i > 0; --i) {
      use.loops.push_back(serial_[i - 1].first);
      use.trips.push_back(levels_[serial_[i - 1].second].trips);
      use.footprints.push_back(within(use.access, serial_[i - 1].second + 1));
    }
    use.footprints.push_back(within(use.access, 0));
    uses_.push_back(std::move(use));
  }

  /// Bytes that a block touches while the threads and the loops from `first` on run; the threads
  /// run through the loops around them together.
  double within(const Access& access, size_t first) const {
    return footprint(
               access, levels_,
               [&](size_t i) {
                 const Level& level = levels_[i];
                 if (level.is_task_axis) return false;
                 return i >= first || level.kind != LoopKind::Serial;
               },
               lines_)
        .bytes;
  }

  /// True for a private array that lies in memory, because an index is not constant after
  /// unrolling.
  bool is_in_memory(const Buffer& buffer, const std::vector<Expr>& indices) const {
    if (own_elements(buffer) <= 1) return false;
    return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
      return uses_kind(index, levels_, LoopKind::Serial);
    });
  }

  /// Number of values that registers keep. In the order of the unrolled statements a value is
  /// reused across the outermost unrolled loop that it does not depend on, so all values within one
  /// iteration of that loop are kept.
  double kept(const Access& access, double elements) const {
    for (size_t i = 0; i < levels_.size(); ++i) {
      if (!is_straight(levels_[i]) || levels_[i].trips <= 1 || access.depends_on(i)) continue;
      return distinct_elements(access, levels_,
                               [&](size_t l) { return l > i && is_straight(levels_[l]); });
    }
    return elements;
  }

  // ---- totals ----

  double own_elements(const Buffer& buffer) const {
    double elements = static_cast<double>(buffer.elements());
    if (const auto found = numbered_.find(buffer.name); found != numbered_.end())
      for (const size_t d : found->second)
        elements /= static_cast<double>(std::max<int64_t>(1, buffer.extents[d]));
    return elements;
  }

  void estimate_registers() {
    facts_.registers = base_registers + address_registers * std::min(8.0, address_count_);
    double most = 0;
    for (size_t i = 0; i < facts_.sections.size(); ++i) {
      double held = facts_.sections[i].operands;
      for (const auto& [buffer, life] : lives_)
        if (life.first <= i && i <= life.last)
          held += own_elements(*buffer) * std::max(1.0, size_bytes(buffer->type) / register_bytes);
      most = std::max(most, held);
    }
    facts_.registers += most;
    double partial_sums = 0;
    for (const SectionFacts& s : facts_.sections)
      partial_sums = std::max(partial_sums, s.partial_sums);
    facts_.registers += std::clamp(registers_of_thread() - facts_.registers,
                                   std::min(partial_sums, least_partial_sums), partial_sums);
  }

  /// A block must fit on a multiprocessor, so the compiler limits each thread to its share.
  double registers_of_thread() const {
    return std::min(gpu_.registers_per_thread * 1.0,
                    std::floor(static_cast<double>(gpu_.registers) /
                               ((facts_.warps + producer_warps_) * warp_threads)));
  }

  void find_residence() {
    const double most = registers_of_thread();
    facts_.spills = std::max(0.0, facts_.registers - most);
    const double share = std::floor(most / registers_granule) * registers_granule;
    facts_.resident = residency(facts_.threads + producer_warps_ * warp_threads,
                                std::min(facts_.registers, share), facts_.shared_bytes, gpu_)
                          .blocks();
    facts_.occupancy = facts_.resident * facts_.warps * warp_threads / gpu_.resident_threads;
    const double processors = target_.machine.cores;
    facts_.waves = facts_.blocks / (processors * std::max(1.0, facts_.resident));
    facts_.tail = std::ceil(facts_.blocks / processors) * processors / std::max(1.0, facts_.blocks);
  }

  void add_up() {
    double sectors = 0, loaded = 0;
    for (const SectionFacts& s : facts_.sections) {
      const double times = facts_.blocks * s.executions * s.warps;
      facts_.instructions.add(s.instructions, times);
      sectors += times * s.sectors;
      loaded += times * (s.sectors - s.stored_sectors);
      facts_.shared_cycles += times * s.shared_cycles;
      facts_.bytes_in_flight =
          std::max(facts_.bytes_in_flight, s.warps * (s.sectors - s.stored_sectors) * sector_bytes);
    }
    facts_.sectors = sectors;
    facts_.requested_bytes = loaded * sector_bytes;
    facts_.useful_lanes = slots_ > 0 ? lanes_ / slots_ : 0;
    facts_.wide_bytes = accesses_ > 0 ? wide_ / accesses_ : 0;
  }

  // ---- traffic ----

  using ByBuffer = std::map<const Buffer*, double>;
  static void raise(ByBuffer& bytes, const Buffer* buffer, double value) {
    bytes[buffer] = std::max(bytes[buffer], value);
  }
  static double sum(const ByBuffer& bytes) {
    double all = 0;
    for (const auto& [buffer, value] : bytes) all += value;
    return all;
  }

  void find_traffic() {
    std::map<const Loop*, ByBuffer> iterations;
    for (const GlobalUse& use : uses_)
      for (size_t i = 0; i < use.loops.size(); ++i)
        raise(iterations[use.loops[i]], use.access.buffer, use.footprints[i]);
    std::map<const Loop*, double> working_sets;
    for (const auto& [loop, bytes] : iterations) working_sets[loop] = sum(bytes);
    ByBuffer of_block;
    for (const GlobalUse& use : uses_)
      if (!use.access.is_store) raise(of_block, use.access.buffer, use.footprints.back());
    const bool stays = sum(of_block) <= l1_of_block();
    ByBuffer fetched;  // by one block, of loads
    for (const GlobalUse& use : uses_) {
      if (use.access.is_store) {
        facts_.l2_bytes += facts_.blocks * use.requested;
        continue;
      }
      const double bytes = std::min(use.requested, into_l1(use, working_sets));
      if (use.is_tma) facts_.tma_bytes += facts_.blocks * bytes;
      // Another statement finds in L1 what one has read, if all that the block reads fits.
      if (stays)
        raise(fetched, use.access.buffer, bytes);
      else
        fetched[use.access.buffer] += bytes;
    }
    facts_.l2_bytes += facts_.blocks * sum(fetched);
    facts_.tma_bytes = std::min(facts_.tma_bytes, facts_.l2_bytes);
    find_dram_traffic(fetched);
  }

  /// A block's part of L1.
  double l1_of_block() const {
    return static_cast<double>(target_.machine.l1_bytes()) / std::max(1.0, facts_.resident) -
           facts_.shared_bytes - reserved_shared_bytes;
  }

  /// Traffic into L1, by the rule of the CPU's caches: if the data of an iteration fits, the part
  /// that the next iteration shares with it hits.
  double into_l1(const GlobalUse& use, const std::map<const Loop*, double>& working_sets) const {
    const double capacity = l1_of_block();
    double bytes = use.footprints.front();
    for (size_t i = 0; i < use.loops.size(); ++i) {
      const bool fits = working_sets.at(use.loops[i]) <= capacity;
      bytes = fits ? std::min(use.footprints[i + 1], use.trips[i] * bytes) : use.trips[i] * bytes;
    }
    return bytes;
  }

  /// Blocks that run at the same time share the data that they fetch. If all data fits into L2,
  /// later blocks find it there too; if it fits twice, so does the next call.
  void find_dram_traffic(const ByBuffer& fetched) {
    const double at_once = target_.machine.cores * std::max(1.0, facts_.resident);
    const double l2 = static_cast<double>(target_.machine.l2_bytes());
    const double waves = std::max(1.0, facts_.blocks / at_once);
    ByBuffer unique, by_waves, stored;
    for (const GlobalUse& use : uses_) {
      raise(use.access.is_store ? stored : unique, use.access.buffer, touched(use, 1e300));
      raise(by_waves, use.access.buffer, waves * touched(use, at_once));
    }
    facts_.unique_bytes = sum(unique) + sum(stored);
    const double cold = std::clamp(2 * kernel_bytes_ / l2 - 1, 0.0, 1.0);
    double bytes = sum(stored) * cold;
    for (const auto& [buffer, once] : unique) {
      const bool fits = facts_.unique_bytes <= l2;
      const double most = facts_.blocks * (fetched.contains(buffer) ? fetched.at(buffer) : 0);
      bytes += fits ? once * cold : std::max(once, std::min(most, by_waves.at(buffer)));
    }
    facts_.dram_bytes = bytes;
  }

  /// Bytes that `blocks` consecutive blocks touch together; the last axes of blocks vary fastest.
  double touched(const GlobalUse& use, double blocks) const {
    std::vector<Level> levels = use.levels;
    for (size_t i = levels.size(); i > 0; --i) {
      Level& level = levels[i - 1];
      if (!level.is_task_axis) continue;
      const double trips = std::clamp(std::ceil(blocks), 1.0, std::max(1.0, level.most_trips));
      blocks /= std::max(1.0, level.most_trips);
      level.most_trips = trips;
    }
    return footprint(
               use.access, levels, [](size_t) { return true; }, lines_)
        .bytes;
  }

  const Gpu& gpu_;
  const Target& target_;
  const CacheLines lines_ = lines_of(target_.machine.caches[0]);
  GpuPhaseFacts facts_;
  std::map<std::string, const Buffer*, std::less<>> buffers_;
  /// Sections in which a private buffer of a thread is accessed; it is held in between.
  struct Life {
    size_t first, last;
  };
  std::map<const Buffer*, Life> lives_;
  schedules::NumberedDimensions numbered_;
  double kernel_bytes_ = 0;

  std::vector<Level> levels_;
  std::vector<std::pair<const Loop*, size_t>> serial_;  // serial loops around, and their levels
  std::vector<Expr> conditions_;     // conditions around that differ between threads
  const Loop* innermost_ = nullptr;  // innermost serial or thread loop
  bool in_nest_ = false;
  schedules::ThreadNest nest_;    // the nest around
  double executions_ = 1;         // executions by one block
  double producer_warps_ = 0;     // producer warps, additional to those of the body
  bool has_waited_ = false;       // for global loads, since the last barrier
  bool is_asynchronous_ = false;  // the current copy is asynchronous
  bool in_box_ = false;           // a TMA copy is looked at
  bool in_pipeline_ = false;
  double barrier_copies_ = 1;  // copies of the barrier in unrolled loops
  std::vector<WarpPoint> points_;
  std::map<const Loop*, size_t> section_of_;  // by its innermost loop

  std::vector<GlobalUse> uses_;
  double address_count_ = 0;
  double lanes_ = 0, slots_ = 0;    // lanes of memory instructions: active, and all
  double wide_ = 0, accesses_ = 0;  // global accesses: their bytes, and their number
};

}  // namespace

void WarpInstructions::add(const WarpInstructions& other, double times) {
  fma += times * other.fma;
  tensor += times * other.tensor;
  arithmetic += times * other.arithmetic;
  calls += times * other.calls;
  integer += times * other.integer;
  global_loads += times * other.global_loads;
  global_stores += times * other.global_stores;
  shared += times * other.shared;
  local += times * other.local;
}

Result<GpuFacts> extract_gpu_facts(const Program& program, const Target& target) {
  TW_CHECK(target.machine.gpu);
  GpuFacts facts;
  for (const schedules::Phase& phase : program.phases) {
    TW_TRY(GpuPhaseFacts phase_facts, GpuPhaseWalk(program, target).walk(phase));
    facts.phases.push_back(std::move(phase_facts));
  }
  return facts;
}

}  // namespace tw::cost_model

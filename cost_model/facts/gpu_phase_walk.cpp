// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/gpu_phase_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace tw::cost_model::facts {
namespace {

// base_registers are the registers that the compiler needs for thread and block indices, loop
// counters and temporaries. address_registers are those of the 64-bit address of each access to
// memory. With these numbers, a tile of 8x8 accumulators needs about 110 registers, as in the code
// of nvcc.
constexpr double base_registers = 20, address_registers = 2;

// Upper bound on registers for loads that are issued before the first of them is used.
constexpr double most_operands = 48;

// If a thread has more partial sums than free registers, ptxas spills this share of the rest. It
// computes the other ones later, when registers are free. The share is the median of random
// products in split tf32 (three products of tf32 for one of f32), with NVRTC 13.0.
constexpr double spilled_partial_sums = 0.125;

// Instructions of a division by a constant: a shift or mask if the constant is a power of two, else
// a 64-bit multiplication and the corrections after it.
constexpr double shift_instructions = 1, division_instructions = 8;

// Instructions that round an f32 to tf32, or split it into two of them.
constexpr double split_instructions = 4;

// Accumulators of a lane in a tensor tile of a warp.
constexpr double lane_sums = schedules::tile_part * schedules::tile_part;

// Instructions that compute the two descriptors of a warpgroup's tensor tile.
constexpr double descriptor_instructions = 4;

// tma_instructions are the instructions by which a warp issues a TMA copy, which the copy engine
// then makes alone. shared_line_bytes are the bytes that shared memory accepts per cycle.
constexpr double tma_instructions = 8, shared_line_bytes = 128;

/// A read and the conditions of the selects around it, under which it is executed.
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

}  // namespace

Result<GpuPhaseFacts> GpuPhaseWalk::walk(const schedules::Phase& phase) {
  facts_.blocks = static_cast<double>(phase.tasks());
  facts_.threads = static_cast<double>(schedules::threads_of(*phase.body));
  facts_.warps = std::ceil(facts_.threads / warp_threads);
  if (phase.specialised && gpu_.has_tma())
    facts_.producer_threads = static_cast<double>(schedules::producer_threads);
  facts_.is_persistent = phase.persistent && facts_.has_producers();
  facts_.pipeline_depth = 1;
  // OpenCL has no launch bounds.
  if (target_.architecture == Architecture::Cuda)
    resident_blocks_ = static_cast<double>(phase.resident_blocks);
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

void GpuPhaseWalk::add_global(const Buffer& buffer) {
  buffers_[buffer.name] = &buffer;
  kernel_bytes_ += static_cast<double>(buffer.bytes());
}

Status GpuPhaseWalk::visit(const Block& body) {
  for (const Stmt& stmt : body) TW_RETURN_IF_ERROR(visit(stmt));
  return {};
}

Status GpuPhaseWalk::visit(const Block& body, const Around& around) {
  const Around outer = std::exchange(around_, around);
  const Status status = visit(body);
  around_ = outer;
  return status;
}

Status GpuPhaseWalk::visit(const Stmt& stmt) {
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
        // With producer warps, barriers in a pipeline cost nothing: consumers wait for copies that
        // arrived long before, and not for each other.
        if (!facts_.has_producers() || !around_.in_pipeline)
          facts_.barriers += around_.executions * barrier_copies_;
        has_waited_ = false;
        return Status{};
      },
      // The cost of commits and waits is part of the cost of the pipelined loop.
      always<Commit, Wait, schedules::PrefetchLines>(Status{}));
}

Status GpuPhaseWalk::visit_loop(const Loop& loop) {
  if (loop.tile) return visit_tile(loop);
  if (loop.kind == LoopKind::Bulk) return visit_tma_copy(loop);
  if (loop.kind == LoopKind::Thread && !around_.in_nest) nest_ = schedules::thread_nest(loop);
  // The lanes of a warp share the iterations, and combine their results in five steps.
  const bool by_warp = loop.kind == LoopKind::Reduce && is_reduced_by_warp(loop);
  const LoopKind kind = loop.kind == LoopKind::Reduce ? LoopKind::Serial : loop.kind;
  levels_.push_back(make_level(levels_, loop.variable, loop.begin, loop.end, kind));
  double trips = levels_.back().trips;
  if (by_warp) trips = std::ceil(trips / warp_threads) + std::log2(warp_threads);
  Around around = around_;
  if (levels_.back().kind == LoopKind::Serial) {
    around.executions *= trips;
    serial_.push_back({&loop, levels_.size() - 1});
  }
  if (!is_straight(levels_.back())) around.innermost = &loop;
  around.in_nest |= loop.kind == LoopKind::Thread;
  around.in_pipeline |= loop.pipeline.has_value();
  const size_t first_section = facts_.sections.size();
  TW_RETURN_IF_ERROR(visit(*loop.body, around));
  if (loop.pipeline)
    add_pipeline(*loop.pipeline, around_.executions, around.executions, first_section);
  if (levels_.back().kind == LoopKind::Serial) serial_.pop_back();
  levels_.pop_back();
  return {};
}

bool GpuPhaseWalk::is_reduced_by_warp(const Loop& loop) const {
  const Assign* combination = loop.body->front().as<Assign>();
  const bool is_cuda = target_.architecture == Architecture::Cuda;
  if (!combination || !is_cuda || facts_.threads < warp_threads) return false;
  const DType type = combination->value.type();
  return type == Float32 || type == Int32;
}

void GpuPhaseWalk::add_pipeline(const schedules::LoopPipeline& pipeline, double entries,
                                double iterations, size_t first_section) {
  const auto ahead = static_cast<double>(pipeline.ahead);
  facts_.pipeline_depth = std::max(facts_.pipeline_depth, ahead + 1);
  if (schedules::copies_asynchronously(target_))
    facts_.pipelines.push_back({entries, iterations, ahead, first_section, facts_.sections.size()});
}

Status GpuPhaseWalk::visit_if(const If& branch) {
  Around around = around_;
  section().instructions.integer += copies() * condition_instructions + divisions(branch.condition);
  const bool differs = !branch.uniform && facts_.threads > 1;
  if (differs) {
    conditions_.push_back(branch.condition);
  } else {
    around.executions *= probability(levels_, branch.condition);
  }
  const Status status = visit(*branch.body, around);
  if (differs) conditions_.pop_back();
  return status;
}

Status GpuPhaseWalk::visit_allocate(const Allocate& allocate) {
  const Buffer& buffer = allocate.buffer;
  buffers_[buffer.name] = &buffer;
  return visit(*allocate.body);
}

Status GpuPhaseWalk::visit_assign(const Assign& assign) {
  is_asynchronous_ = assign.asynchronous && schedules::copies_asynchronously(target_);
  // One asynchronous instruction copies, or writes zeros if there is nothing to copy, so the
  // statement that writes zeros does not count.
  if (is_asynchronous_ && !assign.value.as<dsl::Read>()) return {};
  SectionFacts& s = section();
  // A section that begins under a condition may continue outside of it.
  const double share = s.executions > 0 ? around_.executions / s.executions : 0;
  points_ = sample_warps(levels_);
  const double executed = warps_under({}).executed * share * copies();
  // As `first_inner` is levels_.size(), the function that tells whether loops store is never
  // called.
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

Status GpuPhaseWalk::visit_tile(const Loop& loop) {
  if (!around_.in_nest)
    return fail(ErrorCode::Internal, "[extract features] a tensor tile of no warp");
  is_asynchronous_ = false;
  TW_TRY(const schedules::TensorNest nest, schedules::tensor_nest(loop, nest_));
  TW_TRY(const Buffer* by_row, find(nest.by_row->tensor, nest.by_row->indices.size()));
  TW_TRY(const Buffer* by_column, find(nest.by_column->tensor, nest.by_column->indices.size()));
  TW_TRY(const Buffer* sums, find(nest.sum->buffer, nest.sum->indices.size()));
  const schedules::TensorTile& tile = *nest.tile;
  SectionFacts& s = section();
  note_life(s, *sums);
  const double share = s.executions > 0 ? around_.executions / s.executions : 0;
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
  // If a product takes several tensor instructions, the products are added to the accumulators by
  // ordinary additions and not by the tensor cores (codegen/gpu/prelude.cpp).
  if (tile.instructions > 1) {
    s.instructions.arithmetic += copies() * lane_sums * share;
    s.partial_sums += copies() * lane_sums;
  }
  for (const Loop* part : {nest.part, nest.column})
    levels_.push_back(
        make_level(levels_, part->variable, part->begin, part->end, LoopKind::Unrolled));
  add_chain(s, make_access(*sums, nest.sum->indices, levels_));
  s.tensor_chain = std::max(s.tensor_chain, s.chain * tile.instructions);
  const std::string element = "%element";  // no variable of a program has this name
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

void GpuPhaseWalk::add_warpgroup(SectionFacts& s, const schedules::TensorNest& nest,
                                 double instructions) {
  const int64_t elements = (rows_of(nest) + columns_of(nest)) * nest.tile->depth;
  const double bytes = static_cast<double>(elements) * size_bytes(nest.tile->operand);
  s.shared_cycles +=
      instructions * bytes / (shared_banks * 4.0) / static_cast<double>(schedules::warpgroup_warps);
  s.instructions.integer += instructions * descriptor_instructions;
  s.chain = std::max(s.chain, 1.0);
  s.tensor_chain = std::max(s.tensor_chain, 1.0);
  s.drains = 1;
}

Status GpuPhaseWalk::visit_tma_copy(const Loop& loop) {
  const size_t outside = levels_.size();
  double elements = 1;
  const Assign* copy = nullptr;
  for (const Loop* inner = &loop; inner; inner = inner->body->front().as<Loop>()) {
    levels_.push_back(make_level(levels_, inner->variable, inner->begin, inner->end, inner->kind));
    elements *= levels_.back().trips;
    copy = inner->body->front().as<Assign>();
  }
  TW_CHECK(copy, "a box is a copy");
  const dsl::Read& read = *copy->value.as<dsl::Read>();
  TW_TRY(const Buffer* source, find(read.tensor, read.indices.size()));
  SectionFacts& s = section();
  const double share = s.executions > 0 ? around_.executions / s.executions : 0;
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
  line.sectors = line.ideal_sectors = shared_line_bytes / sector_bytes;
  in_box_ = true;
  add_global_traffic(s, make_access(*source, read.indices, levels_), false,
                     bytes / shared_line_bytes, line, shared_line_bytes / warp_threads);
  in_box_ = false;
  levels_.erase(levels_.begin() + static_cast<ptrdiff_t>(outside), levels_.end());
  return {};
}

double GpuPhaseWalk::add_factor(SectionFacts& s, const schedules::TensorTile& tile,
                                const Buffer& buffer, const std::vector<Expr>& indices,
                                double share) {
  const double registers = add_access(s, buffer, indices, false, {}, share);
  if (tile.input_error == 0) return registers;
  const double elements =
      distinct_elements(make_access(buffer, indices, levels_), levels_,
                        [&](size_t level) { return is_straight(levels_[level]); });
  s.instructions.arithmetic += split_instructions * elements * share;
  return tile.instructions > 1 ? 2 * registers : registers;  // the two parts of a split f32
}

Result<const Buffer*> GpuPhaseWalk::find(const std::string& name, size_t rank) const {
  const auto found = buffers_.find(name);
  if (found != buffers_.end() && found->second->extents.size() == rank) return found->second;
  return fail(ErrorCode::Internal,
              fmt::format("[extract features] the program accesses {} with {} indices, which is "
                          "no buffer of that rank: the program is not well formed",
                          name, rank));
}

SectionFacts& GpuPhaseWalk::section() {
  const auto [found, is_new] = section_of_.try_emplace(around_.innermost, facts_.sections.size());
  if (!is_new) return facts_.sections[found->second];
  SectionFacts s;
  s.executions = around_.executions;
  double threads = 1;
  for (const Level& level : levels_)
    if (level.kind == LoopKind::Thread) threads *= level.trips;
  s.warps = std::ceil(threads / warp_threads);
  if (around_.innermost && around_.innermost->kind != LoopKind::Thread) {
    s.instructions.integer += iteration_instructions;
    if (around_.in_nest) s.trips = levels_[serial_.back().second].trips;
  }
  facts_.sections.push_back(s);
  return facts_.sections.back();
}

double GpuPhaseWalk::copies() const {
  double copies = 1;
  for (const Level& level : levels_)
    if (is_straight(level)) copies *= level.trips;
  return copies;
}

bool GpuPhaseWalk::moves(const std::vector<Expr>& indices) const {
  if (!around_.innermost || around_.innermost->kind != LoopKind::Serial || !around_.in_nest)
    return true;
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
    return dsl::uses_var(index, around_.innermost->variable);
  });
}

void GpuPhaseWalk::add_chain(SectionFacts& s, const Access& access) {
  const double sums =
      distinct_elements(access, levels_, [&](size_t level) { return is_straight(levels_[level]); });
  const double chain = copies() / std::max(1.0, sums);
  if (chain * sums < s.chain * s.accumulators) return;
  s.chain = chain;
  s.accumulators = sums;
}

double GpuPhaseWalk::divisions(const Expr& expr) const {
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
    const double turns = moves ? 1 : 1 / std::max(1.0, around_.executions);
    const double times = uses_kind(e, levels_, LoopKind::Unrolled) ? copies() : 1;
    instructions += cost * turns * times;
  });
  return instructions;
}

double GpuPhaseWalk::own_elements(const Buffer& buffer) const {
  double elements = static_cast<double>(buffer.elements());
  if (const auto found = numbered_.find(buffer.name); found != numbered_.end())
    for (const size_t d : found->second)
      elements /= static_cast<double>(std::max<int64_t>(1, buffer.extents[d]));
  return elements;
}

void GpuPhaseWalk::estimate_registers() {
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
  const double free = std::clamp(registers_of_thread() - facts_.registers, 0.0, partial_sums);
  facts_.registers += free + spilled_partial_sums * (partial_sums - free);
}

double GpuPhaseWalk::registers_of_thread() const {
  return std::min(
      gpu_.registers_per_thread * 1.0,
      std::floor(static_cast<double>(gpu_.registers) /
                 (resident_blocks_ * (facts_.warps * warp_threads + facts_.producer_threads))));
}

void GpuPhaseWalk::find_residence() {
  const double most = registers_of_thread();
  facts_.spills = std::max(0.0, facts_.registers - most);
  const double share = std::floor(most / registers_granule) * registers_granule;
  facts_.resident = residency(facts_.block_threads(), std::min(facts_.registers, share),
                              facts_.shared_bytes, gpu_)
                        .blocks();
  facts_.occupancy = occupancy(facts_.resident, facts_.block_threads(), gpu_);
  const double processors = target_.machine.cores;
  facts_.waves = facts_.blocks / (processors * std::max(1.0, facts_.resident));
  facts_.tail = std::ceil(facts_.blocks / processors) * processors / std::max(1.0, facts_.blocks);
}

void GpuPhaseWalk::add_up() {
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

}  // namespace tw::cost_model::facts

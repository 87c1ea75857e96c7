// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/phase_walk.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tw::cost_model::facts {
namespace {

// Latency of a shuffle and an addition after it, in units of the latency of an addition.
constexpr double shuffled_updates = 1.5;

// Cycles from the start of a tile's products until its sums are ready (Intel 64 and IA-32
// Architectures Optimization Reference Manual, "Intel AMX").
constexpr double core_tile_latency_cycles = 52;

// The time of the addition after a dot product, and the time of widening a factor, as shares of the
// time of a multiplication. Cores multiply on two ports, and add integers on these ports and on one
// or two others. The share was chosen for quantized networks on a Zen 3; with it, predicted times
// are still above the measured times.
constexpr double light_share = 0.25;

/// Returns the variables of the loops in `body` that contain a store to the buffer.
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

}  // namespace

Result<PhaseFacts> PhaseWalk::walk(const schedules::Phase& phase) {
  phase_.tasks = static_cast<double>(phase.tasks());
  around_.node = add_node(1, true, false);
  for (const schedules::TaskAxis& axis : phase.axes) {
    levels_.push_back(make_level(levels_, axis.variable, 0, axis.extent, LoopKind::Serial));
    levels_.back().is_task_axis = true;
    around_.node = add_node(levels_.back().trips, true, true);
  }
  task_node_ = around_.node;
  TW_RETURN_IF_ERROR(visit(*phase.body));
  finish_blocks();
  finish_traffic();
  count_loops();
  return std::move(phase_);
}

Status PhaseWalk::visit(const Block& body) {
  for (size_t i = 0; i < body.size(); ++i) {
    const bool begins = i + 1 < body.size() && begins_tiles(body[i], body[i + 1]);
    if (begins) ++i;
    const bool are_tiles = begins || (has_core_tiles_ && !around_.tile_sums &&
                                      schedules::sums_of_tiles(body[i], target_));
    Around around = around_;
    if (are_tiles) around.tile_sums = {levels_.size(), begins};
    TW_RETURN_IF_ERROR(visit(body[i], around));
  }
  return {};
}

bool PhaseWalk::begins_tiles(const Stmt& stmt, const Stmt& next) const {
  const bool may_begin = has_core_tiles_ && !around_.tile_sums;
  const std::string* sums = may_begin ? schedules::sums_of_tiles(next, target_) : nullptr;
  if (!sums) return false;
  const auto found = std::find_if(live_.rbegin(), live_.rend(), [&](size_t buffer) {
    return known_[buffer].buffer->name == *sums;
  });
  return found != live_.rend() && schedules::sets_to_zero(stmt, *known_[*found].buffer);
}

Status PhaseWalk::visit(const Stmt& stmt) {
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
      // Synchronization of GPU threads costs nothing here, because gpu_phase_walk.cpp counts it.
      always<schedules::Barrier, schedules::Commit, schedules::Wait>(Status{}));
}

Status PhaseWalk::visit_loop(const Loop& loop) {
  if (const auto dot = schedules::dot_product(loop)) return visit_dot_product(*dot);
  if (loop.tile && schedules::has_core_tile(*loop.tile, target_)) return visit_core_tile(loop);
  levels_.push_back(make_level(levels_, loop.variable, loop.begin, loop.end, loop.kind));
  Around around = around_;
  if (loop.kind != LoopKind::Unrolled && loop.kind != LoopKind::Vector) {
    around.node = add_node(levels_.back().trips, levels_.back().has_literal_bounds, false);
    around.weight = 1;
  }
  if (loop.kind != LoopKind::Vector) around.body = ++bodies_;
  const Status status = visit(*loop.body, around);
  levels_.pop_back();
  return status;
}

Status PhaseWalk::visit_dot_product(const DotProduct& dot) {
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

Status PhaseWalk::visit_core_tile(const Loop& loop) {
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
  // Sums are loaded before, and stored after, the loops that compute nothing but core tiles.
  const double moved = rows * tile.weight / iterations_of_sums(sums, around_.tile_sums->outside);
  block.instructions.stores += moved;
  if (!around_.tile_sums->begin_with_zero) block.instructions.vector_loads += moved;
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

Status PhaseWalk::add_tile_load(BlockFacts& block, const schedules::CoreNest& nest,
                                const dsl::Read& read, const Loop& rows, const Loop& neighbours) {
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

void PhaseWalk::enter(const Loop& loop, LoopKind kind) {
  levels_.push_back(make_level(levels_, loop.variable, loop.begin, loop.end, kind));
}

Status PhaseWalk::visit_if(const If& branch) {
  // A condition that differs between lanes becomes a mask, which is computed once. The statements
  // are executed for all lanes.
  Around around = around_;
  if (differs_by_lane(branch.condition)) {
    around.lane_share *= probability(levels_, branch.condition);
    around.masked = true;
    return visit(*branch.body, around);
  }
  double copies = around.weight;
  for (size_t i = current().first_inner_level; i < levels_.size(); ++i)
    copies *= code_copies(levels_[i]);
  current_block().instructions.tests += copies;
  kernel_.if_tests += current().iterations() * copies;
  around.weight *= probability(levels_, branch.condition);
  return visit(*branch.body, around);
}

Status PhaseWalk::visit_allocate(const Allocate& allocate) {
  known_.push_back(
      {.buffer = &allocate.buffer, .allocation = &allocate, .loops_around = levels_.size()});
  live_.push_back(known_.size() - 1);
  if (allocate.buffer.scope == Scope::Local) kernel_.local_bytes += bytes_of(allocate.buffer);
  const Status status = visit(*allocate.body);
  live_.pop_back();
  return status;
}

Status PhaseWalk::visit_assign(const Assign& assign) {
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

bool PhaseWalk::is_stored_in(const dsl::Read& read, size_t loop) {
  const auto found = find(read.tensor, read.indices.size());
  if (!found || !known_[*found].allocation) return false;
  Known& buffer = known_[*found];
  if (loop < buffer.loops_around) return true;
  if (!buffer.storing_loops)
    buffer.storing_loops = storing_loops(*buffer.allocation->body, buffer.buffer->name);
  return std::ranges::find(*buffer.storing_loops, levels_[loop].variable) !=
         buffer.storing_loops->end();
}

std::optional<double> PhaseWalk::step_along(const Access& access, size_t level) {
  if (access.is_irregular_in(level)) return std::nullopt;
  double step = 0, stride = 1;
  for (size_t d = access.dimensions.size(); d > 0; --d) {
    for (const IndexTerm& term : access.dimensions[d - 1])
      if (term.level == level) step += term.coefficient * stride;
    stride *= static_cast<double>(access.extents[d - 1]);
  }
  return step;
}

Result<bool> PhaseWalk::has_neighbours(const DotProduct& dot) {
  levels_.push_back(
      make_level(levels_, dot.depth->variable, dot.depth->begin, dot.depth->end, LoopKind::Vector));
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

Status PhaseWalk::add_dot_product(const DotProduct& dot,
                                  const schedules::DotInstruction& instruction, size_t target) {
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
  // For dot.own, which differs by lane, the products of a lane are the innermost level. For
  // dot.shared, which is the same for all lanes, the two levels are swapped below, so that lanes
  // are the innermost level and the load is a broadcast.
  levels_.push_back(
      make_level(levels_, dot.depth->variable, dot.depth->begin, dot.depth->end, LoopKind::Vector));
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
  // A load can broadcast 4 bytes or more. A broadcast of fewer bytes takes an additional shuffle.
  const int64_t bytes = instruction.depth * size_bytes(dot.shared->type);
  const int shuffles = (bytes < 4 ? 1 : 0) + (dot.shared->type != instruction.shared ? 1 : 0);
  block.instructions.arithmetic += shuffles * (block.instructions.broadcast_loads - broadcasts);
  block.operand_registers = std::max(block.operand_registers, own.registers + shared.registers);
  std::swap(levels_[levels_.size() - 2], levels_.back());
  levels_.pop_back();
  return {};
}

double PhaseWalk::digits_of_load(const DotProduct& dot) {
  double digits = 1;
  for (size_t i = current().first_inner_level; i < levels_.size(); ++i) {
    const std::string& loop = levels_[i].variable;
    const bool is_loaded_anew = std::ranges::any_of(
        dot.own->indices, [&](const Expr& index) { return dsl::uses_var(index, loop); });
    if (dsl::uses_var(dot.digit->shift, loop) && !is_loaded_anew) digits *= code_copies(levels_[i]);
  }
  return digits;
}

Status PhaseWalk::visit_prefetch(const schedules::PrefetchLines& prefetch) {
  double lines = around_.weight * static_cast<double>(prefetch.lines);
  for (size_t i = current().first_inner_level; i < levels_.size(); ++i)
    lines *= code_copies(levels_[i]);
  current_block().instructions.prefetches += lines;
  phase_.prefetched += current().iterations() * lines * schedules::prefetched_line_bytes;
  return {};
}

size_t PhaseWalk::first_varying_level() {
  const Node& node = current();
  const bool in_loop = node.parent >= 0 && !node.is_task_axis;
  return node.first_inner_level - (in_loop ? 1 : 0);
}

double PhaseWalk::terms_of_tree(const Site& site, const Operations& operations,
                                size_t target) const {
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

void PhaseWalk::add_tree(BlockFacts& block, const Site& site, const Operations& operations,
                         size_t target, double terms) {
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

int PhaseWalk::add_node(double trips, bool has_literal_bounds, bool is_task_axis) {
  Node node;
  node.parent = around_.node;
  node.first_inner_level = levels_.size();
  node.trips = trips;
  node.is_task_axis = is_task_axis;
  node.has_literal_bounds = has_literal_bounds;
  if (around_.node >= 0) {
    const Node& parent = current();
    node.entries_per_iteration = around_.weight;
    // The node's own level is the last one. The levels between it and the parent's are unrolled.
    for (size_t i = parent.first_inner_level; i + 1 < levels_.size(); ++i)
      node.entries_per_iteration *= code_copies(levels_[i]);
    node.entries = parent.iterations() * node.entries_per_iteration;
    node.depth = parent.depth + 1;
  }
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

double PhaseWalk::code_copies(const Level& level) {
  return level.kind == LoopKind::Vector ? 1 : level.trips;
}

bool PhaseWalk::is_unrolled(size_t level, const Site& site) const {
  return level >= site.first_inner_level && levels_[level].kind == LoopKind::Unrolled &&
         levels_[level].trips > 1;
}

std::optional<size_t> PhaseWalk::vector_level() const {
  for (size_t i = levels_.size(); i > 0; --i)
    if (levels_[i - 1].kind == LoopKind::Vector && levels_[i - 1].trips > 1) return i - 1;
  return std::nullopt;
}

bool PhaseWalk::differs_by_lane(const Expr& condition) const {
  const auto level = vector_level();
  if (!level) return false;
  bool differs = false;
  dsl::for_each(condition, [&](const Expr& e) {
    const dsl::Var* v = e.as<dsl::Var>();
    differs |= v && v->name == levels_[*level].variable;
  });
  return differs;
}

double PhaseWalk::split_share(const Access& access, Pattern how) const {
  const auto level = vector_level();
  if (how != Pattern::Contiguous || !level) return 0;
  const double width = std::min(lanes() * size_of(access), machine_.core.vector_bytes * 1.0);
  const bool divides = std::fmod(lines_.bytes, width) == 0;
  if (is_aligned(access, levels_, divides ? width : lines_.bytes)) return 0;
  return std::min(1.0, width / lines_.bytes);
}

double PhaseWalk::lanes() const {
  double lanes = 1;
  for (const Level& level : levels_)
    if (level.kind == LoopKind::Vector) lanes *= level.trips;
  return lanes;
}

double PhaseWalk::registers_for(double lanes, double element_bytes) const {
  return lanes == 1 ? 1 : std::ceil(lanes * element_bytes / machine_.core.vector_bytes);
}

double PhaseWalk::registers_of(size_t buffer) const {
  const Buffer& b = *known_[buffer].buffer;
  if (!known_[buffer].vectorized) return elements_of(b);
  const double row = static_cast<double>(b.extents.empty() ? 1 : b.extents.back());
  return elements_of(b) / std::max(1.0, row) *
         std::ceil(row * size_bytes(b.type) / machine_.core.vector_bytes);
}

double PhaseWalk::registers_of(const std::vector<size_t>& buffers) const {
  double registers = 0;
  for (const size_t buffer : buffers) registers += registers_of(buffer);
  return registers;
}

void PhaseWalk::finish_blocks() {
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

double PhaseWalk::available_registers(const BlockFacts& block) const {
  const bool loads_ahead = block.chain > 1 && !machine_.core.embedded_broadcast;
  return machine_.core.vector_registers - (loads_ahead ? 1 : 0);
}

double PhaseWalk::reloads(const std::vector<Loaded>& loads, double free) {
  double shared = 0, kept = 0;
  for (const Loaded& loaded : loads) {
    shared += loaded.shared;
    kept += loaded.most_shared;
  }
  return kept > free ? shared * (1 - free / kept) : 0;
}

void PhaseWalk::add_footprints(BlockFacts& block, int innermost) {
  for (int n = innermost; n >= 0; n = nodes_[static_cast<size_t>(n)].parent) {
    const Node& node = nodes_[static_cast<size_t>(n)];
    block.footprints.push_back(total_footprint(node));
    if (node.is_task_axis) break;
  }
}

void PhaseWalk::add_to_kernel(const BlockFacts& block) {
  kernel_.instructions.add(block.instructions, block.executions);
  kernel_.statements += block.statements;
  if (block.flops > 0 && block.lane_use > 0)
    kernel_.lane_flops += block.flops * block.executions / block.lane_use;
}

void PhaseWalk::count_loops() {
  for (size_t n = static_cast<size_t>(task_node_) + 1; n < nodes_.size(); ++n) {
    phase_.serial_iterations += nodes_[n].iterations();
    phase_.loop_entries += nodes_[n].entries;
    if (!nodes_[n].has_literal_bounds) phase_.dynamic_entries += nodes_[n].entries;
  }
}

}  // namespace tw::cost_model::facts

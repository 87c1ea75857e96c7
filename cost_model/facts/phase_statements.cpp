// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cost_model/facts/phase_walk.h"

namespace tw::cost_model::facts {
namespace {

// The time of f64 divisions, divided by the time of f32 divisions of the same number of bytes.
// Intel's cores since Ice Lake take 8 and 5 cycles for 32 bytes.
constexpr double division_of_doubles = 1.6;

}  // namespace

Result<size_t> PhaseWalk::find(const std::string& name, size_t rank) const {
  const auto check = [&](size_t i) -> Result<size_t> {
    if (known_[i].buffer->extents.size() == rank) return i;
    return fail(ErrorCode::Internal,
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

bool PhaseWalk::is_global(size_t i) const {
  const Scope scope = known_[i].buffer->scope;
  return scope == Scope::Argument || scope == Scope::Scratch;
}

Site PhaseWalk::make_site(const Assign& assign, const Buffer& target) {
  Site site{&assign};
  site.first_inner_level = current().first_inner_level;
  for (size_t i = site.first_inner_level; i < levels_.size(); ++i)
    site.copies *= code_copies(levels_[i]);
  // The type of the target decides how many registers a copy needs, because narrower operands are
  // widened to it (f32 accumulators of bf16 products).
  site.registers = registers_for(lanes(), size_bytes(target.type));
  site.weight = site.copies * around_.weight;
  return site;
}

BlockFacts& PhaseWalk::current_block() {
  Node& node = current();
  if (!node.block) {
    node.block = phase_.blocks.size();
    phase_.blocks.emplace_back();
    block_nodes_.push_back(around_.node);
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

void PhaseWalk::add_operations(BlockFacts& block, const Site& site, const Operations& operations) {
  const double instructions = site.weight * site.registers;
  block.instructions.fma += instructions * operations.fma;
  block.instructions.arithmetic += instructions * (operations.arithmetic + operations.selects);
  // AVX2 has no masked multiply-add, so a multiplication, a mask and an addition take its place.
  const bool has_mask_registers = machine_.core.vector_bytes >= 64;
  if (around_.masked && !has_mask_registers)
    block.instructions.arithmetic += 2 * instructions * operations.fma;
  block.instructions.arithmetic += instructions * operations.roots;
  block.instructions.divisions +=
      instructions * divider_work(site) * (operations.divisions + operations.roots);
  // Calls whose operands the innermost loop does not change are made once, before the loop.
  const double trips = first_varying_level() < current().first_inner_level ? current().trips : 1;
  block.instructions.calls +=
      instructions * operations.calls + operations.hoisted * around_.weight / std::max(1.0, trips);
  block.statements += site.copies * site.registers;
  add_flops(block, site, operations);
}

double PhaseWalk::divider_work(const Site& site) const {
  const double element = size_bytes(site.assign->value.type());
  const double bytes = std::min(lanes() * element, machine_.core.vector_bytes * 1.0);
  return std::max(1.0, bytes / 32) * (element > 4 ? division_of_doubles : 1);
}

void PhaseWalk::add_flops(BlockFacts& block, const Site& site, const Operations& operations) {
  const double executions = current().iterations();
  const double flops = site.weight * lanes() * operations.flops;
  block.flops += flops;
  kernel_.flops += executions * flops;
  kernel_.useful_flops += executions * flops * operations.useful * around_.lane_share;
  kernel_.fma_flops += executions * site.weight * lanes() * 2 * operations.fma;
  kernel_.selects += executions * site.weight * operations.selects;
  kernel_.partial_flops += executions * flops * (1 - evenness() * around_.lane_share);
}

double PhaseWalk::evenness() const {
  double share = around_.weight;
  for (const Level& level : levels_)
    if (level.most_trips > 0) share *= level.trips / level.most_trips;
  return std::clamp(share, 0.0, 1.0);
}

Status PhaseWalk::add_reads(BlockFacts& block, const Site& site, const Operations& operations,
                            size_t target) {
  double operands = 0;
  for (const dsl::Read* read : operations.reads) {
    TW_TRY(const Operand operand, add_read(block, site, *read, target));
    operands += operand.registers;
  }
  // An index that all lanes share is in a scalar register, so it needs no vector register.
  for (const dsl::Read* read : operations.index_reads) {
    TW_TRY(const Operand operand, add_read(block, site, *read, target));
    if (operand.how != Pattern::Broadcast) operands += operand.registers;
  }
  block.operand_registers = std::max(block.operand_registers, operands);
  return {};
}

Result<PhaseWalk::Operand> PhaseWalk::add_read(BlockFacts& block, const Site& site,
                                               const dsl::Read& read, size_t target) {
  TW_TRY(const size_t buffer, find(read.tensor, read.indices.size()));
  const Access access = make_access(*known_[buffer].buffer, read.indices, levels_);
  mark_vectorized(buffer, access);
  if (is_register(buffer)) return Operand{};
  const Operand operand = add_load(block, site, access, buffer, is_register(target));
  touch(access, buffer);
  return operand;
}

void PhaseWalk::mark_vectorized(size_t buffer, const Access& access) {
  const auto level = vector_level();
  if (level && pattern(access, *level) == Pattern::Contiguous) known_[buffer].vectorized = true;
}

PhaseWalk::Operand PhaseWalk::add_load(BlockFacts& block, const Site& site, const Access& access,
                                       size_t buffer, bool into_registers) {
  const auto runs = [&](size_t level) { return is_unrolled(level, site); };
  const double of_statement = distinct_elements(access, levels_, runs);
  // The taps of a window are separate statements if padding cuts some of them. A value that several
  // statements read is loaded once and kept in a register, unless a store or a branch lies between
  // the statements.
  double addresses = of_statement;
  if (into_registers && around_.weight == 1) {
    Loaded& loaded = loaded_from(*current().block, buffer);
    add_origin(access, loaded.origins);
    const double together = are_one(loaded.origins)
                                ? of_statement
                                : distinct_elements(access, levels_, runs, loaded.origins);
    addresses = std::clamp(together - loaded.addresses, 0.0, of_statement);
    if (loaded.latest && loaded.latest != site.assign) {
      const double shared = of_statement - addresses;
      // If both statements are in one loop body, their copies alternate, so one shared value has to
      // be kept at a time. If they are in different bodies, all copies of the first come before
      // those of the second, so all shared values have to be kept.
      const bool alternate = loaded.latest_body == around_.body;
      loaded.most_shared = std::max(loaded.most_shared, alternate ? std::min(1.0, shared) : shared);
      loaded.shared += shared;
    }
    loaded.addresses = std::max(loaded.addresses, together);
    loaded.latest = site.assign;
    loaded.latest_body = around_.body;
  }
  const auto level = vector_level();
  const Pattern how = level ? pattern(access, *level) : Pattern::Contiguous;
  const double per_address = how == Pattern::Broadcast    ? 1
                             : how == Pattern::Contiguous ? registers_for(lanes(), size_of(access))
                                                          : lanes();
  // A value that does not change in the innermost loop is loaded before the loop, unless a store to
  // memory may change it meanwhile.
  const bool hoisted = into_registers && !varies_in_innermost_loop(access);
  const double share = around_.weight / (hoisted ? std::max(1.0, current().trips) : 1.0);
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

bool PhaseWalk::varies_in_innermost_loop(const Access& access) const {
  const Node& node = nodes_[static_cast<size_t>(around_.node)];
  if (node.parent < 0 || node.is_task_axis) return true;
  return access.depends_on(node.first_inner_level - 1);
}

double PhaseWalk::kept_values(const Site& site, const Access& access) const {
  for (size_t i = site.first_inner_level; i < levels_.size(); ++i) {
    if (!is_unrolled(i, site)) continue;
    const double shared = shared_values(site, access, i);
    if (shared > 0) return std::max(1.0, shared);
  }
  return 1;
}

double PhaseWalk::shared_values(const Site& site, const Access& access, size_t loop) const {
  const auto values = [&](size_t first) {
    return distinct_elements(
        access, levels_, [&](size_t level) { return level >= first && is_unrolled(level, site); });
  };
  if (!access.depends_on(loop)) return values(loop + 1);
  const double of_one = values(loop + 1), trips = levels_[loop].trips;
  return of_one > 1 ? (trips * of_one - values(loop)) / (trips - 1) : 0;
}

void PhaseWalk::add_target(BlockFacts& block, const Site& site, size_t target) {
  Access access = make_access(*known_[target].buffer, site.assign->indices, levels_);
  access.is_store = true;
  mark_vectorized(target, access);
  add_chains(block, site, access, target);
  if (is_register(target)) return;
  add_store(block, site, access, target);
  touch(access, target);
}

void PhaseWalk::add_store(BlockFacts& block, const Site& site, const Access& access,
                          size_t target) {
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
  // The target is read, combined and written; the read is an additional load.
  (scattered ? block.instructions.strided_loads : block.instructions.vector_loads) += stores;
  kernel_.combine_bytes += 2 * elements * size_of(access);
  kernel_.loaded_bytes += elements * size_of(access);
}

void PhaseWalk::add_chains(BlockFacts& block, const Site& site, const Access& access, size_t target,
                           double latency) {
  if (site.assign->combine == dsl::Combine::None) return;
  Sums& sums = sums_of(*current().block, target);
  sums.updates += site.copies;
  add_origin(access, sums.origins);
  const auto runs = [&](size_t level) { return is_unrolled(level, site); };
  sums.targets = std::max(sums.targets, distinct_elements(access, levels_, runs, sums.origins));
  note_chains(block, sums.targets * site.registers, latency * sums.updates / sums.targets,
              !varies_in_innermost_loop(access), iterations_of_sums(access));
}

void PhaseWalk::note_chains(BlockFacts& block, double chains, double depth, bool loop_reduces,
                            double iterations) {
  if (chains * depth < block.accumulators * block.chain) return;
  block.accumulators = chains;
  block.chain = block.reduction_depth = depth;
  block.loop_reduces = loop_reduces;
  block.sum_iterations = iterations;
}

double PhaseWalk::iterations_of_sums(const Access& access, size_t outside) const {
  double iterations = 1;
  for (int n = around_.node; n >= 0; n = nodes_[static_cast<size_t>(n)].parent) {
    const Node& node = nodes_[static_cast<size_t>(n)];
    const bool continues = node.parent >= 0 && !node.is_task_axis &&
                           node.first_inner_level > outside &&
                           !access.depends_on(node.first_inner_level - 1);
    if (!continues) break;
    iterations *= node.trips;
  }
  return iterations;
}

Loaded& PhaseWalk::loaded_from(size_t block, size_t buffer) {
  for (Loaded& loaded : block_loads_[block])
    if (loaded.buffer == buffer) return loaded;
  return block_loads_[block].emplace_back(Loaded{.buffer = buffer});
}

Sums& PhaseWalk::sums_of(size_t block, size_t buffer) {
  for (Sums& sums : block_sums_[block])
    if (sums.buffer == buffer) return sums;
  return block_sums_[block].emplace_back(Sums{buffer});
}

void PhaseWalk::describe(BlockFacts& block, const Site& site, const Buffer& target) {
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

}  // namespace tw::cost_model::facts

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "cost_model/facts/gpu_phase_walk.h"

namespace tw::cost_model::facts {
namespace {

constexpr int64_t widest_access = 16;

bool is_global(Scope scope) { return scope == Scope::Argument || scope == Scope::Scratch; }

}  // namespace

bool GpuPhaseWalk::holds(const Expr& condition, const WarpPoint& point, WarpPoint& rest) const {
  const auto value = evaluate(condition, levels_, point);
  if (!value) return true;  // depends on data
  for (size_t lane = 0; lane < rest.active.size(); ++lane)
    rest.active[lane] = rest.active[lane] && (*value)[lane] != 0;
  return rest.count() > 0;
}

std::optional<WarpPoint> GpuPhaseWalk::under(const std::vector<Expr>& conditions,
                                             const WarpPoint& point) const {
  WarpPoint rest = point;
  if (rest.count() == 0) return std::nullopt;
  for (const Expr& condition : conditions_)
    if (!holds(condition, point, rest)) return std::nullopt;
  for (const Expr& condition : conditions)
    if (!holds(condition, point, rest)) return std::nullopt;
  return rest;
}

WarpAccess GpuPhaseWalk::warps_under(const std::vector<Expr>& conditions) const {
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

std::optional<LaneValues> GpuPhaseWalk::addresses(const Buffer& buffer,
                                                  const std::vector<Expr>& indices,
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

LaneValues GpuPhaseWalk::swizzled(const Buffer& buffer, LaneValues addresses) {
  for (int64_t& at : addresses) at = buffer.swizzled(at);
  return addresses;
}

int64_t GpuPhaseWalk::width(const Buffer& buffer, const std::vector<Expr>& indices) const {
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

WarpAccess GpuPhaseWalk::look_at(const Buffer& buffer, const std::vector<Expr>& indices,
                                 int64_t bytes, const std::vector<Expr>& conditions) const {
  WarpAccess result = warps_under(conditions);
  double seen = 0;
  for (const WarpPoint& point : points_) {
    const auto rest = under(conditions, point);
    if (!rest) continue;
    seen += 1;
    const auto at = addresses(buffer, indices, *rest);
    // An index that depends on data is assumed to touch a sector of its own for each lane.
    result.sectors += at ? sectors(*at, bytes, *rest) : rest->count();
    const int different = at ? different_addresses(*at, *rest) : rest->count();
    result.ideal_sectors += std::ceil(static_cast<double>(different * bytes) / sector_bytes);
    result.bank_cycles += at ? bank_cycles(swizzled(buffer, *at), bytes, *rest) : 1;
  }
  result.sectors /= std::max(1.0, seen);
  result.ideal_sectors /= std::max(1.0, seen);
  result.bank_cycles /= std::max(1.0, seen);
  return result;
}

void GpuPhaseWalk::note_life(const SectionFacts& s, const Buffer& buffer) {
  const auto at = static_cast<size_t>(&s - facts_.sections.data());
  const auto found = lives_.try_emplace(&buffer, at, at).first;
  found->second.last = std::max(found->second.last, facts_.sections.size() - 1);
}

double GpuPhaseWalk::add_access(SectionFacts& s, const Buffer& buffer,
                                const std::vector<Expr>& indices, bool is_store,
                                const std::vector<Expr>& conditions, double turns) {
  const Access access = make_access(buffer, indices, levels_);
  // For indices with remainders, distinct_elements() may count elements that are not accessed, so
  // the number of copies is a bound.
  const double elements = std::min(copies(), distinct_elements(access, levels_, [&](size_t level) {
                                     return is_straight(levels_[level]);
                                   }));
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
    // An asynchronous copy (cp.async) of 16 bytes writes to shared memory past L1. A smaller one
    // goes through L1 and counts as an access of shared memory.
    if (!is_asynchronous_ || bytes < widest_access) s.instructions.shared += count;
    s.shared_cycles += count * warp.bank_cycles;
    const double accesses = facts_.blocks * s.executions * s.warps * count;
    facts_.shared_accesses += accesses;
    facts_.bank_cycles += accesses * warp.bank_cycles;
  }
  for (const Expr& condition : conditions)
    s.instructions.integer += (condition_instructions * elements + divisions(condition)) * turns;
  return is_store ? 0 : kept(access, elements) * std::max(1.0, size / register_bytes);
}

void GpuPhaseWalk::add_global_traffic(SectionFacts& s, Access access, bool is_store, double count,
                                      const WarpAccess& warp, double bytes) {
  s.sectors += count * warp.sectors;
  if (is_store) s.stored_sectors += count * warp.sectors;
  s.instructions.integer += 1;
  // Addresses of copies that are made before a pipeline need no registers inside of it.
  if (!is_asynchronous_ || around_.in_pipeline) address_count_ += 1;
  const double executions = s.executions * s.warps * count;
  facts_.ideal_sectors += facts_.blocks * executions * warp.ideal_sectors;
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

double GpuPhaseWalk::within(const Access& access, size_t first) const {
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

bool GpuPhaseWalk::is_in_memory(const Buffer& buffer, const std::vector<Expr>& indices) const {
  if (own_elements(buffer) <= 1) return false;
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
    return uses_kind(index, levels_, LoopKind::Serial);
  });
}

double GpuPhaseWalk::kept(const Access& access, double elements) const {
  for (size_t i = 0; i < levels_.size(); ++i) {
    if (!is_straight(levels_[i]) || levels_[i].trips <= 1 || access.depends_on(i)) continue;
    return distinct_elements(access, levels_,
                             [&](size_t l) { return l > i && is_straight(levels_[l]); });
  }
  return elements;
}

void GpuPhaseWalk::raise(ByBuffer& bytes, const Buffer* buffer, double value) {
  bytes[buffer] = std::max(bytes[buffer], value);
}

double GpuPhaseWalk::sum(const ByBuffer& bytes) {
  double all = 0;
  for (const auto& [buffer, value] : bytes) all += value;
  return all;
}

void GpuPhaseWalk::find_traffic() {
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
    // If all that the block reads fits into L1, a statement finds there the data that another
    // statement has read.
    if (stays)
      raise(fetched, use.access.buffer, bytes);
    else
      fetched[use.access.buffer] += bytes;
  }
  facts_.l2_bytes += facts_.blocks * sum(fetched);
  facts_.tma_bytes = std::min(facts_.tma_bytes, facts_.l2_bytes);
  find_dram_traffic(fetched);
}

double GpuPhaseWalk::l1_of_block() const {
  return static_cast<double>(target_.machine.l1_bytes()) / std::max(1.0, facts_.resident) -
         facts_.shared_bytes - reserved_shared_bytes;
}

double GpuPhaseWalk::into_l1(const GlobalUse& use,
                             const std::map<const Loop*, double>& working_sets) const {
  const double capacity = l1_of_block();
  double bytes = use.footprints.front();
  for (size_t i = 0; i < use.loops.size(); ++i) {
    const bool fits = working_sets.at(use.loops[i]) <= capacity;
    bytes = fits ? std::min(use.footprints[i + 1], use.trips[i] * bytes) : use.trips[i] * bytes;
  }
  return bytes;
}

void GpuPhaseWalk::find_dram_traffic(const ByBuffer& fetched) {
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

double GpuPhaseWalk::touched(const GlobalUse& use, double blocks) const {
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

}  // namespace tw::cost_model::facts

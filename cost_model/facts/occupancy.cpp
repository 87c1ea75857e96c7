// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/occupancy.h"

#include <algorithm>
#include <cmath>

namespace tw::cost_model {
namespace {

constexpr double shared_granule = 128;  // unit of allocation in bytes

double round_up(double value, double granule) { return std::ceil(value / granule) * granule; }

}  // namespace

double Residency::blocks() const {
  return std::floor(std::min({by_threads, by_registers, by_shared_memory, by_slots}));
}

std::string_view Residency::limit() const {
  const double least = std::min({by_threads, by_registers, by_shared_memory, by_slots});
  if (least == by_threads) return "threads";
  if (least == by_registers) return "registers";
  return least == by_shared_memory ? "shared memory" : "slots for blocks";
}

Residency residency(double threads, double registers, double shared_bytes, const Gpu& gpu) {
  const double lanes = round_up(threads, warp_threads);
  const double own = round_up(std::max(registers, 1.0), registers_granule) * lanes;
  const double shared = round_up(shared_bytes, shared_granule) + reserved_shared_bytes;
  return {std::floor(gpu.resident_threads / lanes),
          std::floor(static_cast<double>(gpu.registers) / own),
          std::floor(static_cast<double>(gpu.shared_bytes) / shared),
          static_cast<double>(gpu.resident_blocks)};
}

double occupancy(double blocks, double threads, const Gpu& gpu) {
  return blocks * round_up(threads, warp_threads) / gpu.resident_threads;
}

}  // namespace tw::cost_model

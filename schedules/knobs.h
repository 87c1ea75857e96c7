// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a search may choose: the knobs of each stage, the values that they may take, and which
// combinations are worth building. Plain values; thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/target.h"
#include "schedules/legality.h"

namespace tw::schedules {

struct ComputePlan;
struct StagePlan;

/// Of one phase, unrolled: more is not worth building. Code generation takes a third of a
/// millisecond for each, and on Zen 4 tiles of up to 28 accumulators stay free of spills below
/// about 400.
inline constexpr int64_t most_statements_searched = 256;
/// Of a GPU's: a tile of 128 sums four times, and what clears, fetches and writes it.
inline constexpr int64_t most_gpu_statements_searched = 1024;

/// Of the target, and no more statements than a search builds.
Limits limits_searched(const Target& target);

/// One decision: its name ("conv.tile.x") and the values it may take.
struct Knob {
  std::string name;
  std::vector<int64_t> values;
};

/// An index into each knob's values.
using Point = std::vector<int>;

/// Knobs in a fixed order, found by name.
class Knobs {
 public:
  void add(const std::string& name, std::vector<int64_t> values);
  const std::vector<Knob>& all() const { return knobs_; }
  /// The place of a knob; nothing where there is none of that name.
  std::optional<size_t> find(const std::string& name) const;
  /// Of the knob at the point; `otherwise` where there is no such knob.
  int64_t value(const Point& point, const std::string& name, int64_t otherwise = 0) const;

 private:
  std::vector<Knob> knobs_;
  std::map<std::string, size_t> places_;
};

Knobs knobs_of(const ComputePlan& plan);

/// Whether each tile fits the registers, what it unrolls stays small, and no two choices
/// contradict.
bool meets_constraints(const ComputePlan& plan, const Knobs& knobs, const Point& point);
/// The same for the knobs of one stage. No constraint involves two stages.
bool meets_constraints(const ComputePlan& plan, const StagePlan& stage, const Knobs& knobs,
                       const Point& point);

}  // namespace tw::schedules

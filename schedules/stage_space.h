// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a search space that belongs to one stage: the strategies that match the stage, and
// its decisions. Indices are places among the decisions of the whole space; `choices` are those of
// a point. Immutable once made; thread-safe to share.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/small_vector.h"
#include "schedules/strategy.h"

namespace tw::schedules {

/// Values of a configuration's knobs.
using KnobValues = SmallVector<int64_t, 32>;

/// A strategy that matches a stage.
struct Offer {
  std::string_view name;
  std::unique_ptr<const StageStrategy> strategy;
  std::vector<size_t> decisions;  ///< of its knobs, in their order
};

class StageSpace {
 public:
  /// Appends the stage's decisions to `decisions`. Of no use where offers() is empty. Requires: the
  /// plan outlives the stage space.
  StageSpace(const ComputePlan& plan, const StagePlan& stage, std::span<const Strategy> strategies,
             std::vector<Knob>& decisions);

  const StagePlan& plan() const { return *plan_; }
  const std::vector<Offer>& offers() const { return offers_; }
  /// "stage.place": 0: in a phase of its own, 1: inside of its consumer where that has a loop for
  /// it. None where the stage can only have a phase of its own.
  std::optional<size_t> place() const { return place_; }
  /// "stage.strategy": an index of offers(). None where there is one.
  std::optional<size_t> strategy() const { return strategy_; }
  /// The stage's decisions are those from `begin` to before `end`.
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

  /// The number of configurations, constraints not counted.
  double size() const;

  bool is_placed(std::span<const int> choices) const;
  const Offer& offer(std::span<const int> choices) const;
  /// Whether a decision of the stage says anything where the choices take this strategy.
  bool is_active(size_t decision, std::span<const int> choices) const;
  /// Sets what says nothing to 0.
  void settle(std::span<int> choices) const;
  bool is_settled(std::span<const int> choices) const;

  KnobValues values(std::span<const int> choices, const std::vector<Knob>& decisions) const;
  /// Whether the strategy has these values, and allows the configuration.
  bool fits(std::span<const int> choices, const std::vector<Knob>& decisions) const;

 private:
  const StagePlan* plan_;
  std::vector<Offer> offers_;
  std::vector<std::vector<bool>> active_;  ///< for each offer, of the stage's decisions
  std::optional<size_t> place_, strategy_;
  size_t begin_, end_;
};

}  // namespace tw::schedules

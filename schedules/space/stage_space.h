// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a search space that belongs to one stage: the strategies that match the stage, and
// its decisions. Indices count the decisions of the whole space; `choices` are those of a point.
// Immutable once made; thread-safe to share.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/small_vector.h"
#include "schedules/space/strategy.h"

namespace tw::schedules {

/// Values of a configuration's knobs.
using KnobValues = SmallVector<int64_t, 32>;

/// A strategy that matches a stage.
struct Offer {
  std::string_view name;
  std::unique_ptr<const StageStrategy> strategy;
  std::vector<size_t> decisions;  ///< decision of each of its knobs, in their order
  /// The choices of the first knobs that may be allowed together; empty where the strategy does not
  /// name any (StageStrategy::knobs_of_head()).
  std::vector<std::vector<int>> heads;
};

class StageSpace {
 public:
  /// Appends the stage's decisions to `decisions`. If offers() is empty, no strategy matches and
  /// the stage space must not be used. Requires: the plan outlives the stage space.
  StageSpace(const ComputePlan& plan, const StagePlan& stage, std::span<const Strategy> strategies,
             std::vector<Knob>& decisions);

  const StagePlan& plan() const { return *plan_; }
  const std::vector<Offer>& offers() const { return offers_; }
  /// Index of the decision "stage.place": 0 means a phase of its own, 1 inside of its consumer if
  /// that has a loop for it. nullopt if the stage can only have a phase of its own.
  std::optional<size_t> place() const { return place_; }
  /// Index of the decision "stage.strategy", whose values are indices of offers(). nullopt if there
  /// is only one offer.
  std::optional<size_t> strategy() const { return strategy_; }
  /// The stage's decisions are those from `begin` to before `end`.
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

  /// The number of configurations, constraints not counted.
  double size() const;

  bool is_placed(std::span<const int> choices) const;
  const Offer& offer(std::span<const int> choices) const;
  /// True if a decision of the stage has an effect under these choices.
  bool is_active(size_t decision, std::span<const int> choices) const;
  /// Sets decisions without an effect to 0.
  void settle(std::span<int> choices) const;
  bool is_settled(std::span<const int> choices) const;

  /// Draws the choices of all decisions of the stage; `place`, if given, is that of place().
  /// Configurations of one offer that are allowed are equally likely; others may be drawn too.
  void draw(std::span<int> choices, const std::vector<Knob>& decisions, std::optional<int> place,
            Random& random) const;

  KnobValues values(std::span<const int> choices, const std::vector<Knob>& decisions) const;
  /// True if the strategy has these values and allows the configuration.
  bool fits(std::span<const int> choices, const std::vector<Knob>& decisions) const;

 private:
  const StagePlan* plan_;
  std::vector<Offer> offers_;
  std::vector<std::vector<bool>>
      active_;  ///< for each offer: which of the stage's decisions it uses
  std::optional<size_t> place_, strategy_;
  size_t begin_, end_;
};

}  // namespace tw::schedules

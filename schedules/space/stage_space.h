// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a search space that belongs to one stage: the strategies that match the stage, and
// the stage's decisions. In this file the index of a decision is its index among all decisions of
// the space, and `choices` has all choices of a point. Immutable once made; thread-safe to share.

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

/// The values of the knobs of a configuration.
using KnobValues = SmallVector<int64_t, 32>;

/// A strategy that matches a stage.
struct Offer {
  std::string_view name;
  std::unique_ptr<const StageStrategy> strategy;
  std::vector<size_t> decisions;  ///< index of the decision of each knob, in the order of the knobs
  /// One vector for each combination of values of the first knobs that an allowed configuration may
  /// begin with (StageStrategy::knobs_of_head()). A vector has the choices for these knobs, i.e.
  /// indices of values. Empty if the strategy has no head.
  std::vector<std::vector<int>> heads;
};

class StageSpace {
 public:
  /// Appends the stage's decisions to `decisions`, the list of the whole space. If no strategy
  /// matches, offers() is empty and the stage space must not be used. Requires: the plan outlives
  /// the stage space.
  StageSpace(const ComputePlan& plan, const StagePlan& stage, std::span<const Strategy> strategies,
             std::vector<Knob>& decisions);

  const StagePlan& plan() const { return *plan_; }
  const std::vector<Offer>& offers() const { return offers_; }
  /// Returns the index of the decision "stage.place". If its value is 0, the stage has its own
  /// phase. If it is 1, the stage is computed inside of its consumer, provided that the consumer
  /// has a loop for it. nullopt if the stage always has its own phase.
  std::optional<size_t> place() const { return place_; }
  /// Returns the index of the decision "stage.strategy", whose values are indices into offers().
  /// nullopt if there is only one offer.
  std::optional<size_t> strategy() const { return strategy_; }
  /// The stage's decisions have the indices from begin() to end() - 1.
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

  /// Returns the number of configurations, including those that are not allowed.
  double size() const;

  bool is_placed(std::span<const int> choices) const;
  const Offer& offer(std::span<const int> choices) const;
  /// True if a decision of the stage has an effect under these choices.
  bool is_active(size_t decision, std::span<const int> choices) const;
  /// Sets the choices of the stage that have no effect to 0, i.e. choices for knobs that the chosen
  /// strategy does not have.
  void settle(std::span<int> choices) const;
  bool is_settled(std::span<const int> choices) const;

  /// Draws the choices of all decisions of the stage. All values of a decision are equally likely,
  /// with two exceptions: knobs with a weight_of_last, and the first knobs of a strategy with a
  /// head, which are drawn together from Offer::heads. If `place` is set, the decision place() gets
  /// this choice and is not drawn. The strategy need not allow the configuration that results.
  void draw(std::span<int> choices, const std::vector<Knob>& decisions, std::optional<int> place,
            Random& random) const;

  KnobValues values(std::span<const int> choices, const std::vector<Knob>& decisions) const;
  /// True if the chosen strategy offers the chosen values of its knobs, and allows the
  /// configuration. A strategy does not offer a chosen value if only another strategy, with a knob
  /// of the same name, offers it.
  bool fits(std::span<const int> choices, const std::vector<Knob>& decisions) const;

 private:
  const StagePlan* plan_;
  std::vector<Offer> offers_;
  std::vector<std::vector<bool>>
      active_;  ///< for each offer, true for the stage's decisions that have an effect under it
  std::optional<size_t> place_, strategy_;
  size_t begin_, end_;
};

}  // namespace tw::schedules

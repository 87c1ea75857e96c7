// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a search space that belongs to one stage: the strategies that match the stage, and
// the stage's decisions. In this file an index of a decision counts all decisions of the whole
// space, and `choices` has all choices of a point. Immutable once made; thread-safe to share.

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
  /// Choices of the first knobs that an allowed configuration may begin with, one vector for each
  /// combination (StageStrategy::knobs_of_head()). Empty if the strategy does not limit them.
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
  /// Index of the decision "stage.place". Its value 0 means that the stage has its own phase. Its
  /// value 1 means that the stage is computed inside of its consumer, if the consumer has a loop
  /// for it. nullopt if the stage always has its own phase.
  std::optional<size_t> place() const { return place_; }
  /// Index of the decision "stage.strategy", whose values are indices of offers(). nullopt if there
  /// is only one offer.
  std::optional<size_t> strategy() const { return strategy_; }
  /// The indices of the stage's decisions are [begin, end).
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

  /// The number of configurations, including those that are not allowed.
  double size() const;

  bool is_placed(std::span<const int> choices) const;
  const Offer& offer(std::span<const int> choices) const;
  /// True if a decision of the stage has an effect under these choices.
  bool is_active(size_t decision, std::span<const int> choices) const;
  /// Sets those choices of the stage to 0 that have no effect, i.e. those for knobs that the chosen
  /// strategy does not have.
  void settle(std::span<int> choices) const;
  bool is_settled(std::span<const int> choices) const;

  /// Draws the choices of all decisions of the stage. If `place` is set, the decision place() gets
  /// this choice instead. All values of a decision are equally likely, except for
  /// Knob::weight_of_last and for the first knobs, which are drawn from `heads`. The configuration
  /// may be one that is not allowed.
  void draw(std::span<int> choices, const std::vector<Knob>& decisions, std::optional<int> place,
            Random& random) const;

  KnobValues values(std::span<const int> choices, const std::vector<Knob>& decisions) const;
  /// True if the chosen strategy has the chosen values of its knobs, and allows the configuration.
  /// A strategy lacks a chosen value if the value is offered only by another strategy with a knob
  /// of the same name.
  bool fits(std::span<const int> choices, const std::vector<Knob>& decisions) const;

 private:
  const StagePlan* plan_;
  std::vector<Offer> offers_;
  std::vector<std::vector<bool>>
      active_;  ///< for each offer, true for the stage's decisions that it uses
  std::optional<size_t> place_, strategy_;
  size_t begin_, end_;
};

}  // namespace tw::schedules

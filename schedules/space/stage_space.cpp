// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/stage_space.h"

#include <algorithm>

namespace tw::schedules {
namespace {

bool has(const Knob& knob, int64_t value) {
  return std::find(knob.values.begin(), knob.values.end(), value) != knob.values.end();
}

std::vector<Knob>::iterator find_knob(std::vector<Knob>& knobs, const std::string& name) {
  return std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == name; });
}

/// Merges `knobs` into `merged`, keeping the order of both lists. If `merged` already has a knob of
/// the same name, the values that this knob lacks are appended to it. A new knob is inserted after
/// the knob that precedes it in `knobs`.
void merge(const std::vector<Knob>& knobs, std::vector<Knob>& merged) {
  auto next = merged.begin();
  for (const Knob& knob : knobs) {
    const auto found = find_knob(merged, knob.name);
    if (found == merged.end()) {
      next = merged.insert(next, knob) + 1;
      continue;
    }
    for (const int64_t value : knob.values)
      if (!has(*found, value)) found->values.push_back(value);
    next = found + 1;
  }
}

/// Adds to `offer.heads` all heads that begin with `choices`. `values` are the values of these
/// choices.
void add_heads(const std::vector<Knob>& decisions, std::vector<int>& choices,
               std::vector<int64_t>& values, Offer& offer) {
  const size_t k = choices.size();
  if (k == offer.strategy->knobs_of_head()) {
    offer.heads.push_back(choices);
    return;
  }
  const std::vector<int64_t>& all = decisions[offer.decisions[k]].values;
  for (const int64_t value : offer.strategy->knobs()[k].values) {
    choices.push_back(static_cast<int>(std::find(all.begin(), all.end(), value) - all.begin()));
    values.push_back(value);
    if (offer.strategy->may_begin_with(values)) add_heads(decisions, choices, values, offer);
    choices.pop_back();
    values.pop_back();
  }
}

}  // namespace

StageSpace::StageSpace(const ComputePlan& plan, const StagePlan& stage,
                       std::span<const Strategy> strategies, std::vector<Knob>& decisions)
    : plan_(&stage), begin_(decisions.size()) {
  std::vector<Knob> merged;
  for (const Strategy& strategy : strategies) {
    auto match = strategy.match(plan, stage);
    if (!match) continue;
    merge(match->knobs(), merged);
    offers_.push_back({strategy.name, std::move(match), {}, {}});
  }
  const std::string prefix = stage.name + ".";
  if (stage.placeable()) {
    place_ = decisions.size();
    decisions.push_back({prefix + "place", {0, 1}});
  }
  if (offers_.size() > 1) {
    strategy_ = decisions.size();
    Knob knob{prefix + "strategy", {}};
    for (size_t i = 0; i < offers_.size(); ++i) knob.values.push_back(static_cast<int64_t>(i));
    decisions.push_back(std::move(knob));
  }
  const size_t first_knob = decisions.size();
  end_ = first_knob + merged.size();
  for (Offer& offer : offers_) {
    std::vector<bool> active(end_ - begin_, false);
    std::fill_n(active.begin(), first_knob - begin_, true);
    for (const Knob& knob : offer.strategy->knobs()) {
      const auto at = static_cast<size_t>(find_knob(merged, knob.name) - merged.begin());
      offer.decisions.push_back(first_knob + at);
      active[first_knob + at - begin_] = true;
    }
    active_.push_back(std::move(active));
  }
  for (Knob& knob : merged) {
    knob.name = prefix + knob.name;
    decisions.push_back(std::move(knob));
  }
  for (Offer& offer : offers_) {
    std::vector<int> choices;
    std::vector<int64_t> values;
    if (offer.strategy->knobs_of_head() > 0) add_heads(decisions, choices, values, offer);
  }
}

double StageSpace::size() const {
  double all = 0;
  for (const Offer& offer : offers_) {
    double size = 1;
    for (const Knob& knob : offer.strategy->knobs())
      size *= static_cast<double>(knob.values.size());
    all += size;
  }
  return place_ ? 2 * all : all;
}

bool StageSpace::is_placed(std::span<const int> choices) const {
  return place_ && choices[*place_] == 1;
}

const Offer& StageSpace::offer(std::span<const int> choices) const {
  return offers_[strategy_ ? static_cast<size_t>(choices[*strategy_]) : 0];
}

bool StageSpace::is_active(size_t decision, std::span<const int> choices) const {
  return !strategy_ || active_[static_cast<size_t>(choices[*strategy_])][decision - begin_];
}

void StageSpace::settle(std::span<int> choices) const {
  if (!strategy_) return;
  for (size_t d = begin_; d < end_; ++d)
    if (!is_active(d, choices)) choices[d] = 0;
}

bool StageSpace::is_settled(std::span<const int> choices) const {
  if (!strategy_) return true;
  for (size_t d = begin_; d < end_; ++d)
    if (choices[d] != 0 && !is_active(d, choices)) return false;
  return true;
}

void StageSpace::draw(std::span<int> choices, const std::vector<Knob>& decisions,
                      std::optional<int> place, Random& random) const {
  for (size_t d = begin_; d < end_; ++d) {
    const int64_t last = std::ssize(decisions[d].values) - 1;
    const int64_t drawn = random.below(last + decisions[d].weight_of_last);
    choices[d] = static_cast<int>(std::min(drawn, last));
  }
  if (place_ && place) choices[*place_] = *place;
  const Offer& taken = offer(choices);
  if (taken.heads.empty()) return;
  const auto& head =
      taken.heads[static_cast<size_t>(random.below(static_cast<int64_t>(taken.heads.size())))];
  for (size_t k = 0; k < head.size(); ++k) choices[taken.decisions[k]] = head[k];
}

KnobValues StageSpace::values(std::span<const int> choices,
                              const std::vector<Knob>& decisions) const {
  KnobValues values;
  for (const size_t d : offer(choices).decisions)
    values.push_back(decisions[d].values[static_cast<size_t>(choices[d])]);
  return values;
}

bool StageSpace::fits(std::span<const int> choices, const std::vector<Knob>& decisions) const {
  const Offer& taken = offer(choices);
  const KnobValues chosen = values(choices, decisions);
  if (offers_.size() > 1) {  // a shared decision may have values that this strategy lacks
    const std::vector<Knob>& knobs = taken.strategy->knobs();
    for (size_t k = 0; k < knobs.size(); ++k)
      if (!has(knobs[k], chosen[k])) return false;
  }
  return taken.strategy->allows({chosen.begin(), chosen.size()});
}

}  // namespace tw::schedules

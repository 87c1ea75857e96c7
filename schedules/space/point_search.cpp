// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/point_search.h"

#include <algorithm>
#include <string>

namespace tw::schedules {
namespace {

/// The extent to which a construction agrees with the wanted steps.
struct Agreement {
  bool complete = false;  ///< all steps are equal, and the choices are allowed
  size_t steps = 0;       ///< number of steps before the first that differs
  size_t letters = 0;  ///< number of equal letters at the beginning of the first step that differs
  auto operator<=>(const Agreement&) const = default;
};

struct Attempt {
  Agreement agreement;
  std::vector<Trace::Use> uses;  ///< uses of decisions, in order
};

size_t common_letters(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

class Climber {
 public:
  Climber(const PointSearch& search, const std::vector<Step>& steps, int most_constructions)
      : search_(search),
        left_(most_constructions),
        choices_(search.counts.size(), 0),
        decided_(search.counts.size(), false) {
    for (const Step& step : steps) wanted_.push_back(to_string(step));
  }

  std::optional<std::vector<int>> run() {
    Attempt current = attempt();
    climb(current);
    start_ = choices_;
    if (!descend(current)) return std::nullopt;
    return choices_;
  }

 private:
  Attempt attempt() {
    --left_;
    Trace trace;
    const Schedule schedule = search_.construct(choices_, trace);
    const std::vector<Step>& steps = schedule.steps();
    size_t equal = 0;
    std::string text;
    for (; equal < steps.size(); ++equal) {
      text = to_string(steps[equal]);
      if (equal == wanted_.size() || text != wanted_[equal]) break;
    }
    Attempt result{{false, equal, 0}, std::move(trace.uses)};
    if (equal < std::min(steps.size(), wanted_.size()))
      result.agreement.letters = common_letters(text, wanted_[equal]);
    result.agreement.complete = !schedule.error() && equal == wanted_.size() &&
                                equal == steps.size() && search_.allowed(choices_);
    return result;
  }

  /// Changes one choice at a time, as long as this makes more steps agree. The number of
  /// constructions is about the number of values of all decisions. Most points are found in this
  /// way.
  void climb(Attempt& current) {
    while (!current.agreement.complete && climb_once(current)) {
    }
  }

  /// Changes one decision. The decisions are tried backwards, beginning with the one that was used
  /// last before the step that differs. The first decision with a value that makes more steps agree
  /// is changed. If there is no such decision, the one whose value makes most letters of the step
  /// agree is changed. Returns false if no change is better.
  bool climb_once(Attempt& current) {
    Attempt best = current;
    std::vector<int> best_choices = choices_;
    for (size_t i = current.uses.size(); i > 0 && left_ > 0; --i) {
      const Trace::Use& use = current.uses[i - 1];
      if (use.steps > current.agreement.steps) continue;
      const int before = choices_[use.decision];
      for (int v = 0; v < search_.counts[use.decision]; ++v) {
        if (v == before) continue;
        choices_[use.decision] = v;
        Attempt next = attempt();
        if (next.agreement <= best.agreement) continue;
        best = std::move(next);
        best_choices = choices_;
      }
      choices_[use.decision] = before;
      if (best.agreement.complete || best.agreement.steps > current.agreement.steps) break;
    }
    const bool better = best.agreement > current.agreement;
    current = std::move(best);
    choices_ = std::move(best_choices);
    return better;
  }

  /// Searches the values of the decisions depth first, in the order in which a construction uses
  /// the decisions. Only a decision that is used before a step can change the step. So the search
  /// gives up a choice as soon as a step differs that was made before any of the open decisions was
  /// used.
  bool descend(const Attempt& current) {
    if (current.agreement.complete) return true;
    const std::optional<size_t> open = open_decision(current);
    if (!open) return false;
    const size_t d = *open;
    const int count = search_.counts[d];
    decided_[d] = true;
    // Open decisions have the values of start_, so the first attempt equals `current`.
    for (int i = 0; i < count && left_ > 0; ++i) {
      choices_[d] = (start_[d] + i) % count;
      if (descend(i == 0 ? current : attempt())) return true;
    }
    choices_[d] = start_[d];
    decided_[d] = false;
    return false;
  }

  /// Returns the first open decision that may change the first step that differs. Open decisions
  /// are those that the search has not fixed (decided_).
  std::optional<size_t> open_decision(const Attempt& current) const {
    for (const Trace::Use& use : current.uses)
      if (use.steps <= current.agreement.steps && !decided_[use.decision]) return use.decision;
    return std::nullopt;
  }

  const PointSearch& search_;
  int left_;  // constructions left
  std::vector<std::string> wanted_;
  std::vector<int> choices_, start_;
  std::vector<bool> decided_;
};

}  // namespace

std::optional<std::vector<int>> find_choices(const PointSearch& search,
                                             const std::vector<Step>& steps,
                                             int most_constructions) {
  return Climber(search, steps, most_constructions).run();
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/point_search.h"

#include <algorithm>
#include <string>

namespace tw::schedules {
namespace {

/// Length of the common prefix of a construction and the wanted steps.
struct Agreement {
  bool complete = false;  ///< all steps agree, and the choices are allowed
  size_t steps = 0;       ///< steps before the first that differs
  size_t letters = 0;     ///< letters of that step before the first that differs
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

  /// Changes one choice at a time, as long as more steps agree. The number of constructions is
  /// about the number of values of all decisions, and this finds most points.
  void climb(Attempt& current) {
    while (!current.agreement.complete && climb_once(current)) {
    }
  }

  /// Changes one decision. It tries the decision that was used last before the step that differs,
  /// then the decision before that, and so on, and takes the first with a value that makes more
  /// steps agree. If there is none, it takes the one that makes most letters agree.
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

  /// Searches the decisions depth first, in the order in which a construction uses them. Only a
  /// decision that is used before a step can change the step. So a choice is given up as soon as a
  /// step differs that none of the decisions still open can change.
  bool descend(const Attempt& current) {
    if (current.agreement.complete) return true;
    const std::optional<size_t> open = open_decision(current);
    if (!open) return false;
    const size_t d = *open;
    const int count = search_.counts[d];
    decided_[d] = true;
    // Open decisions have their first value, so the first attempt is the current one.
    for (int i = 0; i < count && left_ > 0; ++i) {
      choices_[d] = (start_[d] + i) % count;
      if (descend(i == 0 ? current : attempt())) return true;
    }
    choices_[d] = start_[d];
    decided_[d] = false;
    return false;
  }

  /// The first open decision on which the step that differs may depend.
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

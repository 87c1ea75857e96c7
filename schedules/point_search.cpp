// SPDX-License-Identifier: Apache-2.0
#include "schedules/point_search.h"

#include <algorithm>
#include <string>

#include "schedules/construction.h"

namespace tw::schedules {
namespace {

/// What a construction has in common with the steps that are wanted.
struct Agreement {
  bool complete = false;  ///< and the point meets the constraints
  size_t steps = 0;       ///< before the first that differs
  size_t letters = 0;     ///< of that one's text, before the first that differs
  auto operator<=>(const Agreement&) const = default;
};

struct Attempt {
  Agreement agreement;
  std::vector<Reading> readings;  ///< of knobs, in order
};

size_t common_letters(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

class PointSearch {
 public:
  PointSearch(const ComputePlan& plan, const Knobs& knobs, const std::vector<Step>& steps,
              int most_constructions)
      : plan_(plan),
        knobs_(knobs),
        left_(most_constructions),
        point_(knobs.all().size(), 0),
        decided_(knobs.all().size(), false) {
    for (const Step& step : steps) wanted_.push_back(to_string(step));
  }

  std::optional<Point> run() {
    Attempt current = attempt();
    climb(current);
    start_ = point_;
    if (!descend(current)) return std::nullopt;
    return point_;
  }

 private:
  Attempt attempt() {
    --left_;
    const Construction c = construct(plan_, knobs_, point_);
    const std::vector<Step>& steps = c.schedule.steps();
    size_t equal = 0;
    std::string text;
    for (; equal < steps.size(); ++equal) {
      text = to_string(steps[equal]);
      if (equal == wanted_.size() || text != wanted_[equal]) break;
    }
    Attempt result{{false, equal, 0}, c.readings()};
    if (equal < std::min(steps.size(), wanted_.size()))
      result.agreement.letters = common_letters(text, wanted_[equal]);
    result.agreement.complete = !c.schedule.error() && equal == wanted_.size() &&
                                equal == steps.size() && meets_constraints(plan_, knobs_, point_);
    return result;
  }

  /// Changes one knob after the other, for as long as that makes more steps agree. Finds most
  /// points in as many constructions as all knobs have values.
  void climb(Attempt& current) {
    while (!current.agreement.complete && climb_once(current)) {
    }
  }

  /// By the knob that was read last before the step that differs, if one of its values makes more
  /// steps agree, or by the one before it and so on; else by the one that makes most letters agree.
  bool climb_once(Attempt& current) {
    Attempt best = current;
    Point best_point = point_;
    for (size_t i = current.readings.size(); i > 0 && left_ > 0; --i) {
      const Reading& reading = current.readings[i - 1];
      if (reading.steps > current.agreement.steps) continue;
      const int before = point_[reading.knob];
      for (int v = 0; v < count(reading.knob); ++v) {
        if (v == before) continue;
        point_[reading.knob] = v;
        Attempt next = attempt();
        if (next.agreement <= best.agreement) continue;
        best = std::move(next);
        best_point = point_;
      }
      point_[reading.knob] = before;
      if (best.agreement.complete || best.agreement.steps > current.agreement.steps) break;
    }
    const bool better = best.agreement > current.agreement;
    current = std::move(best);
    point_ = std::move(best_point);
    return better;
  }

  /// Depth first over the knobs in the order in which construct() reads them. A choice is given up
  /// as soon as a step differs that no open knob can change: those read before it are decided.
  bool descend(const Attempt& current) {
    if (current.agreement.complete) return true;
    const std::optional<size_t> knob = open_knob(current);
    if (!knob) return false;
    decided_[*knob] = true;
    // Open knobs stand at their start: the first attempt is the current one.
    for (int i = 0; i < count(*knob) && left_ > 0; ++i) {
      point_[*knob] = (start_[*knob] + i) % count(*knob);
      if (descend(i == 0 ? current : attempt())) return true;
    }
    point_[*knob] = start_[*knob];
    decided_[*knob] = false;
    return false;
  }

  /// The first that may have decided the step that differs.
  std::optional<size_t> open_knob(const Attempt& current) const {
    for (const Reading& reading : current.readings)
      if (reading.steps <= current.agreement.steps && !decided_[reading.knob]) return reading.knob;
    return std::nullopt;
  }

  int count(size_t knob) const { return static_cast<int>(knobs_.all()[knob].values.size()); }

  const ComputePlan& plan_;
  const Knobs& knobs_;
  int left_;  // constructions
  std::vector<std::string> wanted_;
  Point point_, start_;
  std::vector<bool> decided_;
};

}  // namespace

std::optional<Point> find_point(const ComputePlan& plan, const Knobs& knobs,
                                const std::vector<Step>& steps, int most_constructions) {
  return PointSearch(plan, knobs, steps, most_constructions).run();
}

}  // namespace tw::schedules

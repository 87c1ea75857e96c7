// SPDX-License-Identifier: Apache-2.0
#include "schedules/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "schedules/construction.h"
#include "schedules/gpu_space.h"
#include "schedules/point_search.h"

namespace tw::schedules {

struct Space::State {
  ComputePlan plan;
  Knobs knobs;
  std::vector<std::vector<size_t>> places;  ///< for each stage, the indices of its knobs
};

namespace {

constexpr int guesses = 400;
// Draws of a stage's knobs to meet its constraints; usually a few are enough.
constexpr int most_draws = 2000;

/// Higher for a full register tile and a plain rest.
double plainness(const ComputePlan& plan, const Knobs& knobs, const Point& point) {
  if (plan.target.is_gpu()) return gpu_plainness(plan, knobs, point);
  double score = 0;
  for (const StagePlan& stage : plan.stages) {
    const auto value = [&](const std::string& name, int64_t otherwise = 0) {
      return static_cast<double>(knobs.value(point, stage.name + "." + name, otherwise));
    };
    if (stage.role == Role::Lanes) score -= 20 * value("place");  // not split into lanes there
    if (stage.role != Role::Tiled) continue;
    const VectorAxis& vector = stage.vector_axes[static_cast<size_t>(value("vector"))];
    double tile = value("vectors");
    for (const std::string& axis : stage.tile_axes)
      if (axis != vector.axis) tile *= value("tile." + axis, 1);
    score += std::min(tile, 28.0) - 10 * value("vector") - value("unroll");
    score -= 4 * static_cast<double>(value("kblock") > 0);
    score += 2 * value("tasks");
    score += 4 * static_cast<double>(value("layout.in") == 1);
    score += 4 * static_cast<double>(value("layout.out") == 1);
    score -= 8 * value("outer_order") + 4 * value("reduction_order");
  }
  return score;
}

std::vector<std::vector<size_t>> places_of(const ComputePlan& plan, const Knobs& knobs) {
  std::vector<std::vector<size_t>> places(plan.stages.size());
  for (size_t stage = 0; stage < places.size(); ++stage)
    for (size_t k = 0; k < knobs.all().size(); ++k)
      if (knobs.all()[k].name.starts_with(plan.stages[stage].name + "."))
        places[stage].push_back(k);
  return places;
}

}  // namespace

Space Space::derive(const dsl::Compute& compute, const Target& target) {
  ComputePlan plan = plan_stages(compute, target);
  Knobs knobs = knobs_of(plan);
  auto places = places_of(plan, knobs);
  return Space(
      std::make_shared<const State>(State{std::move(plan), std::move(knobs), std::move(places)}));
}

const Target& Space::target() const { return state_->plan.target; }
const std::vector<Knob>& Space::knobs() const { return state_->knobs.all(); }

double Space::size() const {
  double size = 1;
  for (const Knob& knob : knobs()) size *= static_cast<double>(knob.values.size());
  return size;
}

Point Space::default_point(const std::function<bool()>& stops) const {
  const auto is_late = [&] { return stops && stops(); };
  Random random(1);
  Point best(knobs().size(), 0);
  double best_score = std::numeric_limits<double>::lowest();
  const auto improves = [&](const Point& point) {
    const double score = plainness(state_->plan, state_->knobs, point);
    if (score <= best_score) return false;
    if (!schedule(point).program(limits_of(state_->plan.target))) return false;
    best_score = score;
    best = point;
    return true;
  };
  for (int i = 0; i < guesses && !is_late(); ++i) improves(sample(random));
  // Guesses do not come close where there are many knobs, of which plainness says much.
  for (bool moves = state_->plan.target.is_gpu(); moves;) {
    const std::vector<Point> near = neighbours(best);
    moves = std::any_of(near.begin(), near.end(),
                        [&](const Point& point) { return !is_late() && improves(point); });
  }
  return best;
}

Point Space::sample(Random& random) const {
  Point point(knobs().size());
  const ComputePlan& plan = state_->plan;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<size_t>& places = state_->places[stage];
    const auto draw = [&] {
      for (const size_t k : places)
        point[k] = static_cast<int>(random.below(static_cast<int64_t>(knobs()[k].values.size())));
      return meets_constraints(plan, plan.stages[stage], state_->knobs, point);
    };
    int draws = 1;
    while (!draw() && ++draws <= most_draws) {
    }
    if (draws > most_draws)
      for (const size_t k : places) point[k] = 0;
  }
  return point;
}

Point Space::mutate(const Point& point, Random& random) const {
  if (point.empty()) return point;
  for (int attempt = 0; attempt < 200; ++attempt) {
    Point next = point;
    const int changes = random.chance(0.5) ? 1 : 2;
    for (int c = 0; c < changes; ++c) {
      const size_t k = static_cast<size_t>(random.below(static_cast<int64_t>(point.size())));
      const int count = static_cast<int>(knobs()[k].values.size());
      if (random.chance(0.6)) {
        next[k] = std::clamp(next[k] + (random.chance(0.5) ? 1 : -1), 0, count - 1);
      } else {
        next[k] = static_cast<int>(random.below(count));
      }
    }
    if (next != point && allowed(next)) return next;
  }
  return point;
}

Point Space::cross(const Point& a, const Point& b, Random& random) const {
  for (int attempt = 0; attempt < 50; ++attempt) {
    Point child = a;
    for (size_t i = 0; i < child.size(); ++i)
      if (random.chance(0.5)) child[i] = b[i];
    if (allowed(child)) return child;
  }
  return a;
}

std::vector<Point> Space::neighbours(const Point& point) const {
  std::vector<Point> result;
  const ComputePlan& plan = state_->plan;
  std::vector<bool> broken;
  for (const StagePlan& stage : plan.stages)
    broken.push_back(!meets_constraints(plan, stage, state_->knobs, point));
  const auto all_broken = std::count(broken.begin(), broken.end(), true);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    if (all_broken > broken[stage]) continue;  // another stage breaks its constraints
    for (const size_t k : state_->places[stage])
      for (int v = 0; v < static_cast<int>(knobs()[k].values.size()); ++v) {
        if (v == point[k]) continue;
        Point next = point;
        next[k] = v;
        if (meets_constraints(plan, plan.stages[stage], state_->knobs, next))
          result.push_back(std::move(next));
      }
  }
  return result;
}

bool Space::allowed(const Point& point) const {
  return meets_constraints(state_->plan, state_->knobs, point);
}

Schedule Space::schedule(const Point& point) const {
  return construct(state_->plan, state_->knobs, point).schedule;
}

std::optional<Point> Space::point_of(const Schedule& schedule, int most_constructions) const {
  if (schedule.error()) return std::nullopt;
  return find_point(state_->plan, state_->knobs, schedule.steps(), most_constructions);
}

std::string Space::to_string(const Point& point) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < point.size(); ++i)
    parts.push_back(
        fmt::format("{}={}", knobs()[i].name, knobs()[i].values[static_cast<size_t>(point[i])]));
  return join(parts, " ");
}

std::optional<Point> Space::parse(std::string_view text) const {
  Point point(knobs().size(), -1);
  for (const std::string& part : words(text)) {
    const size_t equals = part.rfind('=');
    if (equals == std::string::npos) return std::nullopt;
    const auto knob = state_->knobs.find(part.substr(0, equals));
    const auto number = parse_int(std::string_view(part).substr(equals + 1));
    if (!knob || !number) return std::nullopt;
    const auto& values = knobs()[*knob].values;
    const auto at = std::find(values.begin(), values.end(), *number);
    if (at == values.end()) return std::nullopt;
    point[*knob] = static_cast<int>(at - values.begin());
  }
  if (std::find(point.begin(), point.end(), -1) != point.end()) return std::nullopt;
  return point;
}

}  // namespace tw::schedules

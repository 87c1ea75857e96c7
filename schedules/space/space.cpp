// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/hash.h"
#include "base/text.h"
#include "schedules/space/algorithm_space.h"
#include "schedules/space/algorithms.h"
#include "schedules/space/allowance.h"

namespace tw::schedules {

namespace {

constexpr std::string_view algorithm_decision = "algorithm";

}  // namespace

struct Space::State {
  Target target;
  std::vector<Knob> decisions;
  std::vector<std::unique_ptr<const AlgorithmSpace>> algorithms;  ///< the direct one first
  bool chooses_algorithm = false;                                 ///< by the first decision
  Problem problem;

  size_t algorithm_of(std::span<const int> choices) const {
    return chooses_algorithm ? static_cast<size_t>(choices[0]) : 0;
  }
  /// Returns the point of an algorithm that has the first value of each other decision.
  Point origin(size_t algorithm) const {
    Point point{std::vector<int>(decisions.size(), 0)};
    if (chooses_algorithm) point.choices[0] = static_cast<int>(algorithm);
    return point;
  }
  const AlgorithmSpace& of(const Point& point) const {
    return *algorithms[algorithm_of(point.choices)];
  }
  const std::vector<StageSpace>& stages_of(const Point& point) const { return of(point).stages; }

  bool fits(const StageSpace& stage, const Point& point) const {
    return stage.fits(point.choices, decisions);
  }
  int count(size_t decision) const { return static_cast<int>(decisions[decision].values.size()); }
  /// Adds the space of an algorithm. Fails with Unsupported, and adds nothing, if a stage has no
  /// matching strategy.
  Status add(ComputePlan plan, const Problem& problem, std::span<const Strategy> strategies);
  bool can_be_climbed() const;
  /// For half of the samples of the direct algorithm, draws one place for all stages: either all
  /// are computed inside of other stages, or none. The reason is that a chain of stages stays in
  /// the cache only if each of its stages does. Returns nullopt for the other samples, for other
  /// algorithms, and if fewer than two stages have a place.
  std::optional<int> draw_common_place(const Point& point, Random& random) const;
  double rate(const Point& point) const;
};

namespace {

constexpr int guesses = 400;
// The largest number of points that are lowered to find the default point, in a space of weight 1.
// This is about a second's work. Usually fewer than ten are needed.
constexpr double most_default_points = 10'000;
// The largest number of draws of a stage's decisions before an allowed one is found; usually a few
// draws are enough.
constexpr int most_draws = 2000;

tl::unexpected<Error> no_strategy(const StagePlan& stage, const Problem& problem,
                                  const Target& target) {
  return fail(
      ErrorCode::Unsupported,
      fmt::format("[space] no strategy for {} schedules '{}' where these layouts are given: "
                  "{}; leave the layouts free",
                  target.to_string(), stage.name, dsl::print_layouts(problem.layouts)));
}

/// True if a stage of the plan can be computed by core tiles, i.e. tensor tiles of a CPU core.
bool offers_core_tiles(const ComputePlan& plan, std::span<const Strategy> strategies) {
  const auto strategy = std::ranges::find(strategies, "cpu_core_tile", &Strategy::name);
  return strategy != strategies.end() &&
         std::ranges::any_of(plan.stages, [&](const StagePlan& stage) {
           return strategy->match(plan, stage) != nullptr;
         });
}

}  // namespace

Status Space::State::add(ComputePlan plan, const Problem& problem,
                         std::span<const Strategy> strategies) {
  auto algorithm = std::make_unique<AlgorithmSpace>(std::move(plan));
  algorithm->begin = decisions.size();
  for (const StagePlan& stage : algorithm->plan.stages) {
    algorithm->stages.emplace_back(algorithm->plan, stage, strategies, decisions);
    if (!algorithm->stages.back().offers().empty()) continue;
    decisions.resize(algorithm->begin);
    return no_strategy(stage, problem, target);
  }
  algorithm->end = decisions.size();
  if (chooses_algorithm) decisions[0].values.push_back(static_cast<int64_t>(algorithms.size()));
  algorithms.push_back(std::move(algorithm));
  return {};
}

bool Space::State::can_be_climbed() const {
  const std::vector<StageSpace>& stages = algorithms[0]->stages;
  return std::any_of(stages.begin(), stages.end(), [](const StageSpace& stage) {
    return std::any_of(stage.offers().begin(), stage.offers().end(),
                       [](const Offer& offer) { return offer.strategy->can_be_climbed(); });
  });
}

std::optional<int> Space::State::draw_common_place(const Point& point, Random& random) const {
  if (algorithm_of(point.choices) > 0) return std::nullopt;
  const std::vector<StageSpace>& stages = stages_of(point);
  const auto placeable = std::count_if(stages.begin(), stages.end(), [](const StageSpace& stage) {
    return stage.place().has_value();
  });
  if (placeable < 2 || random.chance(0.5)) return std::nullopt;
  return random.chance(0.5) ? 1 : 0;
}

double Space::State::rate(const Point& point) const {
  double sum = 0;
  for (const StageSpace& stage : stages_of(point)) {
    const KnobValues values = stage.values(point.choices, decisions);
    sum += stage.offer(point.choices)
               .strategy->rate({values.begin(), values.size()}, stage.is_placed(point.choices));
  }
  return sum;
}

size_t hash(const Point& point) {
  size_t h = point.choices.size();
  for (const int choice : point.choices) h = mix(h, static_cast<size_t>(choice));
  return h;
}

Result<Space> Space::derive(const Problem& problem, const Target& target, const StopToken& stop,
                            std::span<const Strategy> strategies) {
  auto state = std::make_shared<State>();
  state->target = target;
  state->problem = problem;
  std::vector<Rewritten> rewritten;
  if (problem.algorithms) rewritten = apply_algorithms(problem.compute, target);
  std::erase_if(rewritten,
                [&](const Rewritten& one) { return one.expected_error > problem.most_error; });
  state->chooses_algorithm = !rewritten.empty();
  if (state->chooses_algorithm) state->decisions.push_back({std::string(algorithm_decision), {}});
  TW_TRY(ComputePlan direct, plan_stages(problem, target, stop));
  TW_RETURN_IF_ERROR(state->add(std::move(direct), problem, strategies));
  for (const Rewritten& one : rewritten) {
    Result<ComputePlan> plan = plan_stages(problem, target, stop, &one);
    TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
    // An algorithm that cannot be planned or scheduled is left out; the direct one remains.
    if (plan && (!one.needs_dots || has_dot_tiles(*plan)) &&
        (!one.needs_core_tiles || offers_core_tiles(*plan, strategies)))
      (void)state->add(std::move(*plan), problem, strategies);
  }
  return Space(std::move(state));
}

Space Space::derive(const dsl::Compute& compute, const Target& target) {
  return derive(Problem{compute}, target).value();
}

const Target& Space::target() const { return state_->target; }
const std::vector<Knob>& Space::decisions() const { return state_->decisions; }

size_t Space::algorithms() const { return state_->algorithms.size(); }

const AlgorithmSpace& Space::algorithm(size_t index) const { return *state_->algorithms[index]; }

size_t Space::algorithm_of(const Point& point) const { return state_->algorithm_of(point.choices); }

size_t Space::stages(size_t algorithm) const { return this->algorithm(algorithm).stages.size(); }

const Problem& Space::problem() const { return state_->problem; }

Point Space::default_point() const { return default_point(StopToken()).value(); }

Result<Point> Space::default_point(const StopToken& stop) const {
  Allowance allowance(most_default_points, algorithm(0).weight, stop);
  const Limits limits = limits_of(target());
  Random random(1);
  const Point direct = state_->origin(0);
  Point best = direct;
  double best_rate = std::numeric_limits<double>::lowest();
  const auto improves = [&](const Point& point) {
    const double rate = state_->rate(point);
    if (rate <= best_rate || !allowance.takes_one()) return false;
    if (!schedule(point).program(limits)) return false;
    best_rate = rate;
    best = point;
    return true;
  };
  // The best are tried first, so that few points are lowered.
  std::vector<std::pair<double, Point>> guessed;
  for (int i = 0; i < guesses && !stop.is_stopped(); ++i) {
    Point guess = sample_like(direct, random);
    guessed.emplace_back(state_->rate(guess), std::move(guess));
  }
  std::ranges::stable_sort(guessed, std::greater(), &std::pair<double, Point>::first);
  for (const auto& [rate, guess] : guessed)
    if (improves(guess)) break;
  // Random guesses are far from the best point if a stage has many knobs. Strategies whose priors
  // depend on all knobs (can_be_climbed) can then be improved step by step.
  for (bool moves = state_->can_be_climbed(); moves;) {
    const std::vector<Point> near = neighbours(best);
    moves = std::any_of(near.begin(), near.end(),
                        [&](const Point& point) { return !stop.is_stopped() && improves(point); });
  }
  TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
  return best;
}

Point Space::sample(Random& random) const {
  const auto count = static_cast<int64_t>(algorithms());
  const auto algorithm = count > 1 ? static_cast<size_t>(random.below(count)) : 0;
  return sample_like(state_->origin(algorithm), random);
}

Point Space::sample_like(const Point& like, Random& random) const {
  Point point = state_->origin(algorithm_of(like));
  const std::optional<int> common_place = state_->draw_common_place(point, random);
  for (const StageSpace& stage : state_->stages_of(point)) {
    const auto draw = [&] {
      stage.draw(point.choices, state_->decisions, common_place, random);
      return state_->fits(stage, point);
    };
    int draws = 1;
    while (!draw() && ++draws <= most_draws) {
    }
    if (draws > most_draws)
      std::fill(point.choices.begin() + static_cast<ptrdiff_t>(stage.begin()),
                point.choices.begin() + static_cast<ptrdiff_t>(stage.end()), 0);
    stage.settle(point.choices);
  }
  return point;
}

Point Space::mutate(const Point& point, Random& random) const {
  if (point.choices.empty()) return point;
  for (int attempt = 0; attempt < 200; ++attempt) {
    Point next = point;
    const int changes = random.chance(0.5) ? 1 : 2;
    for (int c = 0; c < changes; ++c) {
      const AlgorithmSpace& own = state_->of(point);
      const auto d =
          own.begin + static_cast<size_t>(random.below(static_cast<int64_t>(own.end - own.begin)));
      const int count = state_->count(d);
      int& choice = next.choices[d];
      if (random.chance(0.6)) {
        choice = std::clamp(choice + (random.chance(0.5) ? 1 : -1), 0, count - 1);
      } else {
        choice = static_cast<int>(random.below(count));
      }
    }
    // If the strategy changes, the point has no choices for knobs that only the new strategy has.
    for (const StageSpace& stage : state_->stages_of(point)) {
      for (size_t d = stage.begin(); d < stage.end(); ++d)
        if (stage.is_active(d, next.choices) && !stage.is_active(d, point.choices))
          next.choices[d] = static_cast<int>(random.below(state_->count(d)));
      stage.settle(next.choices);
    }
    if (next != point && allowed(next)) return next;
  }
  return point;
}

Point Space::cross(const Point& a, const Point& b, Random& random) const {
  if (algorithm_of(a) != algorithm_of(b)) return a;
  for (int attempt = 0; attempt < 50; ++attempt) {
    Point child = a;
    for (const StageSpace& stage : state_->stages_of(a)) {
      for (size_t d = stage.begin(); d < stage.end(); ++d) {
        const bool from_b = random.chance(0.5);
        // A parent of another strategy has no choice for some knobs; the other parent's choice is
        // used. The decision "strategy" precedes the knobs, so the child's strategy is known here.
        const Point& parent = from_b ? b : a;
        const bool says = stage.is_active(d, parent.choices);
        child.choices[d] = (says == from_b ? b : a).choices[d];
      }
      stage.settle(child.choices);
    }
    if (allowed(child)) return child;
  }
  return a;
}

std::vector<Point> Space::neighbours(const Point& point) const {
  std::vector<Point> result;
  std::vector<bool> broken;
  for (const StageSpace& stage : state_->stages_of(point))
    broken.push_back(!state_->fits(stage, point));
  const auto all_broken = std::count(broken.begin(), broken.end(), true);
  const std::vector<StageSpace>& stages = state_->stages_of(point);
  for (size_t s = 0; s < stages.size(); ++s) {
    if (all_broken > broken[s]) continue;  // another stage's configuration is not allowed
    const StageSpace& stage = stages[s];
    for (size_t d = stage.begin(); d < stage.end(); ++d)
      for (int v = 0; v < state_->count(d) && stage.is_active(d, point.choices); ++v) {
        if (v == point.choices[d]) continue;
        Point next = point;
        next.choices[d] = v;
        stage.settle(next.choices);
        if (state_->fits(stage, next)) result.push_back(std::move(next));
      }
  }
  return result;
}

bool Space::allowed(const Point& point) const {
  for (size_t d = 0; d < point.choices.size(); ++d)
    if (point.choices[d] != 0 && !concerns(*this, d, point)) return false;
  const std::vector<StageSpace>& stages = state_->stages_of(point);
  return std::all_of(stages.begin(), stages.end(), [&](const StageSpace& stage) {
    return stage.is_settled(point.choices) && state_->fits(stage, point);
  });
}

Schedule Space::schedule(const Point& point) const {
  const AlgorithmSpace& algorithm = state_->of(point);
  Construction c(algorithm.plan);
  algorithm.construct(point.choices, decisions(), c);
  return std::move(c.schedule);
}

std::string Space::to_string(const Point& point) const {
  std::vector<std::string> stages;
  if (const std::string& name = state_->of(point).plan.algorithm; !name.empty())
    stages.push_back(name);
  for (const StageSpace& stage : state_->stages_of(point)) {
    const Offer& offer = stage.offer(point.choices);
    std::string text = fmt::format("{}: {}", stage.plan().name, offer.name);
    if (stage.place()) text += fmt::format(" place={}", point.choices[*stage.place()]);
    const KnobValues values = stage.values(point.choices, decisions());
    const std::vector<Knob>& knobs = offer.strategy->knobs();
    for (size_t k = 0; k < knobs.size(); ++k)
      text += fmt::format(" {}={}", knobs[k].name, values[k]);
    stages.push_back(std::move(text));
  }
  return join(stages, "; ");
}

namespace {

/// Returns the index of the value in a text "name=value" among the values of the decision; nullopt
/// for any other text.
std::optional<int> parse_choice(std::string_view text, std::string_view name,
                                const std::vector<int64_t>& values) {
  if (!text.starts_with(name) || text.substr(name.size(), 1) != "=") return std::nullopt;
  const auto number = parse_int(text.substr(name.size() + 1));
  const auto at = number ? std::find(values.begin(), values.end(), *number) : values.end();
  if (at == values.end()) return std::nullopt;
  return static_cast<int>(at - values.begin());
}

/// Reads the configuration of one stage into `choices`. Returns false if the text is not a
/// configuration of this stage.
bool parse_stage(std::string_view text, const StageSpace& stage, const std::vector<Knob>& decisions,
                 std::vector<int>& choices) {
  const std::vector<std::string> parts = words(text);
  if (parts.size() < 2 || parts[0] != stage.plan().name + ":") return false;
  const auto& offers = stage.offers();
  const auto offer = std::find_if(offers.begin(), offers.end(),
                                  [&](const Offer& o) { return o.name == parts[1]; });
  if (offer == offers.end()) return false;
  if (stage.strategy()) choices[*stage.strategy()] = static_cast<int>(offer - offers.begin());
  size_t next = 2;
  const auto read = [&](std::string_view name, size_t decision) {
    if (next == parts.size()) return false;
    const auto choice = parse_choice(parts[next++], name, decisions[decision].values);
    if (choice) choices[decision] = *choice;
    return choice.has_value();
  };
  if (stage.place() && !read("place", *stage.place())) return false;
  const std::vector<Knob>& knobs = offer->strategy->knobs();
  for (size_t k = 0; k < knobs.size(); ++k) {
    if (knobs[k].is_optional && next == parts.size()) continue;
    if (!read(knobs[k].name, offer->decisions[k])) return false;
  }
  return next == parts.size();
}

}  // namespace

std::optional<Point> Space::parse(std::string_view text) const {
  const std::vector<std::string> parts = split(text, ';');
  size_t algorithm = 0;
  for (size_t i = 1; i < algorithms(); ++i)
    if (trim(parts[0]) == this->algorithm(i).plan.algorithm) algorithm = i;
  const size_t first = algorithm > 0 ? 1 : 0;
  Point point = state_->origin(algorithm);
  const std::vector<StageSpace>& stages = state_->stages_of(point);
  if (parts.size() != first + stages.size()) return std::nullopt;
  for (size_t s = 0; s < stages.size(); ++s)
    if (!parse_stage(parts[first + s], stages[s], decisions(), point.choices)) return std::nullopt;
  return point;
}

double size(const Space& space) {
  double sum = 0;
  for (size_t i = 0; i < space.algorithms(); ++i) sum += space.algorithm(i).size();
  return sum;
}

double weight(const Space& space) {
  double most = 0;
  for (size_t i = 0; i < space.algorithms(); ++i) most = std::max(most, space.algorithm(i).weight);
  return most;
}

double expected_error(const Space& space, size_t algorithm) {
  return space.algorithm(algorithm).plan.expected_error;
}

bool is_fused(const Space& space, const Point& point) {
  bool has_placed = false;
  for (const StageSpace& stage : space.algorithm(space.algorithm_of(point)).stages) {
    if (stage.place() && !stage.is_placed(point.choices)) return false;
    has_placed |= stage.place().has_value();
  }
  return has_placed;
}

bool concerns(const Space& space, size_t decision, const Point& point) {
  return space.algorithm(space.algorithm_of(point)).has(decision) ||
         (decision == 0 && space.decisions()[0].name == algorithm_decision);
}

}  // namespace tw::schedules

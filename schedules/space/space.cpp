// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>

#include "base/hash.h"
#include "base/text.h"
#include "schedules/space/algorithms.h"
#include "schedules/space/point_search.h"
#include "schedules/space/stage_space.h"

namespace tw::schedules {

namespace {

/// The space of one algorithm: its stages, whose decisions are those from `begin` to before `end`.
struct Branch {
  ComputePlan plan;
  std::vector<StageSpace> stages = {};
  size_t begin = 0, end = 0;
  double weight = 1;

  explicit Branch(ComputePlan made) : plan(std::move(made)) {}
  bool has(size_t decision) const { return decision >= begin && decision < end; }
};

}  // namespace

struct Space::State {
  Target target;
  std::vector<Knob> decisions;
  std::vector<std::unique_ptr<const Branch>> branches;  ///< the direct one first
  bool chooses_algorithm = false;                       ///< by the first decision
  Problem problem;

  size_t algorithm_of(std::span<const int> choices) const {
    return chooses_algorithm ? static_cast<size_t>(choices[0]) : 0;
  }
  void choose_algorithm(std::vector<int>& choices, size_t algorithm) const {
    if (chooses_algorithm) choices[0] = static_cast<int>(algorithm);
  }
  /// The point of an algorithm whose other decisions have their first values.
  Point origin(size_t algorithm) const {
    Point point{std::vector<int>(decisions.size(), 0)};
    choose_algorithm(point.choices, algorithm);
    return point;
  }
  const Branch& branch(std::span<const int> choices) const {
    return *branches[algorithm_of(choices)];
  }
  /// True for decisions that have an effect in the branch.
  bool concerns(size_t decision, const Branch& branch) const {
    return branch.has(decision) || (decision == 0 && chooses_algorithm);
  }
  const std::vector<StageSpace>& stages_of(const Point& point) const {
    return branch(point.choices).stages;
  }

  bool fits(const StageSpace& stage, const Point& point) const {
    return stage.fits(point.choices, decisions);
  }
  int count(size_t decision) const { return static_cast<int>(decisions[decision].values.size()); }
  void settle(Point& point) const {
    for (const StageSpace& stage : stages_of(point)) stage.settle(point.choices);
    clear_others(point);
  }
  /// Decisions of other branches have no effect.
  void clear_others(Point& point) const {
    const Branch& own = branch(point.choices);
    for (size_t d = 0; d < point.choices.size(); ++d)
      if (!concerns(d, own)) point.choices[d] = 0;
  }
  /// Adds the space of an algorithm. Unsupported where a stage has no strategy: nothing is added.
  Status add(ComputePlan plan, const Problem& problem, std::span<const Strategy> strategies);
  /// The branch whose algorithm has the same steps.
  std::optional<size_t> branch_of(const std::vector<Step>& steps) const;
  bool can_be_climbed() const;
  /// For half of the direct samples whether all stages are computed inside of others, or none: a
  /// chain of stages stays in the cache only where each of them does.
  std::optional<int> draw_common_place(const Point& point, Random& random) const;
  double rate(const Point& point) const;
  void construct(const Point& point, Construction& c) const;
};

namespace {

constexpr int guesses = 400;
// Bounds, in points of weight 1, of the points that are lowered to find the default point, and of
// those that are constructed to find the nearest point: about a second's work. However heavy points
// are, `least_points` of them are tried; the default is mostly found with less than ten.
constexpr double most_default_points = 10'000, most_near_points = 20'000, least_points = 16;
// The time to lower a point, divided by (100 * stages + nodes), was 0.3 to 0.8 times that of a
// matrix product for chains of 3 to 256 stages.
constexpr double nodes_per_stage = 100, nodes_of_weight_one = 105;
// Draws of a stage's decisions until they are allowed; usually a few are enough.
constexpr int most_draws = 2000;
// Points among which the search for the nearest one chooses where to begin.
constexpr int nearest_samples = 50;

/// Phases of a schedule: a stage that has a loop for others, and those that are computed in it.
class Phases {
 public:
  /// The site at which a stage may be computed if all its readers are in one phase; nullptr if they
  /// are not, or if that phase has no loop for it.
  const Site* site_for(const StagePlan& stage) const {
    const Site* common = nullptr;
    for (const std::string& reader : stage.readers) {
      const Site* site = &sites_.at(phases_.at(reader));
      if (common && site != common) return nullptr;
      common = site;
    }
    return common && !common->loop.empty() ? common : nullptr;
  }
  void open(const std::string& stage, Site site) {
    phases_[stage] = stage;
    sites_[stage] = std::move(site);
  }
  void join(const std::string& stage, const Site& site) { phases_[stage] = site.stage; }

 private:
  std::map<std::string, std::string> phases_;  // by stage: the one that opened its phase
  std::map<std::string, Site> sites_;          // by the latter
};

/// Computes Space::weight() from the stages and the nodes of their bodies.
double weight_of(const ComputePlan& plan) {
  double nodes = 0;
  for (const dsl::Stage& stage : plan.compute.stages)
    nodes += nodes_per_stage + static_cast<double>(stage.body.node().size);
  return std::max(1.0, nodes / nodes_of_weight_one);
}

/// The number of points that a search may construct, fewer the heavier they are, so that its result
/// is the same on every machine. A stop ends the allowance.
class Allowance {
 public:
  Allowance(double most, double weight, const StopToken& stop)
      : left_(std::max(most / weight, least_points)), stop_(stop) {}
  bool takes_one() { return --left_ >= 0 && !stop_.is_stopped(); }

 private:
  double left_;
  const StopToken& stop_;
};

tl::unexpected<Error> no_strategy(const StagePlan& stage, const Problem& problem,
                                  const Target& target) {
  return fail(
      ErrorCode::Unsupported,
      fmt::format("[space] no strategy for {} schedules '{}' where these layouts are given: "
                  "{}; leave the layouts free",
                  target.to_string(), stage.name, dsl::print_layouts(problem.layouts)));
}

/// True if a stage of the plan can be computed by tiles of a core.
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
  auto branch = std::make_unique<Branch>(std::move(plan));
  branch->begin = decisions.size();
  for (const StagePlan& stage : branch->plan.stages) {
    branch->stages.emplace_back(branch->plan, stage, strategies, decisions);
    if (!branch->stages.back().offers().empty()) continue;
    decisions.resize(branch->begin);
    return no_strategy(stage, problem, target);
  }
  branch->end = decisions.size();
  branch->weight = weight_of(branch->plan);
  if (chooses_algorithm) decisions[0].values.push_back(static_cast<int64_t>(branches.size()));
  branches.push_back(std::move(branch));
  return {};
}

std::optional<size_t> Space::State::branch_of(const std::vector<Step>& steps) const {
  const std::string wanted = rewriting_text(steps);
  for (size_t i = 0; i < branches.size(); ++i)
    if (rewriting_text(branches[i]->plan.prologue.steps()) == wanted) return i;
  return std::nullopt;
}

bool Space::State::can_be_climbed() const {
  const std::vector<StageSpace>& stages = branches[0]->stages;
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

void Space::State::construct(const Point& point, Construction& c) const {
  Phases phases;
  for (const StageSpace& stage : stages_of(point)) {
    const StagePlan& plan_of_stage = stage.plan();
    const Site* inside = stage.place() ? phases.site_for(plan_of_stage) : nullptr;
    if (inside) c.uses_decision(*stage.place());
    if (!stage.is_placed(point.choices)) inside = nullptr;
    if (stage.strategy()) c.uses_decision(*stage.strategy());
    const Offer& offer = stage.offer(point.choices);
    const KnobValues values = stage.values(point.choices, decisions);
    Site site =
        offer.strategy->construct({values.begin(), values.size()}, offer.decisions, inside, c);
    if (c.schedule.error()) return;
    if (inside) {
      phases.join(plan_of_stage.name, *inside);
    } else {
      phases.open(plan_of_stage.name, std::move(site));
    }
  }
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
  if (state->chooses_algorithm) state->decisions.push_back({"algorithm", {}});
  TW_TRY(ComputePlan direct, plan_stages(problem, target, stop));
  TW_RETURN_IF_ERROR(state->add(std::move(direct), problem, strategies));
  for (const Rewritten& one : rewritten) {
    Result<ComputePlan> plan = plan_stages(problem, target, stop, &one);
    TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
    // An algorithm that cannot be planned or scheduled is left out: there are the others.
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

double Space::size() const {
  double sum = 0;
  for (const auto& branch : state_->branches) {
    double size = 1;
    for (const StageSpace& stage : branch->stages) size *= stage.size();
    sum += size;
  }
  return sum;
}

size_t Space::algorithms() const { return state_->branches.size(); }

size_t Space::algorithm_of(const Point& point) const { return state_->algorithm_of(point.choices); }

size_t Space::stages(size_t algorithm) const { return state_->branches[algorithm]->stages.size(); }

bool Space::is_fused(const Point& point) const {
  bool has_placed = false;
  for (const StageSpace& stage : state_->stages_of(point)) {
    if (stage.place() && !stage.is_placed(point.choices)) return false;
    has_placed |= stage.place().has_value();
  }
  return has_placed;
}

bool Space::concerns(size_t decision, const Point& point) const {
  return state_->concerns(decision, state_->branch(point.choices));
}

double Space::weight() const {
  double most = 0;
  for (const auto& branch : state_->branches) most = std::max(most, branch->weight);
  return most;
}

double Space::expected_error(size_t algorithm) const {
  return state_->branches[algorithm]->plan.expected_error;
}

const Problem& Space::problem() const { return state_->problem; }

Point Space::default_point() const { return default_point(StopToken()).value(); }

Result<Point> Space::default_point(const StopToken& stop) const {
  Allowance allowance(most_default_points, state_->branches[0]->weight, stop);
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
  // Best first, so that few are lowered.
  std::vector<std::pair<double, Point>> guessed;
  for (int i = 0; i < guesses && !stop.is_stopped(); ++i) {
    Point guess = sample_like(direct, random);
    guessed.emplace_back(state_->rate(guess), std::move(guess));
  }
  std::ranges::stable_sort(guessed, std::greater(), &std::pair<double, Point>::first);
  for (const auto& [rate, guess] : guessed)
    if (improves(guess)) break;
  // Guesses do not come close where there are many knobs, of which the rate says much.
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
      const Branch& own = state_->branch(point.choices);
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
    // Another strategy has knobs that the point says nothing about yet.
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
  if (&state_->branch(a.choices) != &state_->branch(b.choices)) return a;
  for (int attempt = 0; attempt < 50; ++attempt) {
    Point child = a;
    for (const StageSpace& stage : state_->stages_of(a)) {
      for (size_t d = stage.begin(); d < stage.end(); ++d) {
        const bool from_b = random.chance(0.5);
        // A parent of another strategy may say nothing about a knob; the strategy comes before.
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
  Point cleared = point;
  state_->clear_others(cleared);
  const std::vector<StageSpace>& stages = state_->stages_of(point);
  return cleared == point &&
         std::all_of(stages.begin(), stages.end(), [&](const StageSpace& stage) {
           return stage.is_settled(point.choices) && state_->fits(stage, point);
         });
}

Schedule Space::schedule(const Point& point) const {
  Construction c(state_->branch(point.choices).plan);
  state_->construct(point, c);
  return std::move(c.schedule);
}

std::optional<Point> Space::point_of(const Schedule& schedule, int most_constructions) const {
  if (schedule.error()) return std::nullopt;
  const std::optional<size_t> index = state_->branch_of(schedule.steps());
  if (!index) return std::nullopt;
  const Branch& branch = *state_->branches[*index];
  PointSearch search;
  for (size_t d = 0; d < decisions().size(); ++d)
    search.counts.push_back(branch.has(d) ? state_->count(d) : 1);
  const auto in_branch = [this, index](std::vector<int> choices) {
    state_->choose_algorithm(choices, *index);
    return choices;
  };
  search.construct = [this, &branch, in_branch](const std::vector<int>& choices, Trace& trace) {
    Construction c(branch.plan, &trace);
    state_->construct({in_branch(choices)}, c);
    return std::move(c.schedule);
  };
  search.allowed = [this, in_branch](const std::vector<int>& choices) {
    Point point{in_branch(choices)};
    state_->settle(point);
    return allowed(point);
  };
  auto found = find_choices(search, schedule.steps(), most_constructions);
  if (!found) return std::nullopt;
  Point point{in_branch(std::move(*found))};
  state_->settle(point);
  return point;
}

namespace {

/// Number of steps that two schedules have in common; `wanted` is sorted.
size_t common_steps(const std::vector<std::string>& wanted, const Schedule& schedule) {
  std::vector<std::string> texts, common;
  for (const Step& step : schedule.steps()) texts.push_back(schedules::to_string(step));
  std::sort(texts.begin(), texts.end());
  std::set_intersection(texts.begin(), texts.end(), wanted.begin(), wanted.end(),
                        std::back_inserter(common));
  return common.size();
}

}  // namespace

Result<Point> Space::nearest_point(const Schedule& schedule, const StopToken& stop) const {
  Allowance allowance(most_near_points, weight(), stop);
  std::vector<std::string> wanted;
  for (const Step& step : schedule.steps()) wanted.push_back(schedules::to_string(step));
  std::sort(wanted.begin(), wanted.end());
  Random random(1);
  const Point like = state_->origin(state_->branch_of(schedule.steps()).value_or(0));
  Point best = sample_like(like, random);
  size_t most = common_steps(wanted, this->schedule(best));
  const auto improves = [&](const Point& point) {
    const size_t common = common_steps(wanted, this->schedule(point));
    if (common <= most) return false;
    most = common;
    best = point;
    return true;
  };
  for (int i = 0; i < nearest_samples && allowance.takes_one(); ++i)
    improves(sample_like(like, random));
  for (bool moves = true; moves;) {
    moves = false;
    for (const Point& point : neighbours(best)) moves |= allowance.takes_one() && improves(point);
  }
  TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
  return best;
}

std::string Space::to_string(const Point& point) const {
  std::vector<std::string> stages;
  if (const std::string& algorithm = state_->branch(point.choices).plan.algorithm;
      !algorithm.empty())
    stages.push_back(algorithm);
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

/// The value after "name=" as its index among those of the decision; nullopt for any other text.
std::optional<int> parse_choice(std::string_view text, std::string_view name,
                                const std::vector<int64_t>& values) {
  if (!text.starts_with(name) || text.substr(name.size(), 1) != "=") return std::nullopt;
  const auto number = parse_int(text.substr(name.size() + 1));
  const auto at = number ? std::find(values.begin(), values.end(), *number) : values.end();
  if (at == values.end()) return std::nullopt;
  return static_cast<int>(at - values.begin());
}

/// Reads the configuration of one stage into `choices`; whether it is one.
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
    if (trim(parts[0]) == state_->branches[i]->plan.algorithm) algorithm = i;
  const size_t first = algorithm > 0 ? 1 : 0;
  Point point = state_->origin(algorithm);
  const std::vector<StageSpace>& stages = state_->stages_of(point);
  if (parts.size() != first + stages.size()) return std::nullopt;
  for (size_t s = 0; s < stages.size(); ++s)
    if (!parse_stage(parts[first + s], stages[s], decisions(), point.choices)) return std::nullopt;
  return point;
}

}  // namespace tw::schedules

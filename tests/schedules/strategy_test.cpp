// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/strategy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "dsl/parse.h"
#include "schedules/space/find_point.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {
namespace {

// The configuration of a strategy that a developer might add. It cuts the rows of a stage into
// blocks, each of which is a task.
struct RowBlocks {
  int64_t rows = 1;
  int64_t unroll = 0;
  // Derived from the knobs above:
  int64_t blocks = 1;
};

class RowBlocksStage : public Configured<RowBlocks> {
 public:
  RowBlocksStage(const ComputePlan& compute, const StagePlan& plan) : Configured(compute, plan) {
    add_knob("rows", {2, 4, 8, 16, 32}, &RowBlocks::rows);
    add_knob("unroll", {0, 1}, &RowBlocks::unroll);
  }

 private:
  void complete(RowBlocks& config) const override {
    config.blocks = stage_.axes.front().extent / config.rows;
  }
  bool fits(const RowBlocks& config) const override { return config.blocks >= 2; }
  double prior(const RowBlocks& config, bool) const override {
    return 1000 + static_cast<double>(config.rows);
  }
  Site append_steps(const RowBlocks& config, const Site*, Construction& c) const override {
    c.uses(config.rows);
    std::string row = stage_.axes.front().name;
    const std::string block = split_off(c, plan_.name, row, config.rows);
    c.schedule.add(Parallel{plan_.name, block});
    c.uses(config.unroll);
    if (config.unroll == 1) c.schedule.add(Unroll{plan_.name, row});
    return {plan_.name, block};
  }
};

std::unique_ptr<const StageStrategy> row_blocks(const ComputePlan& plan, const StagePlan& stage) {
  if (stage.reduces || plan.stage(stage).axes.size() < 2) return nullptr;
  return std::make_unique<RowBlocksStage>(plan, stage);
}

/// Returns all strategies, and "row_blocks", which only this test has.
std::vector<Strategy> with_row_blocks() {
  std::vector<Strategy> all(strategies().begin(), strategies().end());
  all.push_back({"row_blocks", row_blocks});
  return all;
}

dsl::Compute scaled_rows() {
  return dsl::parse_compute(
             "input a: f32[64, 100]; input s: f32[64]; out: f32[i=64, j=100] = a[i, j] * s[i]")
      .value();
}

TEST(Strategy, ANewOneIsALineOfTheList) {
  const std::vector<Strategy> list = with_row_blocks();
  const Target target = *parse_target("x86-64-v3");
  const Space before = Space::derive(scaled_rows(), target),
              space = Space::derive(Problem{scaled_rows()}, target, StopToken{}, list).value();
  EXPECT_EQ(size(space), size(before) + 5 * 2);

  // The strategy has the highest prior, so it gives the default point, with the largest block that
  // fits.
  const Point first = space.default_point();
  EXPECT_EQ(space.to_string(first).substr(0, 24), "out: row_blocks rows=32 ");
  EXPECT_EQ(point_of(space, space.schedule(first)), first);

  const auto point = space.parse("out: row_blocks rows=4 unroll=1");
  ASSERT_TRUE(point);
  EXPECT_TRUE(space.allowed(*point));
  EXPECT_EQ(space.schedule(*point).to_string(),
            "tw1\nsplit out i 4\nparallel out i.0\nunroll out i.1");
  EXPECT_EQ(point_of(space, space.schedule(*point)), *point);
  EXPECT_FALSE(before.parse(space.to_string(*point)));
}

TEST(Strategy, SearchesGoFromOneToAnother) {
  std::vector<Strategy> list = with_row_blocks();
  const std::set<std::string> both = {"cpu_elementwise", "row_blocks"};
  std::erase_if(list, [&](const Strategy& s) { return !both.contains(std::string(s.name)); });
  const Space space =
      Space::derive(Problem{scaled_rows()}, *parse_target("x86-64-v3"), StopToken{}, list).value();
  const auto strategy_of = [&](const Point& point) { return words(space.to_string(point))[1]; };
  Random random(1);
  std::set<std::string> sampled, mutated, crossed;
  Point point = space.sample(random);
  const Point blocks = *space.parse("out: row_blocks rows=4 unroll=1"),
              vectors = *space.parse("out: cpu_elementwise tile=8 vectors=2 columns=64 tasks=2");
  for (int i = 0; i < 200; ++i) {
    sampled.insert(strategy_of(space.sample(random)));
    point = space.mutate(point, random);
    EXPECT_TRUE(space.allowed(point)) << space.to_string(point);
    mutated.insert(strategy_of(point));
    // Two strategies that share no knob have nothing to cross, so that the child equals a parent.
    const Point child = space.cross(blocks, vectors, random);
    EXPECT_TRUE(child == blocks || child == vectors) << space.to_string(child);
    crossed.insert(strategy_of(child));
  }
  EXPECT_EQ(sampled, both);
  EXPECT_EQ(mutated, both);
  EXPECT_EQ(crossed, both);
  std::set<std::string> near;
  for (const Point& next : space.neighbours(blocks)) near.insert(strategy_of(next));
  EXPECT_EQ(near, both);
}

TEST(Strategy, ReadersInTheLoopsOfTwoStagesLeaveNoOwner) {
  const auto owner_of_rows = [](const char* sums) {
    const auto compute = dsl::parse_compute(fmt::format(R"(
input a: f32[64, 32]
rows: f32[m=64] = max(k=32) a[m, k]
{}
out: f32[m=64, n=32] = (a[m, n] - rows[m]) * sums[m, 31 - n])",
                                                        sums));
    const ComputePlan plan = plan_stages({compute.value()}, *parse_target("x86-64-v3")).value();
    for (const StagePlan& stage : plan.stages)
      if (stage.name == "rows") return stage.owner;
    return std::string("inlined");
  };
  EXPECT_EQ(owner_of_rows("sums: f32[m=64, n=32] = sum(k=32) a[m, k] * rows[m]"), "out");
  // A scan cannot be computed in a loop of `out`.
  EXPECT_EQ(owner_of_rows("sums: f32[m=64, n=32] = sum(k <= n) a[m, k] * rows[m]"), "");
}

TEST(Strategy, NamesDiffer) {
  std::set<std::string_view> names;
  for (const Strategy& strategy : strategies()) EXPECT_TRUE(names.insert(strategy.name).second);
  EXPECT_GE(names.size(), 8u);
}

/// Returns random values of a strategy's knobs that it allows, or {} if 2000 tries find none.
std::vector<int64_t> allowed_values(const StageStrategy& strategy, Random& random) {
  for (int tries = 0; tries < 2000; ++tries) {
    std::vector<int64_t> values;
    for (const Knob& knob : strategy.knobs()) values.push_back(random.pick(knob.values));
    if (strategy.allows(values)) return values;
  }
  return {};
}

struct Traced {
  std::vector<Step> steps;
  Trace trace;
};

Traced constructed(const ComputePlan& plan, const StageStrategy& strategy,
                   const std::vector<int64_t>& values) {
  std::vector<size_t> decisions;
  for (size_t k = 0; k < values.size(); ++k) decisions.push_back(k);
  Traced result;
  Construction c(plan, &result.trace);
  (void)strategy.construct(values, decisions, nullptr, c);
  result.steps = c.schedule.steps();
  return result;
}

/// Returns the number of leading steps that two schedules have in common.
size_t common_steps(const std::vector<Step>& a, const std::vector<Step>& b) {
  size_t n = 0;
  while (n < std::min(a.size(), b.size()) && to_string(a[n]) == to_string(b[n])) ++n;
  return n;
}

// A strategy calls uses() for a choice before the first step that the choice can change. point_of()
// relies on this.
TEST(Strategy, StepsBeforeTheUseOfAChoiceDoNotDependOnIt) {
  Random random(5);
  for (const char* target : {"x86-64-v4", "cuda:sm_80", "cuda:sm_90a", "opencl"})
    for (const Case& c : cases()) {
      const ComputePlan plan = plan_stages({c.compute}, *parse_target(target)).value();
      for (const StagePlan& stage : plan.stages)
        for (const Strategy& strategy : strategies()) {
          const auto match = strategy.match(plan, stage);
          if (!match || match->knobs().empty()) continue;
          std::vector<int64_t> values = allowed_values(*match, random);
          if (values.empty()) continue;
          const Traced before = constructed(plan, *match, values);
          for (size_t k = 0; k < values.size(); ++k) {
            const int64_t value = values[k];
            values[k] = random.pick(match->knobs()[k].values);
            const Traced after = constructed(plan, *match, values);
            const size_t common = common_steps(before.steps, after.steps);
            const bool same = common == std::max(before.steps.size(), after.steps.size());
            size_t used = before.steps.size();
            for (const Trace::Use& use : before.trace.uses)
              if (use.decision == k) used = use.steps;
            EXPECT_TRUE(same || used <= common)
                << target << " " << c.name << " " << strategy.name << ": step " << common
                << " depends on " << match->knobs()[k].name << " before it is used";
            values[k] = value;
          }
        }
    }
}

// Sampling draws the values of the first knobs, the head, only from heads that may_begin_with()
// accepts. So it must accept the head of every allowed configuration.
TEST(Strategy, EachConfigurationThatIsAllowedBeginsWithAHead) {
  Random random(6);
  size_t checked = 0;
  for (const char* target : {"x86-64-v3", "x86-64-v4", "cuda:sm_90a"})
    for (const Case& c : cases()) {
      const ComputePlan plan = plan_stages({c.compute}, *parse_target(target)).value();
      for (const StagePlan& stage : plan.stages)
        for (const Strategy& strategy : strategies()) {
          const auto match = strategy.match(plan, stage);
          if (!match) continue;
          ASSERT_LE(match->knobs_of_head(), match->knobs().size());
          const std::vector<int64_t> values = allowed_values(*match, random);
          if (values.empty()) continue;
          const std::span<const int64_t> all(values);
          for (size_t k = 1; k <= match->knobs_of_head(); ++k) {
            EXPECT_TRUE(match->may_begin_with(all.first(k))) << target << " " << c.name;
            ++checked;
          }
        }
    }
  EXPECT_GT(checked, 20u);
}

}  // namespace
}  // namespace tw::schedules

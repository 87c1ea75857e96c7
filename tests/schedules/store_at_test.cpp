// SPDX-License-Identifier: Apache-2.0
// Tests of sliding windows: which elements an iteration computes, where it keeps them, and which
// steps are legal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "dsl/parse.h"
#include "tests/schedules/property.h"

namespace tw::schedules {
namespace {

using testing::HasSubstr;

const char* const blur =
    "input image: f32[34, 66]\n"
    "rows: f32[y=34, x=64] = image[y, x] + image[y, x + 1] + image[y, x + 2]\n"
    "out: f32[y=32, x=64] = rows[y, x] + rows[y + 1, x] + rows[y + 2, x]\n";
const std::string strips = "split out y 8 as strip y\n";
const std::string window = strips + "compute_at rows out y\nstore_at rows out strip\n";

/// Returns the program, after checking that it computes what the compute means, or the error.
std::string program_of(const std::string& text, const std::string& steps) {
  const dsl::Compute compute = dsl::parse_compute(text).value();
  const auto schedule = parse_schedule(compute, "tw1\n" + steps);
  if (!schedule) return schedule.error().message;
  EXPECT_EQ(parse_schedule(compute, schedule->to_string())->to_string(), schedule->to_string());
  const auto program = schedule->program();
  if (!program) return program.error().message;
  EXPECT_EQ(disagreement(compute, *program), std::nullopt) << steps << to_string(*program);
  return to_string(*program);
}

/// Counts the elements that a program stores, by buffer.
class StoreCounter {
 public:
  std::map<std::string, int64_t> count(const Program& program) {
    for (const Phase& phase : program.phases) {
      tasks_ = phase.axes;
      run_tasks(phase, 0);
    }
    return stores_;
  }

 private:
  void run_tasks(const Phase& phase, size_t axis) {
    if (axis == tasks_.size()) return run(*phase.body);
    for (int64_t i = 0; i < tasks_[axis].extent; ++i) {
      values_[tasks_[axis].variable] = Expr(i);
      run_tasks(phase, axis + 1);
    }
  }
  int64_t value(const Expr& expr) {
    dsl::Substitution all;
    for (const auto& [name, literal] : values_) all[name] = literal;
    return *dsl::as_int(dsl::substitute(expr, all));
  }
  void run(const Block& body) {
    for (const Stmt& stmt : body)
      schedules::visit(
          stmt,
          [&](const Loop& loop) {
            const int64_t end = value(loop.end);
            for (int64_t i = value(loop.begin); i < end; ++i) {
              values_[loop.variable] = Expr(i);
              run(*loop.body);
            }
          },
          [&](const If& branch) {
            if (value(branch.condition)) run(*branch.body);
          },
          [&](const Assign& assign) { ++stores_[assign.buffer]; },
          [&](const Allocate& allocate) { run(*allocate.body); },
          ignore<Barrier, Commit, Wait, PrefetchLines>);
  }

  std::vector<TaskAxis> tasks_;
  std::map<std::string, Expr> values_;
  std::map<std::string, int64_t> stores_;
};

std::map<std::string, int64_t> stores_of(const std::string& steps) {
  const auto schedule = parse_schedule(dsl::parse_compute(blur).value(), "tw1\n" + steps);
  return StoreCounter().count(schedule->program().value());
}

TEST(StoreAt, AnIterationComputesTheRowThatIsNew) {
  EXPECT_THAT(program_of(blur, window + "vectorize rows x\nvectorize out x\nparallel out strip"),
              HasSubstr(R"(phase 0 out, tasks 4: y.0 in 0..4
  rows: local f32[3, 64]
  for y.1 in -2..0
    vector rows.x in 0..64
      rows[(y.0 * 8 + y.1 + 2) % 3, rows.x] = image[y.0 * 8 + y.1 + 2, rows.x] + image[y.0 * 8 + y.1 + 2, rows.x + 1] + image[y.0 * 8 + y.1 + 2, rows.x + 2]
  for y.1 in 0..8
    vector rows.x in 0..64
      rows[(y.0 * 8 + y.1 + 2) % 3, rows.x] = image[y.0 * 8 + y.1 + 2, rows.x] + image[y.0 * 8 + y.1 + 2, rows.x + 1] + image[y.0 * 8 + y.1 + 2, rows.x + 2]
    vector x in 0..64
)"));
}

// Each strip of 8 rows of `out` reads 10 rows of `rows`. Without a window, each row of `out`
// computes its 3 rows of `rows` again.
TEST(StoreAt, NothingIsComputedTwiceWithinAStrip) {
  EXPECT_EQ(stores_of("")["rows"], 34 * 64);
  EXPECT_EQ(stores_of(strips + "compute_at rows out strip")["rows"], 4 * 10 * 64);
  EXPECT_EQ(stores_of(strips + "compute_at rows out y")["rows"], 32 * 3 * 64);
  EXPECT_EQ(stores_of(window)["rows"], 4 * 10 * 64);
  EXPECT_EQ(
      stores_of(
          "split out y 32 as whole y\ncompute_at rows out y\nstore_at rows out whole")["rows"],
      34 * 64);
}

TEST(StoreAt, LoopsOfTheStageAndOfItsReaderAreScheduledAsEver) {
  for (const char* rest :
       {"unroll out y", "split rows x 16\nvectorize rows x.1\nunroll rows x.0", "split out x 7",
        "unroll rows y", "reorder rows x y", "split rows x 5\nreorder rows x.1 y x.0",
        "parallel out strip", "cache_read image rows x", "cache_read image rows y"})
    EXPECT_THAT(program_of(blur, window + rest), HasSubstr("rows: local f32[3, 64]")) << rest;
  // 32 rows in strips of 5 leave a last strip of 2 rows.
  EXPECT_THAT(program_of(blur, "split out y 5\ncompute_at rows out y.1\nstore_at rows out y.0"),
              HasSubstr("rows: local f32[3, 64]"));
  // A window may also slide along the contiguous axis.
  EXPECT_THAT(program_of("input a: f32[20]; p: f32[x=20] = a[x] * 2.0; "
                         "out: f32[x=17] = p[x] + p[x + 1] + p[x + 3]",
                         "split out x 6\ncompute_at p out x.1\nstore_at p out x.0"),
              HasSubstr("p: local f32[4]"));
}

TEST(StoreAt, WindowsOfAllSizesAndSteps) {
  for (int64_t taps = 2; taps < 6; ++taps)
    for (int64_t stride = 1; stride < taps; ++stride)
      for (int64_t strip : {1, 3, 4, 11}) {
        const int64_t rows = (11 - 1) * stride + taps;
        for (const char* source : {"p", "select(0 <= {0} && {0} < {1}, p[{0}, x], 0.0)"}) {
          const bool padded = source[0] == 's';
          const std::string at = fmt::format("y * {} + r - {}", stride, padded ? 1 : 0);
          const std::string term =
              padded ? fmt::format(fmt::runtime(source), at, rows) : fmt::format("p[{}, x]", at);
          const std::string text = fmt::format(
              "input a: f32[{0}, 3]; p: f32[y={0}, x=3] = a[y, x] * 3.0; "
              "out: f32[y=11, x=3] = sum(r={1}) {2}",
              rows, taps, term);
          const std::string steps =
              fmt::format("split out y {} as s y\ncompute_at p out y\nstore_at p out s\n", strip);
          EXPECT_THAT(program_of(text, steps), HasSubstr(fmt::format("p: local f32[{}, 3]", taps)))
              << text << "\n"
              << steps;
        }
      }
}

// The computes have random taps and strips, and random steps follow store_at.
TEST(StoreAt, RandomSchedulesOfWindowsComputeWhatTheComputeMeans) {
  Tally tally;
  for (uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    Random random(seed);
    const int64_t stride = 1 + random.below(2), far = stride + random.below(3), n = 7;
    const auto compute = dsl::parse_compute(
        fmt::format("input a: i32[{0}, 5]; p: i32[y={0}, x=5] = a[y, x] * 3 + 1; "
                    "out: i32[y={1}, x=5] = p[y * {2}, x] * 2 + p[y * {2} + {3}, x]",
                    (n - 1) * stride + far + 1, n, stride, far));
    const Schedule window = Schedule(*compute)
                                .split("out", "y", 1 + random.below(n))
                                .compute_at("p", "out", "y.1")
                                .store_at("p", "out", "y.0");
    ASSERT_FALSE(window.error()) << window.error()->message;
    const Schedule schedule = random_schedule(random, window, tally);
    EXPECT_EQ(failure(schedule, 0), std::nullopt) << report(schedule, 0);
  }
  EXPECT_GE(tally.legal, 150);
}

TEST(StoreAt, ReductionsSlideToo) {
  const char* text =
      "input a: f32[12, 5, 6]; p: f32[y=12, x=6] = sum(c=5) a[y, c, x]; "
      "out: f32[y=10, x=6] = p[y, x] * p[y + 2, x]";
  const std::string steps = "split out y 5 as s y\ncompute_at p out y\nstore_at p out s\n";
  EXPECT_THAT(program_of(text, steps), HasSubstr("p: local f32[3, 6]"));
  EXPECT_THAT(program_of(text, steps + "reorder p y c x\ncache_write p y\nvectorize p x"),
              HasSubstr("p.acc: register f32[6]"));
}

TEST(StoreAt, NeedsAStageThatIsPlacedAndUntouched) {
  EXPECT_THAT(program_of(blur, "store_at rows out y"),
              HasSubstr("[store_at] 'rows' is not computed at a loop of 'out'"));
  EXPECT_THAT(program_of(blur, strips + "compute_at rows out y\nvectorize rows x\n"
                                        "store_at rows out strip"),
              HasSubstr("'rows' has steps after its compute_at: store it first"));
  EXPECT_THAT(program_of(blur, window + "store_at rows out strip"),
              HasSubstr("'rows' has steps after its compute_at"));
  EXPECT_THAT(program_of(blur, strips + "compute_at rows out x\nstore_at rows out strip"),
              HasSubstr("'rows' is computed at loop 'x', which is not directly inside of 'y.0'"));
}

TEST(StoreAt, NeedsARegionThatMovesForwardAndOverlaps) {
  const auto of = [](const std::string& out) {
    return program_of(
        "input a: f32[40, 4]; p: f32[y=40, x=4] = a[y, x]; out: f32[y=10, x=4] = " + out,
        "split out y 5\ncompute_at p out y.1\nstore_at p out y.0");
  };
  EXPECT_THAT(of("p[y, x] + p[y + 1, x]"), HasSubstr("p: local f32[2, 4]"));
  EXPECT_THAT(of("p[y, x]"), HasSubstr("moves by 1 elements, of which an iteration reads 1"));
  EXPECT_THAT(of("p[y * 2, x] + p[y * 2 + 1, x]"), HasSubstr("none is read twice"));
  EXPECT_THAT(of("p[20 - y, x] + p[21 - y, x]"), HasSubstr("does not move forward"));
  EXPECT_THAT(of("p[3, x]"), HasSubstr("moves along 0 of its axes"));
}

TEST(StoreAt, NeedsIterationsInOrderAndNoThreads) {
  EXPECT_THAT(program_of(blur, window + "parallel out strip\nparallel out y"),
              HasSubstr("the window of 'rows' slides along loop 'y.1', whose iterations must run "
                        "one after the other, not as tasks"));
  EXPECT_THAT(program_of(blur, window + "bind out x"),
              HasSubstr("windows slide where a task has one thread"));
  const char* chain =
      "input a: f32[36, 4]; q: f32[y=36, x=4] = a[y, x]; "
      "p: f32[y=34, x=4] = q[y, x] + q[y + 1, x]; out: f32[y=32, x=4] = p[y, x] + p[y + 2, x]";
  const std::string outer = "split out y 8 as s y\ncompute_at p out y\n";
  EXPECT_THAT(program_of(chain, outer + "compute_at q out y\nstore_at p out s"),
              HasSubstr("'p' has a window along loop 'y.1' and reads 'q'"));
  EXPECT_THAT(program_of(chain, outer + "store_at p out s\ncompute_at q out s"),
              HasSubstr("place it before the store_at"));
  EXPECT_THAT(program_of(chain, outer + "compute_at q out s\nstore_at p out s"),
              HasSubstr("p: local f32[3, 4]"));
}

}  // namespace
}  // namespace tw::schedules

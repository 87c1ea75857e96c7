// SPDX-License-Identifier: Apache-2.0
// Tests of the step prefetch: it requests the cache lines that the next iteration reads, and does
// not change results.

#include "schedules/lowering/prefetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/program/simplify.h"
#include "schedules/space/space.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

using testing::HasSubstr;

/// Returns a product in tiles of `rows` by 16, in which b is packed into panels of 16 columns.
Schedule panels(int64_t m, int64_t n, int64_t k, int64_t rows, int64_t block) {
  const auto compute = dsl::parse_compute(fmt::format(R"(input a: f32[{0}, {2}]
weight b: f32[{2}, {1}]
c: f32[m={0}, n={1}] = sum(k={2}) a[m, k] * b[k, n])",
                                                      m, n, k));
  return Schedule(*compute)
      .set_layout("b", "BA16b")
      .split("c", "n", 16)
      .split("c", "m", rows)
      .split("c", "k", block)
      .reorder("c", {"n.0", "m.0", "k.0", "k.1", "m.1", "n.1"})
      .cache_write("c", "m.0")
      .vectorize("c", "n.1")
      .unroll("c", "m.1")
      .unroll("c", "k.1");
}

std::vector<PrefetchLines> prefetches_of(const Program& program) {
  std::vector<PrefetchLines> found;
  for_each(*program.phases[0].body, [&](const Stmt& stmt) {
    if (const auto* p = stmt.as<PrefetchLines>()) found.push_back(*p);
  });
  return found;
}

struct Product {
  int64_t m, n, k, rows, block;
};
class Prefetches : public ::testing::TestWithParam<Product> {};

TEST_P(Prefetches, ChangeNoValue) {
  const auto [m, n, k, rows, block] = GetParam();
  for (const std::string at : {"m.0", "k.0"}) {
    const Schedule schedule = panels(m, n, k, rows, block).prefetch("c", "b", "n.0", at);
    const auto program = schedule.program();
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_FALSE(prefetches_of(*program).empty()) << to_string(*program);
    EXPECT_EQ(disagreement(schedule.compute(), *program), std::nullopt) << to_string(*program);
  }
}

INSTANTIATE_TEST_SUITE_P(Tails, Prefetches,
                         ::testing::Values(Product{12, 48, 16, 4, 4}, Product{13, 48, 16, 4, 4},
                                           Product{12, 41, 16, 4, 4}, Product{12, 48, 15, 4, 4},
                                           Product{5, 33, 7, 6, 2}, Product{6, 32, 16, 6, 4}));

/// Returns the byte offsets in b of the cache lines that a task requests while it computes panel
/// `panel`. An offset occurs once for each request.
std::multiset<int64_t> requested(const Schedule& schedule, int64_t panel) {
  const auto program = schedule.program();
  EXPECT_TRUE(program) << program.error().message;
  const PrefetchLines p = prefetches_of(*program).at(0);
  std::multiset<int64_t> bytes;
  for (int64_t m = 0; m < schedule.nest().stages[0].loops[1].extent; ++m)
    for (int64_t k = 0; k < schedule.nest().stages[0].loops[2].extent; ++k) {
      Expr at = dsl::substitute(p.offset, "n.0", Expr(panel));
      at = dsl::substitute(dsl::substitute(at, "m.0", Expr(m)), "k.0", Expr(k));
      const int64_t first = *dsl::as_int(simplify(at, Bounds()));
      for (int64_t i = 0; i < p.lines; ++i) bytes.insert(4 * first + 64 * i);
    }
  return bytes;
}

TEST(Prefetch, RequestsEachLineOfTheNextPanelOnce) {
  // A panel has 32 cache lines. While it is computed, 3 tiles of rows x 4 blocks of k are 12
  // iterations, each of which requests 3 lines of the next panel. As 12 x 3 > 32, the last
  // iteration repeats some.
  const Schedule schedule = panels(12, 64, 32, 4, 8).prefetch("c", "b", "n.0", "k.0");
  const std::multiset<int64_t> bytes = requested(schedule, 1);
  const std::set<int64_t> distinct(bytes.begin(), bytes.end());
  EXPECT_EQ(distinct.size(), 32);
  EXPECT_EQ(*distinct.begin(), 2 * 32 * 64);
  EXPECT_EQ(*distinct.rbegin(), 3 * 32 * 64 - 64);
  // If 16 iterations request 2 lines each, no line is requested twice.
  EXPECT_EQ(requested(panels(16, 64, 32, 4, 8).prefetch("c", "b", "n.0", "k.0"), 1).size(), 32);
}

TEST(Prefetch, IsPlacedInTheOutermostLoopThatRequestsFewLines) {
  const auto site = [](const Schedule& schedule, int64_t few_lines) {
    const Nest& nest = schedule.nest();
    return prefetch_site(nest, nest.stages.front(), "b", "n.0", few_lines);
  };
  // A panel has 32 cache lines. That is 11 lines for each of 3 tiles of rows, or 3 lines for each
  // of the 12 blocks of all tiles.
  const Schedule product = panels(12, 64, 32, 4, 8);
  EXPECT_EQ(site(product, 16), "m.0");
  EXPECT_EQ(site(product, 10), "k.0");
  EXPECT_EQ(site(product, 1), "k.0");
  // A panel has 256 cache lines. There is only one tile of rows, which would request all of them,
  // more than 64. It has 64 blocks, each of which requests 4 lines.
  EXPECT_EQ(site(panels(4, 64, 256, 4, 4), 100), "k.0");
  EXPECT_EQ(site(product.set_layout("b", "AB"), 16), std::nullopt);
}

TEST(Prefetch, IsPlacedInNoLoopThatIsParallelOrUnrolled) {
  const auto site = [](const Schedule& schedule) {
    const Nest& nest = schedule.nest();
    return prefetch_site(nest, nest.stages.front(), "b", "n.0", 64);
  };
  const Schedule product = panels(12, 64, 32, 4, 8);
  EXPECT_EQ(site(product), "m.0");
  const Schedule unrolled = product.unroll("c", "m.0");
  EXPECT_EQ(site(unrolled), "k.0");
  EXPECT_EQ(site(unrolled.unroll("c", "k.0")), std::nullopt);
  EXPECT_EQ(site(product.parallel("c", "n.0").parallel("c", "m.0")), "k.0");
}

TEST(Prefetch, StaysInsideAtTheEnd) {
  const Schedule schedule = panels(12, 64, 32, 4, 8).prefetch("c", "b", "n.0", "k.0");
  const std::multiset<int64_t> bytes = requested(schedule, 3);
  EXPECT_EQ(*bytes.begin(), 3 * 32 * 64);
  EXPECT_EQ(*bytes.rbegin(), 4 * 32 * 64 - 64);
}

// A prefetch does not prevent a guard from being moved out of a loop or from shortening a loop.
TEST(Prefetch, DoesNotKeepGuardsInside) {
  const std::string with =
      to_string(panels(13, 48, 15, 4, 4).prefetch("c", "b", "n.0", "k.0").program().value());
  const std::string without = to_string(panels(13, 48, 15, 4, 4).program().value());
  const auto count = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count(with, "if "), count(without, "if ")) << with << without;
}

TEST(Prefetch, OfAConvolutionChangesNoValue) {
  const auto workload = dsl::parse_workload(
      "conv2d n=1 c=16 h=7 w=7 k=48 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast");
  const Schedule schedule =
      Schedule(workload->compute)
          .set_layout("w", "OIHW8i16o")
          .split("out", "k", 16)
          .split("out", "c", 8)
          .split("out", "x", 4)
          .reorder("out", {"n", "k.0", "y", "x.0", "c.0", "r", "s", "c.1", "x.1", "k.1"})
          .cache_write("out", "x.0")
          .vectorize("out", "k.1")
          .unroll("out", "x.1")
          .parallel("out", "n")
          .parallel("out", "k.0")
          .prefetch("out", "w", "k.0", "c.1");
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_FALSE(prefetches_of(*program).empty());
  EXPECT_EQ(disagreement(workload->compute, *program), std::nullopt) << to_string(*program);
}

TEST(Prefetch, IsTextThatParsesBack) {
  const Schedule schedule = panels(12, 48, 16, 4, 4).prefetch("c", "b", "n.0", "k.0");
  EXPECT_THAT(schedule.to_string(), HasSubstr("\nprefetch c b n.0 k.0"));
  const auto parsed = parse_schedule(schedule.compute(), schedule.to_string());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(hash(parsed->program().value()), hash(schedule.program().value()));
  EXPECT_NE(hash(schedule.program().value()), hash(panels(12, 48, 16, 4, 4).program().value()));
}

std::string error_of(const Schedule& schedule) {
  const auto program = schedule.program();
  return program ? "" : program.error().message;
}

TEST(Prefetch, SaysWhyNot) {
  const Schedule product = panels(12, 48, 16, 4, 4);
  EXPECT_THAT(error_of(product.prefetch("c", "b", "k.0", "n.0")), HasSubstr("is not inside of"));
  EXPECT_THAT(error_of(product.prefetch("c", "c", "n.0", "k.0")), HasSubstr("is no input"));
  EXPECT_THAT(error_of(product.prefetch("c", "b", "n.0", "k.1")), HasSubstr("is not serial"));
  EXPECT_THAT(error_of(product.prefetch("c", "a", "n.0", "k.0")), HasSubstr("no contiguous part"));
  EXPECT_THAT(error_of(product.prefetch("c", "b", "m.0", "k.0")), HasSubstr("no contiguous part"));
  EXPECT_THAT(error_of(product.set_layout("b", "AB").prefetch("c", "b", "n.0", "k.0")),
              HasSubstr("no contiguous part"));
  EXPECT_THAT(error_of(product.prefetch("c", "b", "n.0", "k.0").prefetch("c", "b", "n.0", "m.0")),
              HasSubstr("prefetched already"));
  EXPECT_THAT(error_of(panels(4, 64, 256, 4, 4).prefetch("c", "b", "n.0", "m.0")),
              HasSubstr("would request 256 lines"));
  EXPECT_THAT(error_of(product.prefetch("c", "b", "n.0", "k.0").split("c", "k.0", 2)),
              HasSubstr("no loop 'k.0' inside"));
}

TEST(Prefetch, OutsideOfItsBufferIsAnErrorOfTheInterpreter) {
  const Schedule schedule = panels(12, 48, 16, 4, 4);
  Program program = schedule.program().value();
  Block body = *program.phases[0].body;
  body.insert(body.begin(), Stmt{PrefetchLines{"b", Expr(48 * 16 - 16), 2}});
  program.phases[0].body = block(std::move(body));
  EXPECT_THAT(disagreement(schedule.compute(), program).value_or(""), HasSubstr("begins outside"));
}

// ---- the search -------------------------------------------------------------------------------

/// Samples 40 points without algorithms from the space of a workload on x86-64-v4 with an L2 of
/// this size. Returns the legal schedules that have a prefetch. An illegal schedule with a prefetch
/// fails the test, unless it unrolls to too many statements.
std::vector<Schedule> proposed(const std::string& workload_text, int64_t l2_bytes = 1 << 20) {
  const auto workload = dsl::parse_workload(workload_text);
  EXPECT_TRUE(workload) << workload.error().message;
  Target target = parse_target("x86-64-v4").value();
  target.machine.caches[1].bytes = l2_bytes;
  Problem problem = problem_of(*workload);
  problem.algorithms = false;
  const Space space = Space::derive(problem, target).value();
  Random random(1);
  std::vector<Schedule> found;
  for (int i = 0; i < 40; ++i) {
    const Schedule schedule = space.schedule(space.sample(random));
    if (schedule.to_string().find("\nprefetch ") == std::string::npos) continue;
    const auto program = schedule.program(limits_of(target));
    if (!program) {  // tails and padding may make any sample too large
      EXPECT_THAT(program.error().message, HasSubstr("unrolls to more than"));
      continue;
    }
    found.push_back(schedule);
  }
  return found;
}
bool offers_prefetch(const std::string& workload_text) { return !proposed(workload_text).empty(); }

TEST(Prefetch, IsProposedWhereWeightsLargerThanL2ComeFromMemory) {
  const std::string large = "dense m=128 n=1536 k=1536 f32 fast";
  EXPECT_TRUE(offers_prefetch(large + " {network:memory}"));
  EXPECT_FALSE(offers_prefetch("dense m=1 n=1536 k=1536 f32 fast {network:memory}"));
  EXPECT_FALSE(offers_prefetch(large + " {network:L3}"));
  EXPECT_FALSE(offers_prefetch(large));
  EXPECT_FALSE(offers_prefetch("dense m=128 n=64 k=64 f32 fast {network:memory}"));
  EXPECT_FALSE(offers_prefetch(large + " {a=MK b=KN out=MN network:memory}"));
  EXPECT_TRUE(
      offers_prefetch("conv2d n=1 c=512 h=7 w=7 k=512 r=3 s=3 stride=1 pad=1 dilation=1 "
                      "groups=1 f32 fast {network:memory}"));
}

TEST(Prefetch, ProposedSchedulesMeanTheSame) {
  for (const char* workload :
       {"dense m=13 n=75 k=24 f32 fast", "dense m=12 n=96 k=10 bf16 fast",
        "conv2d n=1 c=6 h=5 w=6 k=40 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast"}) {
    const std::vector<Schedule> schedules =
        proposed(std::string(workload) + " {network:memory}", 1024);
    EXPECT_GE(schedules.size(), 5);
    for (const Schedule& schedule : schedules)
      EXPECT_EQ(disagreement(schedule.compute(), schedule.program().value()), std::nullopt)
          << schedule.to_string();
  }
}

}  // namespace
}  // namespace tw::schedules

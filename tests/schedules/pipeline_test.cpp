// SPDX-License-Identifier: Apache-2.0
// Tests of the steps pipeline, pad and swizzle: copies into shared memory that run ahead of the
// iterations that use them, and the addresses of the copied elements.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "schedules/program/threads.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

using testing::HasSubstr;

/// Returns a product with both operands in shared memory, in blocks of 3 terms. Tiles do not divide
/// m and n.
Schedule product(int64_t k) {
  const auto compute = dsl::parse_compute(fmt::format(R"(input a: f32[10, {0}]
weight b: f32[{0}, 9]
c: f32[m=10, n=9] = sum(k={0}) a[m, k] * b[k, n])",
                                                      k));
  return Schedule(*compute)
      .split("c", "m", 8)
      .split("c", "n", 4)
      .split("c", "k", 3)
      .reorder("c", {"m.0", "n.0", "k.0", "m.1", "n.1", "k.1"})
      .cache_write("c", "n.0")
      .cache_operand("c", 1, "k.0", {"k.1", "m.1"})
      .cache_operand("c", 2, "k.0", {"k.1", "n.1"})
      .parallel("c", "m.0")
      .parallel("c", "n.0")
      .bind("c", "m.1")
      .bind("c", "n.1")
      .fuse("a@c", "k.1", "m.1")
      .bind("a@c", "k.1*m.1")
      .bind("b@c", "k.1");
}

Schedule pipelined(int64_t k, int64_t depth) {
  return product(k).pipeline("a@c", depth).pipeline("b@c", depth);
}

template <typename T>
int count(const Block& body) {
  int count = 0;
  for_each(body, [&](const Stmt& stmt) { count += stmt.as<T>() != nullptr; });
  return count;
}

std::string text_of(const Schedule& schedule) {
  const auto program = schedule.program();
  return program ? to_string(*program) : program.error().message;
}

struct Depth {
  int64_t depth, trips;
  friend void PrintTo(const Depth& d, std::ostream* out) {
    *out << "depth " << d.depth << ", trips " << d.trips;
  }
};
class Pipelines : public ::testing::TestWithParam<Depth> {};

TEST_P(Pipelines, ComputeWhatTheProductMeans) {
  const auto [depth, trips] = GetParam();
  for (const int64_t k : {3 * trips, 3 * trips - 1}) {
    const Schedule schedule = pipelined(k, depth);
    const auto program = schedule.program();
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(disagreement(schedule.compute(), *program), std::nullopt) << to_string(*program);
    EXPECT_EQ(shared_bytes(*program->phases[0].body), std::min(depth, trips) * (3 * 8 + 3 * 4) * 4);
    // There is one barrier per iteration.
    EXPECT_EQ(count<Barrier>(*program->phases[0].body), 1) << to_string(*program);
  }
}

INSTANTIATE_TEST_SUITE_P(Trips, Pipelines,
                         ::testing::Values(Depth{2, 1}, Depth{2, 2}, Depth{2, 3}, Depth{2, 7},
                                           Depth{3, 1}, Depth{3, 2}, Depth{3, 3}, Depth{3, 4},
                                           Depth{3, 7}, Depth{4, 1}, Depth{4, 2}, Depth{4, 3},
                                           Depth{4, 4}, Depth{4, 5}, Depth{4, 9}));

TEST(Pipeline, OneOperandMayBeCopiedInEachIteration) {
  const Schedule schedule = product(13).pipeline("b@c", 3);
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(schedule.compute(), *program), std::nullopt) << to_string(*program);
}

TEST(Pipeline, OfAThreadsOwnBufferNeedsNoBarriers) {
  const auto compute = dsl::parse_compute(R"(input a: f32[10, 13]
c: f32[m=10] = sum(k=13) a[m, k])");
  const Schedule schedule = Schedule(*compute)
                                .split("c", "k", 4)
                                .cache_write("c", "m")
                                .cache_operand("c", 1, "k.0", {"k.1"})
                                .pipeline("a@c", 2)
                                .bind("c", "m");
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  const Block& body = *program->phases[0].body;
  EXPECT_EQ(count<Barrier>(body) + count<Wait>(body) + count<Commit>(body), 0) << text_of(schedule);
  EXPECT_EQ(disagreement(*compute, *program), std::nullopt) << to_string(*program);
}

/// Returns the program with its n-th statement of type T replaced by the statements that `change`
/// returns for it, or nullopt if there are fewer statements of this type.
template <typename T, typename F>
std::optional<Program> changed(const Program& program, int n, F&& change) {
  bool found = false;
  const std::function<Block(const Block&)> in = [&](const Block& body) {
    Block result;
    for (const Stmt& stmt : body) {
      if (const T* t = stmt.as<T>(); t && n-- == 0) {
        found = true;
        for (Stmt& s : change(*t)) result.push_back(std::move(s));
      } else if (const Block* inner = body_of(stmt)) {
        result.push_back(with_body(stmt, block(in(*inner))));
      } else {
        result.push_back(stmt);
      }
    }
    return result;
  };
  Program result = program;
  result.phases[0].body = block(in(*program.phases[0].body));
  return found ? std::optional(result) : std::nullopt;
}

template <typename T>
std::optional<Program> without(const Program& program, int n) {
  return changed<T>(program, n, [](const T&) { return Block{}; });
}

TEST(Pipeline, EachWaitIsNeeded) {
  for (const int64_t depth : {2, 3, 4}) {
    const Schedule schedule = pipelined(20, depth);
    const Program program = schedule.program().value();
    const auto found = disagreement(schedule.compute(), without<Wait>(program, 0).value());
    ASSERT_TRUE(found);
    EXPECT_THAT(*found, HasSubstr("is touched before its copy was waited for"));
    EXPECT_FALSE(without<Wait>(program, 1));
  }
}

TEST(Pipeline, AWaitForTooFewIsFound) {
  for (const int64_t depth : {2, 3, 4}) {
    const Schedule schedule = pipelined(20, depth);
    const auto late = changed<Wait>(schedule.program().value(), 0, [](const Wait& wait) {
      return single({Wait{wait.pending + 1}});
    });
    const auto found = disagreement(schedule.compute(), late.value());
    ASSERT_TRUE(found);
    EXPECT_THAT(*found, HasSubstr("is touched before its copy was waited for"));
  }
}

TEST(Pipeline, EachCommitIsNeeded) {
  for (const int64_t depth : {2, 3, 4}) {
    const Schedule schedule = pipelined(20, depth);
    const Program program = schedule.program().value();
    int commits = 0;
    for (; const auto fewer = without<Commit>(program, commits); ++commits) {
      const auto found = disagreement(schedule.compute(), *fewer);
      ASSERT_TRUE(found) << to_string(*fewer);
      EXPECT_THAT(*found,
                  HasSubstr(fmt::format("groups of copies on their way, expected {}", depth - 1)));
    }
    EXPECT_EQ(commits, 2);
  }
}

TEST(Pipeline, TheBarrierIsNeeded) {
  for (const int64_t depth : {2, 3, 4}) {
    const Schedule schedule = pipelined(20, depth);
    const Program racy = without<Barrier>(schedule.program().value(), 0).value();
    const auto found = disagreement(schedule.compute(), racy);
    ASSERT_TRUE(found) << to_string(racy);
    EXPECT_THAT(*found, HasSubstr("by two threads without a barrier between"));
    EXPECT_FALSE(check_legal(racy));
    const Status threads = check_threads(racy.phases[0], {});
    ASSERT_FALSE(threads);
    EXPECT_THAT(threads.error().message, HasSubstr("without a barrier between"));
  }
}

TEST(Pipeline, ABarrierBeforeTheWaitIsTooEarly) {
  const Schedule schedule = pipelined(20, 3);
  Program program = without<Barrier>(schedule.program().value(), 0).value();
  program = changed<Wait>(program, 0, [](const Wait& wait) {
              return Block{{Barrier{}}, {wait}};
            }).value();
  const auto found = disagreement(schedule.compute(), program);
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, HasSubstr("by two threads without a barrier between"));
}

TEST(Pipeline, CopiesOneSlotFurtherMeetWhatIsRead) {
  // With two slots instead of three, copies overwrite elements that other threads still read.
  const Schedule schedule = pipelined(20, 3);
  Program program = schedule.program().value();
  program.phases[0].body = block(map_expressions(*program.phases[0].body, [](const Expr& expr) {
    return dsl::transform(expr, [](const Expr& e) -> std::optional<Expr> {
      const auto* b = e.as<dsl::Binary>();
      if (!b || b->op != dsl::BinaryOp::Mod || !dsl::is_int(b->b, 3)) return std::nullopt;
      return b->a % Expr(2);
    });
  }));
  EXPECT_TRUE(disagreement(schedule.compute(), program));
  EXPECT_FALSE(check_legal(program));
}

/// Returns the pipelines of all loops of the program that have one.
std::vector<LoopPipeline> pipelines_of(const Program& program) {
  std::vector<LoopPipeline> found;
  for_each(*program.phases[0].body, [&](const Stmt& stmt) {
    const Loop* loop = stmt.as<Loop>();
    if (loop && loop->pipeline) found.push_back(*loop->pipeline);
  });
  return found;
}

TEST(Pipeline, TheLoopSaysSo) {
  using Found = std::vector<LoopPipeline>;
  EXPECT_EQ(pipelines_of(product(20).program().value()), Found());
  EXPECT_EQ(pipelines_of(pipelined(20, 2).program().value()), (Found{{1, 2}}));
  EXPECT_EQ(pipelines_of(pipelined(20, 4).program().value()), (Found{{3, 4}}));
  EXPECT_EQ(pipelines_of(pipelined(6, 4).program().value()), (Found{{2, 2}}));  // two iterations
  EXPECT_EQ(pipelines_of(pipelined(3, 4).program().value()), Found());          // one iteration
  EXPECT_THAT(text_of(pipelined(20, 3)), HasSubstr("for k.0 in 0..7 pipeline 2 ahead, 3 slots\n"));
}

TEST(Pipeline, ItsBodyIsWhatTheLoopSays) {
  const Program program = pipelined(20, 3).program().value();
  const auto verdict = [&](const std::function<void(Loop&)>& change) -> std::string {
    bool is_pipeline = false;
    const auto with = [&](int n) {
      return changed<Loop>(program, n, [&](const Loop& loop) {
        is_pipeline = loop.pipeline.has_value();
        Loop other = loop;
        if (is_pipeline) change(other);
        return single({std::move(other)});
      });
    };
    int n = 0;
    auto result = with(n);
    while (!is_pipeline) result = with(++n);
    const Status status = check_legal(*result);
    return status ? "legal" : status.error().message.substr(0, status.error().message.find('\n'));
  };
  const std::string ahead =
      "[legality] an iteration of a pipeline that is {} ahead begins by `wait "
      "{}` and a barrier";
  EXPECT_EQ(verdict([](Loop&) {}), "legal");
  EXPECT_EQ(verdict([](Loop& l) { l.pipeline.reset(); }), "legal");
  EXPECT_EQ(verdict([](Loop& l) { l.pipeline->ahead = 1; }),
            fmt::format(fmt::runtime(ahead), 1, 0));
  EXPECT_EQ(verdict([](Loop& l) { l.pipeline->ahead = 3; }),
            fmt::format(fmt::runtime(ahead), 3, 2));
  EXPECT_EQ(verdict([](Loop& l) { l.pipeline->slots = 2; }),
            "[legality] a pipeline that is 2 ahead needs a slot more, not 2");
  EXPECT_EQ(verdict([](Loop& l) { l.begin = Expr(1); }),
            "[legality] a pipeline is a serial loop with literal bounds, from 0");
}

TEST(Pipeline, StandsOutsideOfThreadLoops) {
  Loop loop{"k", Expr(0), Expr(4), LoopKind::Serial, block({})};
  loop.pipeline = LoopPipeline{};
  const Block body = {{Loop{"t", Expr(0), Expr(4), LoopKind::Thread, block({{loop}})}}};
  const Status status = check_threads({"p", {}, block(body)}, {});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("a pipeline stands outside of thread loops"));
}

TEST(Pipeline, CopiesAreOrderedOutsideOfThreadLoops) {
  const Block body = {{Loop{"t", Expr(0), Expr(4), LoopKind::Thread, block({{Wait{0}}})}}};
  const Status status = check_threads({"p", {}, block(body)}, {});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              HasSubstr("copies are committed and waited for outside of thread loops"));
}

TEST(Pipeline, AsynchronousCopiesGoToSharedBuffers) {
  const Schedule schedule = pipelined(20, 2);
  const auto own = changed<Allocate>(schedule.program().value(), 1, [](const Allocate& a) {
    Buffer buffer = a.buffer;
    buffer.scope = Scope::Local;
    return single({Allocate{buffer, a.body}});
  });
  const Status status = check_legal(own.value());
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("what is asynchronous is a copy into a shared"));
}

/// Returns "legal", or the first line of the reason why the schedule is illegal. The error may come
/// from the last step or from lowering.
std::string why(const Schedule& schedule) {
  const auto program = schedule.program();
  return program ? "legal" : program.error().message.substr(0, program.error().message.find('\n'));
}

TEST(Pipeline, SaysWhyNot) {
  EXPECT_EQ(why(product(20).pipeline("c", 2)),
            "[pipeline] 'c' holds no operand: cache_operand makes stages that do");
  EXPECT_EQ(why(product(20).pipeline("a@c", 1)),
            "[pipeline] a pipeline is 2 to 7 iterations deep, not 1");
  EXPECT_EQ(why(product(20).pipeline("a@c", 8)),
            "[pipeline] a pipeline is 2 to 7 iterations deep, not 8");
  EXPECT_EQ(why(product(20).pipeline("a@c", 2).pipeline("a@c", 2)),
            "[pipeline] 'a@c' has a depth already");
  EXPECT_EQ(why(product(20).pipeline("a@c", 2).pipeline("b@c", 3)),
            "[pipeline] 'a@c' is 2 iterations deep and 'b@c' 3, at the same loop 'k.0'");
  EXPECT_EQ(why(product(20).pipeline("a@c", 2).unroll("c", "k.0")),
            "[pipeline] loop 'k.0' around 'a@c' is unrolled");
  const auto compute = dsl::parse_compute(R"(input a: f32[10, 8]
weight b: f32[8, 9]
c: f32[m=10, n=9] = sum(k=8) a[m, k] * b[k, n])");
  EXPECT_EQ(why(Schedule(*compute)
                    .split("c", "m", 5)
                    .cache_operand("c", 1, "m.0", {"m.1", "k"})
                    .pipeline("a@c", 2)),
            "[pipeline] 'a@c' is computed at loop 'm.0' of 'c', which does not reduce");
}

TEST(Pipeline, WhatAnIterationComputesCannotBeCopiedAhead) {
  const auto compute = dsl::parse_compute(R"(input a: f32[10, 8]
weight b: f32[8, 9]
t: f32[m=10, k=8] = a[m, k] * 2.0
c: f32[m=10, n=9] = sum(k=8) t[m, k] * b[k, n])");
  const Schedule schedule = Schedule(*compute)
                                .split("c", "k", 4)
                                .reorder("c", {"k.0", "m", "n", "k.1"})
                                .cache_operand("c", 1, "k.0", {"k.1", "m"})
                                .compute_at("t", "c", "k.0");
  EXPECT_EQ(why(schedule), "legal");
  EXPECT_EQ(why(schedule.pipeline("t@c", 2)),
            "[pipeline] 't@c' reads 't', which an iteration of loop 'k.0' computes only when it "
            "begins");
}

TEST(Pad, MakesOneLongerDimension) {
  const Schedule schedule = product(20).pad("a@c", "m.1", 4).pad("b@c", "k.1", 2);
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(to_string(*program), HasSubstr("a@c: shared f32[3, 12]"));
  EXPECT_THAT(to_string(*program), HasSubstr("b@c: shared f32[14]"));
  EXPECT_EQ(disagreement(schedule.compute(), *program), std::nullopt) << to_string(*program);
  const Schedule both = schedule.pipeline("a@c", 2).pipeline("b@c", 2);
  EXPECT_THAT(text_of(both), HasSubstr("a@c: shared f32[2, 3, 12]"));
  EXPECT_EQ(disagreement(both.compute(), both.program().value()), std::nullopt) << text_of(both);
}

TEST(Pad, SaysWhyNot) {
  EXPECT_EQ(why(product(20).pad("c", "k.1", 4)),
            "[pad] 'c' holds neither an operand nor results: cache_operand and cache_result "
            "make stages that do");
  EXPECT_EQ(why(product(20).pad("a@c", "n.1", 4)), "[pad] 'a@c' has no dimension for loop 'n.1'");
  EXPECT_EQ(why(product(20).pad("a@c", "k.1", 2000)),
            "[pad] the padding has 1 to 1024 elements, not 2000");
  EXPECT_EQ(why(product(20).pad("a@c", "k.1", 4).pad("a@c", "m.1", 4)),
            "[pad] 'a@c' is padded already");
}

/// Returns a product with operands of 256 and 512 bytes for one iteration of k.0.
Schedule even_product() {
  const auto compute = dsl::parse_compute(R"(input a: f32[8, 48]
weight b: f32[48, 16]
c: f32[m=8, n=16] = sum(k=48) a[m, k] * b[k, n])");
  return Schedule(*compute)
      .split("c", "k", 8)
      .reorder("c", {"k.0", "m", "n", "k.1"})
      .split("c", "m", 8)
      .reorder("c", {"m.0", "k.0", "m.1", "n", "k.1"})
      .cache_write("c", "m.0")
      .cache_operand("c", 1, "k.0", {"m.1", "k.1"})
      .cache_operand("c", 2, "k.0", {"n", "k.1"})
      .bind("c", "m.1")
      .bind("c", "n")
      .bind("a@c", "m.1")
      .bind("b@c", "n");
}

TEST(Swizzle, ChangesNoValues) {
  const Schedule schedule = even_product().swizzle("a@c", 32).swizzle("b@c", 64);
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(to_string(*program), HasSubstr("a@c: shared f32[8, 8] swizzled 32\n"));
  EXPECT_THAT(to_string(*program), HasSubstr("b@c: shared f32[16, 8] swizzled 64\n"));
  EXPECT_EQ(disagreement(schedule.compute(), *program), std::nullopt) << to_string(*program);
  const Schedule both = schedule.pipeline("a@c", 3).pipeline("b@c", 3);
  EXPECT_THAT(text_of(both), HasSubstr("b@c: shared f32[3, 16, 8] swizzled 64\n"));
  EXPECT_EQ(disagreement(both.compute(), both.program().value()), std::nullopt) << text_of(both);
  EXPECT_NE(hash(*program), hash(*even_product().swizzle("a@c", 32).program()));
}

TEST(Swizzle, TurnsWithin128Bytes) {
  Buffer buffer{"b", BFloat16, {8, 64}, Scope::Shared, 128};
  EXPECT_EQ(buffer.swizzle_period(), 1024);
  EXPECT_EQ(buffer.swizzled(128 * 3 + 16 * 5 + 6), 128 * 3 + 16 * (5 ^ 3) + 6);
  EXPECT_EQ(buffer.swizzled(128 * 11 + 16), 128 * 11 + 16 * (1 ^ 3));
  buffer.swizzle = 64;
  EXPECT_EQ(buffer.swizzled(128 * 6 + 16 * 5), 128 * 6 + 16 * (5 ^ 2));
  buffer.swizzle = 32;
  EXPECT_EQ(buffer.swizzled(128 * 7 + 16 * 4), 128 * 7 + 16 * 5);
  buffer.swizzle = 0;
  EXPECT_EQ(buffer.swizzled(128 * 7 + 16 * 4), 128 * 7 + 16 * 4);
}

TEST(Swizzle, SaysWhyNot) {
  EXPECT_EQ(why(even_product().swizzle("c", 64)),
            "[swizzle] 'c' holds neither an operand nor results: cache_operand and cache_result "
            "make stages that do");
  EXPECT_EQ(why(even_product().swizzle("a@c", 48)),
            "[swizzle] a swizzle is of 32, 64 or 128 bytes, not 48");
  EXPECT_EQ(why(even_product().swizzle("a@c", 64)),
            "[swizzle] 'a@c' has 256 bytes, which are no multiple of 512");
  EXPECT_EQ(why(even_product().swizzle("a@c", 32).swizzle("a@c", 32)),
            "[swizzle] 'a@c' is swizzled already");
  EXPECT_EQ(why(even_product().swizzle("a@c", 32).pad("a@c", "k.1", 4)),
            "[pad] 'a@c' is swizzled: one or the other");
  EXPECT_EQ(why(even_product().pad("a@c", "k.1", 4).swizzle("a@c", 32)),
            "[swizzle] 'a@c' is padded: one or the other");
  const Schedule alone(even_product().compute());
  EXPECT_EQ(why(alone.split("c", "k", 8)
                    .reorder("c", {"k.0", "m", "n", "k.1"})
                    .cache_operand("c", 2, "k.0", {"n", "k.1"})
                    .swizzle("b@c", 32)),
            "[swizzle] 'b@c' is local: only what threads share is swizzled");
}

}  // namespace
}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
// Tests of the step prepare, which computes stages when constants are loaded: which tensors such a
// stage may read, its program, and the results.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/space/space.h"
#include "tests/nightly.h"
#include "tests/schedules/property.h"
#include "tests/schedules/random_constants.h"

namespace tw::schedules {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* squared_weights = R"(
input a: f32[6, 8]
weight w: f32[10, 8]
weight bias: f32[10]
u: f32[c=8, k=10] = w[k, c] * w[k, c] + 1.0
t: f32[k=10] = sum(c=8) u[c, k]
p: f32[m=6, k=10] = sum(c=8) a[m, c] * u[c, k]
out: f32[m=6, k=10] = p[m, k] + t[k] * bias[k]
)";

dsl::Compute constants_compute(const std::string& text) {
  auto compute = dsl::parse_compute(text);
  EXPECT_TRUE(compute) << compute.error().message;
  return std::move(*compute);
}

/// Returns the program of a schedule, after checking that it computes what the compute means.
Program prepared_program(const std::string& text, const std::string& steps) {
  const dsl::Compute compute = constants_compute(text);
  const auto schedule = parse_schedule(compute, "tw1\n" + steps);
  EXPECT_TRUE(schedule) << schedule.error().message;
  const auto program = schedule->program();
  EXPECT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(compute, *program), std::nullopt) << to_string(*program);
  return *program;
}

std::string refusal_of(const std::string& text, const std::string& steps) {
  const auto schedule = parse_schedule(constants_compute(text), "tw1\n" + steps);
  if (!schedule) return schedule.error().message;
  const auto program = schedule->program();
  return program ? "" : program.error().message;
}

TEST(Prepare, AStageOfWeightsBecomesAProgramOfItsOwn) {
  const Program program = prepared_program(
      squared_weights, "prepare u\nset_layout u AB4b\nsplit u k 4\nreorder u k.0 c k.1");
  ASSERT_TRUE(program.preparation);
  EXPECT_EQ(to_string(*program.preparation),
            R"(kernel(w: f32[10, 8], out u: f32[8, 3, 4] @AB4b)
phase 0 u, tasks 1
  for u.k.0 in 0..3
    for u.c in 0..8
      for u.k.1 in 0..min(4, 10 - u.k.0 * 4)
        u[u.c, u.k.0, u.k.1] = w[u.k.0 * 4 + u.k.1, u.c] * w[u.k.0 * 4 + u.k.1, u.c] + 1.0
)");
  const Argument& u = program.arguments.back();
  EXPECT_EQ(u.buffer.name, "u");
  EXPECT_TRUE(u.prepared && u.constant && !u.is_output);
  EXPECT_TRUE(program.arguments[1].only_prepares);
  EXPECT_FALSE(program.arguments[2].only_prepares);
  for (const Phase& phase : program.phases) EXPECT_NE(phase.name, "u");
}

TEST(Prepare, WhatOnlyPreparedStagesReadIsScratchOfThePreparation) {
  const Program program = prepared_program(R"(
input a: f32[4]
weight w: f32[4]
s: f32[i=4] = w[i] + 1.0
u: f32[i=4] = s[i] * s[i]
out: f32[i=4] = a[i] * u[i]
)",
                                           "prepare s\nprepare u");
  ASSERT_TRUE(program.preparation);
  ASSERT_EQ(program.preparation->scratch.size(), 1u);
  EXPECT_EQ(program.preparation->scratch[0].name, "s");
  EXPECT_TRUE(program.scratch.empty());
  EXPECT_EQ(program.arguments.size(), 4u);
}

TEST(Prepare, OneConstantHasSeveralFormsAndOneFormReadsSeveralConstants) {
  const Program program = prepared_program(squared_weights, "prepare u\nprepare t\nparallel t k");
  ASSERT_TRUE(program.preparation);
  EXPECT_EQ(program.preparation->phases.size(), 2u);
  EXPECT_EQ(program.arguments.size(), 3 + 1 + 2u);
  const Program both = prepared_program(R"(
input a: f32[4, 3]
weight w: f32[4, 3]
weight s: f32[3]
u: f32[i=4, j=3] = w[i, j] * s[j]
out: f32[i=4, j=3] = a[i, j] + u[i, j] * s[j]
)",
                                        "prepare u\nparallel u i\nvectorize u j");
  EXPECT_EQ(both.preparation->arguments.size(), 3u);
  EXPECT_TRUE(both.arguments[1].only_prepares);
  EXPECT_FALSE(both.arguments[2].only_prepares);
}

TEST(Prepare, AReaderThatIsPlacedInsideIsPreparedWithIt) {
  const Program program = prepared_program(R"(
input a: f32[4]
weight w: f32[4, 5]
s: f32[i=4, j=5] = w[i, j] + 1.0
u: f32[i=4] = sum(j=5) s[i, j]
out: f32[i=4] = a[i] * u[i]
)",
                                           "compute_at s u i\nprepare u");
  ASSERT_TRUE(program.preparation);
  EXPECT_THAT(to_string(*program.preparation), HasSubstr("s: local f32[1, 5]"));
}

TEST(Prepare, PreparedBuffersArePrefetched) {
  const Program program =
      prepared_program(R"(
input a: f32[6, 8]
weight b: f32[8, 48]
u: f32[k=8, n=48] = b[k, n] * 2.0
c: f32[m=6, n=48] = sum(k=8) a[m, k] * u[k, n]
)",
                       "prepare u\nset_layout u BA16b\nsplit c n 16\nsplit c m 3\n"
                       "reorder c n.0 m.0 k m.1 n.1\ncache_write c m.0\n"
                       "prefetch c u n.0 k");
  EXPECT_THAT(to_string(program), HasSubstr("prefetch u, 1 line"));
}

TEST(Prepare, MisuseIsOneClearError) {
  EXPECT_THAT(refusal_of(squared_weights, "prepare p"),
              HasSubstr("[prepare] 'p' cannot be computed ahead of the calls: it reads the input "
                        "'a', which is not constant: declare it as a weight"));
  EXPECT_THAT(refusal_of(squared_weights, "prepare t"),
              HasSubstr("it reads 'u', which each call computes: prepare or inline that first"));
  EXPECT_THAT(refusal_of(squared_weights, "prepare out"),
              HasSubstr("it computes 'out', which is an output"));
  EXPECT_THAT(refusal_of(squared_weights, "prepare x"),
              HasSubstr("[prepare] there is no stage 'x'"));
  EXPECT_THAT(refusal_of(squared_weights, "prepare u\nprepare u"),
              HasSubstr("'u' is prepared already"));
  EXPECT_THAT(refusal_of(squared_weights, "compute_at t out k\nprepare t"),
              HasSubstr("it is computed inside 'out', in each call"));
}

TEST(Prepare, StepsBehindItMayNotTakeThePromiseBack) {
  EXPECT_THAT(refusal_of(squared_weights, "prepare u\nprepare t\ncompute_at t out k"),
              HasSubstr("[prepare] 't' cannot be computed ahead of the calls: it is computed "
                        "inside 'out', in each call"));
  const std::string chain = R"(
input a: f32[4]
weight w: f32[4, 3]
t: f32[i=4] = sum(j=3) w[i, j]
out: f32[i=4] = t[i] + a[i]
)";
  EXPECT_THAT(refusal_of(chain, "prepare t\nepilogue out t"),
              HasSubstr("it computes 'out', which is an output"));
}

TEST(Prepare, TheInterpreterLeavesWhatItPrepared) {
  const Program program = prepared_program(squared_weights, "prepare u");
  Storage storage;
  for (const Argument& argument : program.arguments)
    if (!argument.is_output && !argument.prepared)
      storage[argument.buffer.name].resize(static_cast<size_t>(argument.buffer.bytes()));
  ASSERT_TRUE(evaluate(program, storage));
  EXPECT_EQ(load_float(Float32, storage.at("u").data(), 79), 1.0);
}

TEST(Prepare, ProgramsThatDifferInTheirPreparationHashDifferently) {
  EXPECT_NE(hash(prepared_program(squared_weights, "prepare u")),
            hash(prepared_program(squared_weights, "prepare u\nparallel u c")));
}

TEST(Prepare, SpacesPrepareTheStagesOfConstantsThatRemain) {
  const dsl::Compute compute = constants_compute(R"(
input a: f32[24, 32]
weight w: f32[48, 32]
t: f32[k=48] = sum(c=32) w[k, c] * w[k, c]
p: f32[m=24, k=48] = sum(c=32) a[m, c] * w[k, c]
out: f32[m=24, k=48] = p[m, k] / (t[k] + 1.0)
)");
  for (const char* target : {"x86-64-v3", "opencl", "cuda:sm_90a"}) {
    const Space space = Space::derive(compute, *parse_target(target));
    Random random(1);
    for (int i = 0; i < 5; ++i) {
      const Schedule schedule = space.schedule(space.sample(random));
      EXPECT_THAT(schedule.to_string(), HasSubstr("\nprepare t\nparallel t k")) << target;
      const auto program = schedule.program(limits_of(*parse_target(target)));
      if (!program) continue;
      EXPECT_EQ(disagreement(compute, *program, 1, 1e-5), std::nullopt) << schedule.to_string();
    }
    EXPECT_THAT(space.to_string(space.default_point()), Not(HasSubstr("t:"))) << target;
  }
}

// Returns a product of `rows` rows by weights of 4 bits. A stage u unpacks the weights.
std::string few_bits(int rows) {
  return fmt::format(R"(
input a: f32[{0}, 32]
weight w: u8[16, 24]
weight scale: f32[24]
u: f32[i=16, d=2, n=24] = (f32(i32(w[i, n]) >> i32(d) * 4i32 & 15i32) - 8.0) * scale[n]
p: f32[m={0}, n=24] = sum(i=16, d=2) a[m, i * 2 + d] * u[i, d, n]
)",
                     rows);
}

TEST(Prepare, ConstantsThatManyRowsShareAreUnpackedInEachCall) {
  const dsl::Compute compute = constants_compute(few_bits(16));
  const Space space = Space::derive(compute, *parse_target("x86-64-v3"));
  Random random(1);
  int within = 0, apart = 0;
  for (int i = 0; i < 40; ++i) {
    const Schedule schedule = space.schedule(space.sample(random));
    const std::string text = schedule.to_string();
    EXPECT_THAT(text, Not(AnyOf(HasSubstr("prepare u"), HasSubstr("inline u"))));
    const auto program = schedule.program();
    if (!program) continue;
    (text.find("compute_at u p") == std::string::npos ? apart : within) += 1;
    EXPECT_EQ(disagreement(compute, *program, 1, 1e-5), std::nullopt) << text;
  }
  EXPECT_GE(within, 5);
  EXPECT_GE(apart, 5);
}

TEST(Prepare, ConstantsThatFewRowsShareAreUnpackedWhereTheyAreRead) {
  const auto first_pick = [](int rows, const char* target) {
    const Space space = Space::derive(constants_compute(few_bits(rows)), *parse_target(target));
    return space.schedule(space.default_point()).to_string();
  };
  EXPECT_THAT(first_pick(15, "x86-64-v3"), HasSubstr("inline u"));
  EXPECT_THAT(first_pick(64, "cuda:sm_90a"), HasSubstr("inline u"));
}

// A gather reads 16 of 500 rows; a separate stage would unpack all of them.
TEST(Prepare, ATableThatDataSelectFromIsUnpackedWhereItIsRead) {
  const Space space = Space::derive(constants_compute(R"(
input index: i64[16]
weight w: u8[500, 24]
weight scale: f32[24]
t: f32[v=500, c=24] = (f32(i32(w[v, c])) - 8.0) * scale[c]
out: f32[i=16, c=24] = sum(v=500) select(index[i] == v, t[v, c], 0)
)"),
                                    *parse_target("x86-64-v3"));
  EXPECT_THAT(space.schedule(space.default_point()).to_string(), HasSubstr("inline t"));
}

// The algorithm transforms the weights when they are loaded, so that they are unpacked then, too.
TEST(Prepare, WeightsThatAnAlgorithmTransformsAreUnpackedAhead) {
  const dsl::Compute compute = constants_compute(R"(
input in: f32[32, 18, 18]
weight w: u8[32, 32, 3, 3]
weight scale: f32[32]
u: f32[k=32, c=32, r=3, s=3] = (f32(i32(w[k, c, r, s])) - 8.0) * scale[k]
out: f32[k=32, y=16, x=16] = sum(c=32, r=3, s=3) in[c, y + r, x + s] * u[k, c, r, s]
)");
  const Space space =
      Space::derive({.compute = compute, .algorithms = true}, *parse_target("x86-64-v3")).value();
  Random random(1);
  int transformed = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string text = space.schedule(space.sample(random)).to_string();
    if (text.find("winograd") == std::string::npos) continue;
    ++transformed;
    EXPECT_THAT(text, HasSubstr("\nprepare ")) << text;
  }
  EXPECT_GE(transformed, 5);
}

void expect_random_agreement(uint64_t first_seed, int64_t cases) {
  Tally tally;
  for (int64_t i = 0; i < cases && !testing::Test::HasFailure(); ++i) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    Random random(seed);
    const dsl::Compute compute = random_constants(random);
    const Schedule schedule = random_schedule(random, compute, tally);
    ++tally.cases;
    if (!failure(schedule, 0)) continue;
    ADD_FAILURE() << "seed " << seed << "\n" << report(shrink(schedule, 0), 0);
  }
  EXPECT_GE(tally.kinds["prepare"] * 2, tally.cases);
}

TEST(Prepare, RandomSchedulesOfConstantStagesAgree) { expect_random_agreement(1, 300); }

TEST(Prepare, ManyRandomSchedulesOfConstantStagesAgree) {
  TW_ONLY_NIGHTLY();
  expect_random_agreement(10'000, 3000);
}

}  // namespace
}  // namespace tw::schedules

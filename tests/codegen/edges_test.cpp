// SPDX-License-Identifier: Apache-2.0
// Computes at the edges of what may be declared: windows that see padding alone, loops that end
// where the data says, NaN among what is compared. Points of their spaces and random schedules of
// them compute what they mean, as object code, as C under sanitizers and as threads of a GPU.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "dsl/interpret.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/space/space.h"
#include "tests/codegen/gpu_runs.h"
#include "tests/codegen/runs.h"
#include "tests/schedules/property.h"

namespace tw::codegen {
namespace {

using schedules::Schedule;

std::vector<dsl::Compute> padded_convolutions() {
  std::vector<dsl::Compute> all;
  for (const char* key : {"conv2d n=1 c=3 h=5 w=6 k=17 r=3 s=3 pad=4 f32 fast",
                          "conv2d n=1 c=2 h=3 w=9 k=5 r=1 s=1 pad=2 stride=2 f32 fast",
                          "conv2d n=1 c=4 h=4 w=4 k=4 r=3 s=3 pad=6 groups=4 relu=1 f32 fast",
                          "conv2d n=1 c=2 h=4 w=5 k=3 r=2 s=3 pad_top=7 pad_left=5 f32 fast"})
    all.push_back(dsl::parse_workload(key).value().compute);
  return all;
}

std::vector<dsl::Compute> one_hot_gathers() {
  std::vector<dsl::Compute> all;
  for (const char* text :
       {"input table: f32[19, 17]; input ids: i64[11]; out: f32[i=11, j=17] = "
        "sum(v=19) select(ids[i] == v, table[v, j], 0.0)",
        "input table: f32[19, 17]; input ids: i32[11]; out: f32[i=11, j=17] = "
        "sum(v=19) select(i64(ids[i]) == v, table[v, j], 0.0)",
        "input a: f32[7, 23]; input ids: i32[7]; out: f32[i=7] = "
        "sum(j=23) select(j < i64(ids[i]), a[i, j], 0.0)",
        "input ids: i8[50]; out: i32[v=9] = sum(i=50) select(i64(ids[i]) == v, 1i32, 0i32)"})
    all.push_back(dsl::parse_compute(text).value());
  return all;
}

std::vector<dsl::Compute> argmaxes() {
  std::vector<dsl::Compute> all;
  for (const char* key : {"argmax rows=5 cols=19 f32 fast", "argmax rows=17 cols=6 bf16 fast",
                          "argmin rows=9 cols=12 f32 fast"})
    all.push_back(dsl::parse_workload(key).value().compute);
  return all;
}

/// Small whole numbers; among indices also what lies outside of every extent, and NaN among what an
/// argmax compares.
dsl::Arrays inputs_of(const dsl::Compute& compute, Random& random) {
  dsl::Arrays arrays;
  for (const dsl::Input& input : compute.inputs) {
    dsl::Array array = dsl::Array::make(input.type, input.shape).value();
    dsl::fill_integers(array, random);
    if (compute.find_stage("out_peak"))
      for (int64_t i = 0; i < array.size(); ++i)
        if (random.chance(0.1)) array.set_float(i, std::numeric_limits<double>::quiet_NaN());
    if (input.name == "ids") {
      // 64-bit indices cover the range that docs/expressions.md promises.
      const int bits = std::min(8 * size_bytes(input.type), 63);
      const int64_t largest = std::numeric_limits<int64_t>::max() >> (64 - bits);
      const std::vector<int64_t> outside = {-1, 19, largest - 1, -largest};
      for (int64_t i = 0; i < array.size(); ++i)
        array.set_int(i, random.chance(0.3) ? random.pick(outside) : random.below(19));
    }
    arrays.emplace(input.name, std::move(array));
  }
  return arrays;
}

struct Case {
  Storage inputs;
  dsl::Arrays expected;
};

Case make_case(const dsl::Compute& compute, const Program& program, Random& random) {
  const dsl::Arrays arrays = inputs_of(compute, random);
  Case made{{}, dsl::interpret(compute, arrays).value()};
  for (const auto& argument : program.arguments)
    if (!argument.is_output)
      made.inputs[argument.buffer.name] =
          schedules::packed(argument, arrays.at(argument.buffer.name));
  return made;
}

/// The first element that is not what the compute means, or "".
std::string wrong_element(const Program& program, const dsl::Arrays& expected,
                          const Storage& actual) {
  std::string wrong;
  for (const auto& argument : program.arguments) {
    if (!argument.is_output) continue;
    const DType type = argument.buffer.type;
    const dsl::Array& wanted = expected.at(argument.buffer.name);
    const void* bytes = actual.at(argument.buffer.name).data();
    schedules::for_each_index(
        argument.shape, [&](const std::vector<int64_t>& indices, int64_t position) {
          const int64_t offset = argument.layout.offset(argument.shape, indices);
          const double got = is_float(type) ? load_float(type, bytes, offset)
                                            : static_cast<double>(load_int(type, bytes, offset));
          const double want = is_float(type) ? wanted.get_float(position)
                                             : static_cast<double>(wanted.get_int(position));
          if (got != want && wrong.empty())
            wrong = fmt::format("{}[{}] is {}, expected {}", argument.buffer.name,
                                fmt::join(indices, ", "), got, want);
        });
  }
  return wrong;
}

void expect_processors_agree(const dsl::Compute& compute) {
  SCOPED_TRACE(dsl::to_text(compute));
  const auto space = schedules::Space::derive(compute, host_target());
  Random random(11);
  schedules::Tally tally;
  int cases = 0;
  for (int round = 0; round < 14 && !testing::Test::HasFailure(); ++round) {
    const Schedule schedule = round == 0       ? space.schedule(space.default_point())
                              : round % 2 == 0 ? space.schedule(space.sample(random))
                                               : schedules::random_schedule(random, compute, tally);
    const auto program = schedule.program();
    if (!program) continue;
    SCOPED_TRACE(schedule.to_string() + "\n" + to_string(*program));
    const Case made = make_case(compute, *program, random);
    const auto object = run_object(*program, made.inputs);
    ASSERT_TRUE(object) << object.error().message;
    EXPECT_EQ(wrong_element(*program, made.expected, *object), "") << "object";
    ++cases;
    if (round > 0) continue;
    const auto c = run_c(*program, made.inputs);
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(wrong_element(*program, made.expected, *c), "") << "C";
  }
  if (testing::Test::HasFailure()) return;
  EXPECT_GE(cases, 7);
}

void expect_threads_agree(const std::vector<dsl::Compute>& computes) {
  const Target target = *parse_target("cuda:sm_80");
  Random random(12);
  std::vector<GpuCase> cases;
  for (const dsl::Compute& compute : computes) {
    const auto space = schedules::Space::derive(compute, target);
    for (int round = 0; round < 4; ++round) {
      const auto schedule =
          space.schedule(round == 0 ? space.default_point() : space.sample(random));
      const auto program = schedule.program(schedules::limits_of(target));
      if (!program) continue;
      const Case made = make_case(compute, *program, random);
      cases.push_back(
          gpu_case(dsl::to_text(compute) + schedule.to_string(), *program, made.inputs));
      EXPECT_EQ(wrong_element(*program, made.expected, cases.back().expected), "");
    }
  }
  ASSERT_GE(cases.size(), 2 * computes.size());
  expect_emulation_agrees(cases);
}

TEST(Edges, WindowsOfPaddingAlone) {
  for (const dsl::Compute& compute : padded_convolutions()) expect_processors_agree(compute);
}
TEST(Edges, WindowsOfPaddingAloneOnThreads) { expect_threads_agree(padded_convolutions()); }

void expect_objects_agree(const std::string& declaration, const std::string& steps) {
  const dsl::Compute compute = dsl::parse_compute(declaration).value();
  Random random(13);
  const auto schedule = schedules::parse_schedule(compute, steps);
  ASSERT_TRUE(schedule) << schedule.error().message;
  const Program program = schedule->program().value();
  const Case made = make_case(compute, program, random);
  for (const Target& target : runnable_targets()) {
    const auto object = run_object(program, made.inputs, target);
    ASSERT_TRUE(object) << object.error().message;
    EXPECT_EQ(wrong_element(program, made.expected, *object), "") << target.to_string();
  }
}

TEST(Edges, MasksOfOneLaneMoreThanAVector) {
  for (const int lanes : {5, 9})  // SSE4.1 has vectors of 4 lanes, AVX2 8
    expect_objects_agree("input a: i32[13]; out: i32[i=13] = a[i] * 2i32",
                         fmt::format("tw1; split out i 4; fuse out i.0 i.1; split out i.0*i.1 {}; "
                                     "vectorize out i.0*i.1.1",
                                     lanes));
}

/// The lanes that the condition excludes would read before the begin of the buffer. The others are
/// not contiguous, but so close together that they are loaded at once and shuffled.
TEST(Edges, ShufflesOfLanesThatAConditionExcludes) {
  expect_objects_agree(
      "input a: i32[8]; out: i32[i=8] = select(0 <= i - 3 && i - 3 < 8, a[i - 3], 0i32)",
      "tw1; set_layout a A4a; split out i 3; split out i.0 2; bind out i.0.0; fuse out i.0.1 i.1; "
      "vectorize out i.0.1*i.1; reorder out i.0.0");
}

TEST(Edges, ShufflesOfSeveralTensorsInOneVector) {
  expect_objects_agree(
      "input x: f32[8, 4]; input y: f32[8, 4]; "
      "out: f32[a=8, b=12] = select(b < 4, x[a, b], select(b < 8, y[a, b - 4], 0.0))",
      "tw1; vectorize out b");
}

/// LLVM takes the literal from the store to the local buffer to the sum that reads the buffer.
TEST(Edges, SumsOfStoredInfiniteLiterals) {
  expect_objects_agree(
      "input a: f32[5, 7]; mask: f32[i=5, k=7] = select(k <= i, 0.0, -inf); "
      "out: f32[i=5, k=7] = a[i, k] + mask[i, k]",
      "tw1; compute_at mask out k");
  expect_objects_agree(
      "input a: f32[3, 1]; r: f32[i=3] = max(j=1) select(i < j, a[i, j], -inf); "
      "out: f32[i=3] = r[i] + a[i, 0]",
      "tw1; compute_at r out i");
  expect_objects_agree(
      "input a: f32[3, 1]; r: f32[i=3] = min(j=1) select(0 <= i - j + 2 && i - j + 2 < 1, a[i, j], "
      "inf); out: f32[i=3] = r[i] + a[i, 0]",
      "tw1; compute_at r out i; cache_operand r 1 i j");
  // r[0] has no terms.
  expect_objects_agree(
      "input a: f32[4, 2]; r: f32[i=4] = max(j=2) select(j < i, a[i, j], -inf); "
      "out: f32[i=4] = r[i] + a[i, 0]",
      "tw1; compute_at r out i; unroll out i");
}

TEST(Edges, SumsOfAMaximumThatMayHaveNoTerms) {
  expect_objects_agree(
      "input a: f32[4, 2]; p: f32[i=4, j=2] = a[i, j] * 2.0; "
      "r: f32[i=4] = max(j=2) select(j < i, p[i, j], -inf); out: f32[i=4] = r[i] + a[i, 0]",
      "tw1; compute_at r out i; compute_at p r j; unroll out i");
}

/// LLVM computes with the literals before it sees the sum.
TEST(Edges, SumsOfInfiniteResultsOfLiterals) {
  for (const char* mask : {"select(k <= i, 0.0, -inf) * 2.0", "select(k <= i, 0.0, -inf) / 8.0",
                           "min(select(k <= i, 0.0, -inf), select(i <= k + 4, 0.0, -inf))",
                           "(1.0 - select(k <= i, 1.0, inf))", "abs(select(k <= i, 0.0, -inf))",
                           "select(k <= i, 0.0, f32(-1e300f64))"}) {
    SCOPED_TRACE(mask);
    expect_objects_agree(fmt::format("input a: f32[7, 9]; out: f32[i=7, k=9] = a[i, k] + {}", mask),
                         "tw1");
    expect_objects_agree(fmt::format("input a: f32[7, 9]; mask: f32[i=7, k=9] = {}; "
                                     "out: f32[i=7, k=9] = a[i, k] + mask[i, k]",
                                     mask),
                         "tw1; compute_at mask out k");
  }
}

/// LLVM takes computed floats to be finite, so it would replace the comparisons by false.
TEST(Edges, ComparisonsOfComputedFloatsWithInfinity) {
  for (const char* infinity : {"f32(inff16)", "abs(inf)", "select(k <= i, inf, 1.0)"})
    expect_objects_agree(fmt::format("input a: f32[7, 9]; out: f32[i=7, k=9] = "
                                     "select(exp(a[i, k] * 10000.0) + 1.0 == {}, 1.0, 2.0)",
                                     infinity),
                         "tw1");
}

/// The read of `a` is the same for all k, and outside of `a` where the condition fails for all k.
std::vector<dsl::Compute> reads_under_conditions_of_lanes() {
  std::vector<dsl::Compute> all;
  for (const char* text :
       {"input a: f32[12]; input b: f32[17]; out: f32[i=13, k=17] = "
        "select(k < i, a[i - 1] * b[k], 0.0)",
        "input a: f32[16]; input b: f32[17]; out: f32[i=9, k=17] = "
        "select(k <= 15 - i * 3000, a[15 - i * 3000] * b[k], 0.0)",
        "input a: f32[19]; input b: i32[17]; input ids: i64[9]; out: f32[i=9, k=17] = "
        "select(0 <= i64(b[k]) && i64(b[k]) <= ids[i] && ids[i] < 19, a[ids[i]], 0.0)"})
    all.push_back(dsl::parse_compute(text).value());
  return all;
}

TEST(Edges, ReadsUnderConditionsOfLanes) {
  for (const dsl::Compute& compute : reads_under_conditions_of_lanes())
    expect_processors_agree(compute);
}
TEST(Edges, ReadsUnderConditionsOfLanesOnThreads) {
  expect_threads_agree(reads_under_conditions_of_lanes());
}

// The results of such kernels are not specified (docs/expressions.md), but they read no other
// memory.
TEST(Edges, ReadsStayInsideWhereSumsWrap) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  constexpr int64_t largest = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> elements = {least, least + 1,    -1,          5,
                                         90,    largest - 20, largest - 3, largest};
  struct Scheduled {
    const char *compute, *steps;
  };
  for (const auto& [text, steps] :
       {Scheduled{"input x: i64[8]; input t: u8[100]; out: f32[i=8] = "
                  "select(0 <= -x[i], f32(t[min((-x[i]) / 3, 99)]), 0.0)",
                  "tw1; vectorize out i"},
        Scheduled{"input x: i64[8]; input t: u8[100]; out: f32[i=8] = "
                  "select(0 <= abs(x[i]), f32(t[min(abs(x[i]) / 3, 99)]), 0.0)",
                  "tw1; vectorize out i"},
        Scheduled{"input x: i64[8]; input t: u8[100]; input u: f32[4]; out: f32[i=8, j=16] = "
                  "sum(k=4) select(0 <= x[i] + j, f32(t[min(x[i] + j, 99)]) * u[k], 0.0)",
                  "tw1; reorder out i k j; vectorize out j"}}) {
    SCOPED_TRACE(text);
    const dsl::Compute compute = dsl::parse_compute(text).value();
    const auto schedule = schedules::parse_schedule(compute, steps);
    ASSERT_TRUE(schedule) << schedule.error().message;
    const Program program = schedule->program().value();
    Storage inputs = integer_inputs(program, 14);
    for (size_t i = 0; i < elements.size(); ++i)
      std::memcpy(inputs.at("x").data() + 8 * i, &elements[i], 8);
    for (const Target& target : runnable_targets()) {
      const auto object = run_object(program, inputs, target);
      EXPECT_TRUE(object) << object.error().message << target.to_string();
    }
  }
}

TEST(Edges, ArgmaxOfNaN) {
  for (const dsl::Compute& compute : argmaxes()) expect_processors_agree(compute);
}
TEST(Edges, ArgmaxOfNaNOnThreads) { expect_threads_agree(argmaxes()); }

TEST(Edges, LoopsThatEndWhereTheDataSays) {
  for (const dsl::Compute& compute : one_hot_gathers()) expect_processors_agree(compute);
}
TEST(Edges, LoopsThatEndWhereTheDataSaysOnThreads) { expect_threads_agree(one_hot_gathers()); }

}  // namespace
}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/dot_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "dsl/parse.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"
#include "tests/isa_targets.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string byte_product =
    "input a: u8[6, 16]; weight b: i8[16, 24]; "
    "c: i32[m=6, n=24] = sum(k=16) i32(a[m, k]) * i32(b[k, n])";
const std::string steps =
    "tw1\nset_layout b BA8b4a\nsplit c n 8\nsplit c k 4\nreorder c m n.0 k.0 n.1 k.1\n"
    "cache_write c n.0\nvectorize c n.1\nvectorize c k.1\n";

std::string error_of(const std::string& compute, const std::string& text) {
  const auto schedule = parse_schedule(dsl::parse_compute(compute).value(), text);
  if (!schedule) return schedule.error().message;
  const auto program = schedule->program();
  return program ? "" : program.error().message;
}

/// Returns the name of the dot-product instruction for elements of the types `shared` and `own`, or
/// "". If `digit` is given, the second factor is a digit of an element.
std::string instruction(const std::string& target, DType shared, DType own, int64_t depth,
                        std::optional<Digit> digit = {}, DType accumulator = Int32) {
  const dsl::Read a{"a", {}, shared, {}}, b{"b", {}, own, {}};
  const DotInstruction* found = find_dot_instruction(
      parse_target(target).value(), {&a, &b, std::move(digit)}, accumulator, depth);
  return found ? std::string(found->name) : "";
}

TEST(DotInstructions, DependOnTypesAndTargets) {
  EXPECT_EQ(instruction("x86-64-v3", UInt8, Int8, 2), "vpmaddwd");
  EXPECT_EQ(instruction("x86-64-v3", Int16, UInt8, 2), "vpmaddwd");
  EXPECT_EQ(instruction("x86-64-v3", UInt16, Int8, 2), "");
  EXPECT_EQ(instruction("x86-64-v3", UInt8, Int8, 4), "");
  const std::string zen4 = target_text_of_isa("avx512_bf16");
  EXPECT_EQ(instruction(zen4, UInt8, Int8, 4), "vpdpbusd");
  EXPECT_EQ(instruction(zen4, Int8, UInt8, 4), "vpdpbusd");
  EXPECT_EQ(instruction(zen4, Int8, Int8, 4), "");
  EXPECT_EQ(instruction(zen4, Int8, Int8, 2), "vpdpwssd");
  EXPECT_EQ(instruction("arm-64-linux-asimddp", Int8, Int8, 4), "sdot");
  EXPECT_EQ(instruction("arm-64-linux-asimddp", UInt8, UInt8, 4), "udot");
  EXPECT_EQ(instruction("arm-64-linux-asimddp", UInt8, Int8, 4), "");
  EXPECT_EQ(instruction("arm-64-linux", Int8, Int8, 4), "");
  EXPECT_EQ(instruction("x86-64-v3", Float32, Float32, 2), "");
}

TEST(DotInstructions, MultiplyFloatsOf16BitsOfOneType) {
  const std::string zen4 = target_text_of_isa("avx512_bf16");
  EXPECT_EQ(instruction(zen4, BFloat16, BFloat16, 2, {}, Float32), "vdpbf16ps");
  EXPECT_EQ(instruction(zen4, BFloat16, BFloat16, 4, {}, Float32), "");
  EXPECT_EQ(instruction(zen4, BFloat16, BFloat16, 2, {}, Float64), "");
  EXPECT_EQ(instruction(zen4, BFloat16, Float16, 2, {}, Float32), "");
  EXPECT_EQ(instruction(zen4, Int8, BFloat16, 2, {}, Float32), "");
  EXPECT_EQ(instruction(zen4, Int8, Int8, 2, {}, Float32), "");
  EXPECT_EQ(instruction("x86-64-v4", BFloat16, BFloat16, 2, {}, Float32), "");
}

/// Returns a target with Zen 4's instruction set, on a core with the given rates of dot products of
/// bytes, words and bf16, relative to the rate of multiply-adds.
Target with_rates(double bytes, double words, double bf16) {
  Target target = parse_target(target_text_of_isa("avx512_bf16")).value();
  Core& core = target.machine.core;
  core.byte_dots_per_cycle = bytes * core.fma_per_cycle;
  core.word_dots_per_cycle = words * core.fma_per_cycle;
  core.bf16_dots_per_cycle = bf16 * core.fma_per_cycle;
  return target;
}

TEST(DotInstructions, AreListedOnce) {
  std::vector<std::string_view> names;
  for (const DotInstruction* row : dot_instructions(with_rates(1, 1, 1)))
    names.push_back(row->name);
  EXPECT_THAT(names, ElementsAre("vpdpbusd", "vpdpwssd", "vdpbf16ps", "vpmaddubsw", "vpmaddwd"));
  EXPECT_THAT(dot_instructions(parse_target("arm-64-linux").value()), IsEmpty());
}

TEST(DotInstructions, AreAsFastAsTheCoreStartsThem) {
  const dsl::Compute bytes = dsl::parse_compute(byte_product).value();
  EXPECT_EQ(dot_speed(with_rates(1, 1, 1), bytes), 4);
  EXPECT_EQ(dot_speed(with_rates(0.25, 1, 1), bytes), 2) << "vpdpwssd is faster";
  EXPECT_EQ(dot_speed(with_rates(0.25, 0.25, 1), bytes), 1);
  EXPECT_TRUE(multiplies(with_rates(1, 1, 1), BFloat16));
  EXPECT_FALSE(multiplies(with_rates(1, 1, 0.25), BFloat16)) << "f32 is faster";
  EXPECT_TRUE(multiplies(with_rates(1, 1, 0.25), UInt8));
  EXPECT_FALSE(multiplies(with_rates(0.25, 1, 1), UInt8));
}

TEST(DotInstructions, MultiplySomeTypesAsTheyAre) {
  const std::string zen4 = target_text_of_isa("avx512_bf16");
  const auto multiplied = [](const std::string& target) {
    std::vector<DType> types;
    for (const DType type : {UInt8, Int8, Float16, BFloat16})
      if (multiplies(parse_target(target).value(), type)) types.push_back(type);
    return types;
  };
  EXPECT_THAT(multiplied(zen4), ElementsAre(UInt8, BFloat16));
  EXPECT_THAT(multiplied("arm-64-linux-asimddp"), ElementsAre(Int8));
  EXPECT_THAT(multiplied("x86-64-v3"), IsEmpty());
  EXPECT_THAT(multiplied("cuda:sm_80"), ElementsAre(Int8, Float16, BFloat16));
}

TEST(DotInstructions, SumPairsOfDigitsIn16Bits) {
  EXPECT_EQ(instruction("x86-64-v3", Int8, UInt8, 4, Digit{0, 127}), "vpmaddubsw");
  EXPECT_EQ(instruction("x86-64-v3", Int8, UInt8, 4, Digit{0, 128}), "");
  EXPECT_EQ(instruction("x86-64-v3", UInt8, UInt8, 4, Digit{0, 15}), "");
  EXPECT_EQ(instruction("x86-64-v3", Int16, UInt8, 2, Digit{4, 15}), "vpmaddwd");
  const std::string zen4 = target_text_of_isa("avx512_bf16");
  EXPECT_EQ(instruction(zen4, Int8, UInt8, 4, Digit{4, 15}), "vpdpbusd");
  EXPECT_EQ(instruction("arm-64-linux-asimddp", Int8, UInt8, 4, Digit{4, 15}), "sdot");
}

TEST(DotProducts, HaveDigitsAsSecondFactors) {
  const auto digit_of = [](const std::string& weight) -> std::optional<Digit> {
    const auto compute = dsl::parse_compute(
        "input a: i8[6, 2, 16]; weight b: u8[16, 24]; c: i32[m=6, n=24] = "
        "sum(d=2, k=16) i32(a[m, d, k]) * " +
        weight);
    EXPECT_TRUE(compute) << compute.error().message;
    const auto factors = dot_factors(compute->stages[0].body, "n", "k");
    return factors ? factors->digit : std::nullopt;
  };
  const auto expect = [&](const std::string& weight, const std::string& shift, int64_t mask) {
    const auto digit = digit_of(weight);
    ASSERT_TRUE(digit) << weight;
    EXPECT_EQ(dsl::to_string(digit->shift), shift) << weight;
    EXPECT_EQ(digit->mask, mask) << weight;
  };
  expect("(i32(b[k, n]) & 15i32)", "0", 15);
  expect("((i32(b[k, n]) >> 4i32) & 15i32)", "4i32", 15);
  expect("i32((b[k, n] >> 4u8) & 15u8)", "4u8", 15);
  expect("((i32(b[k, n]) >> i32(d * 4)) & 15i32)", "d * 4", 15);
  EXPECT_FALSE(digit_of("((i32(b[k, n]) >> i32(n % 2)) & 15i32)"));
  EXPECT_FALSE(digit_of("((i32(b[k, n]) >> i32(k % 2)) & 15i32)"));
  EXPECT_FALSE(digit_of("(i32(b[k, n]) & 256i32)"));
  EXPECT_FALSE(digit_of("i32(b[k, n])"));
}

TEST(DotProducts, AreFoundInPrograms) {
  const auto schedule = parse_schedule(dsl::parse_compute(byte_product).value(), steps);
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto program = schedule->program();
  ASSERT_TRUE(program) << program.error().message;
  int found = 0;
  for_each(*program->phases[0].body, [&](const Stmt& stmt) {
    const Loop* loop = stmt.as<Loop>();
    const auto dot = loop ? dot_product(*loop) : std::nullopt;
    if (!dot) return;
    ++found;
    EXPECT_EQ(dot->shared->tensor, "a");
    EXPECT_EQ(dot->own->tensor, "b");
    EXPECT_EQ(dsl::as_int(dot->depth->end), 4);
    EXPECT_EQ(dsl::as_int(dot->lanes->end), 8);
  });
  EXPECT_EQ(found, 1);
}

TEST(DotProducts, ComputeWhatTheirLoopsMean) {
  const dsl::Compute compute = dsl::parse_compute(byte_product).value();
  for (const std::string& text : {steps, steps + "unroll c k.0\n", steps + "parallel c m\n"}) {
    const auto schedule = parse_schedule(compute, text);
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_EQ(disagreement(compute, schedule->program().value()), std::nullopt) << text;
  }
}

TEST(DotProducts, NeedAVectorAroundThem) {
  EXPECT_THAT(error_of(byte_product, "tw1\nsplit c k 4\nvectorize c k.1\n"),
              HasSubstr("[vectorize] loop 'k.1' reduces: its iterations share an element"));
  EXPECT_THAT(error_of(byte_product,
                       "tw1\nsplit c k 8\nsplit c n 8\nreorder c m n.0 k.0 n.1 k.1\n"
                       "vectorize c n.1\nvectorize c k.1\n"),
              HasSubstr("a dot product sums 2 to 4 products for each lane"));
  const std::string largest =
      "input a: u8[6, 16]; weight b: i8[16, 24]; "
      "c: i32[m=6, n=24] = max(k=16) i32(a[m, k]) * i32(b[k, n])";
  EXPECT_THAT(error_of(largest, steps), HasSubstr("a dot product sums"));
  EXPECT_THAT(error_of(byte_product, steps + "reorder c m n.0 k.1 k.0 n.1\n"),
              HasSubstr("a vector loop must be the innermost loop, or one of a dot product"));
}

TEST(DotProducts, AreOfferedWhereTheTargetHasThem) {
  const auto offers = [](const std::string& compute, const std::string& target) {
    const auto space = Space::derive({.compute = dsl::parse_compute(compute).value()},
                                     parse_target(target).value());
    if (!space) throw std::runtime_error(space.error().message);
    return std::ranges::any_of(space->decisions(),
                               [](const Knob& knob) { return knob.name == "c.dot"; });
  };
  EXPECT_TRUE(offers(byte_product, "x86-64-v3"));
  // Padding is no obstacle: loops over the inner part of the image have no guard.
  EXPECT_TRUE(
      offers("input a: i16[8, 6, 6]; weight b: i8[16, 8, 3, 3]; c: i32[k=16, y=6, x=6] = "
             "sum(e=8, r=3, s=3) i32(select(0 <= y + r - 1 && y + r - 1 < 6 && 0 <= x + s - 1 && "
             "x + s - 1 < 6, a[e, y + r - 1, x + s - 1], 0i16)) * i32(b[k, e, r, s])",
             "x86-64-v3"));
  const std::string zen4 = target_text_of_isa("avx512_bf16");
  const std::string padded =
      "input a: bf16[8, 6]; weight b: bf16[16, 8, 3]; c: f32[k=16, x=6] = sum(e=8, s=3) "
      "f32(select(0 <= x + s - 1 && x + s - 1 < 6, a[e, x + s - 1], 0bf16)) * f32(b[k, e, s])";
  EXPECT_TRUE(offers(padded, zen4));
  EXPECT_FALSE(offers(padded, "x86-64-v4"));
  EXPECT_FALSE(
      offers("input a: f32[6, 16]; weight b: f32[16, 24]; "
             "c: f32[m=6, n=24] = sum(k=16) a[m, k] * b[k, n]",
             "x86-64-v3"));
  EXPECT_FALSE(
      offers("input a: u8[6, 15]; weight b: i8[15, 24]; "
             "c: i32[m=6, n=24] = sum(k=15) i32(a[m, k]) * i32(b[k, n])",
             "x86-64-v3"));
}

TEST(DotProducts, AreInMostSamples) {
  const auto space = Space::derive({.compute = dsl::parse_compute(byte_product).value()},
                                   parse_target("x86-64-v3").value());
  ASSERT_TRUE(space) << space.error().message;
  Random random(1);
  int dots = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string configuration = space->to_string(space->sample(random));
    dots += configuration.find("dot=2") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(dots, 60);
}

}  // namespace
}  // namespace tw::schedules

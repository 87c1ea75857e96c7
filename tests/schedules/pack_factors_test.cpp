// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/program/dot_products.h"
#include "schedules/space/algorithms.h"
#include "schedules/space/find_point.h"
#include "schedules/space/space.h"
#include "tests/isa_targets.h"
#include "tests/schedules/property.h"
#include "tests/schedules/random_schedule.h"

namespace tw::schedules {
namespace {

dsl::Compute conv_of_bytes(const std::string& shape) {
  return dsl::parse_workload("qlinear_conv2d " + shape + " f32 fast").value().compute;
}
const char* const stem = "n=1 c=3 h=9 w=10 k=5 r=3 s=3 stride=2 pad=1";

Target with_vnni() { return parse_target(target_text_of_isa("avx512_bf16")).value(); }

void expect_equal(const Schedule& schedule) {
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message << "\n" << schedule.to_string();
  EXPECT_EQ(disagreement(schedule.compute(), *program, 3, 0), std::nullopt)
      << schedule.to_string() << "\n"
      << to_string(*program);
}

TEST(PackFactors, CopiesTheFactorsWithZerosBehindTheAxis) {
  const Schedule schedule = Schedule(conv_of_bytes(stem)).pack_factors("conv", "c", 4);
  ASSERT_FALSE(schedule.error()) << schedule.error()->message;
  const dsl::Compute& made = schedule.nest().compute;
  EXPECT_EQ(made.shape_of("conv.in"), (std::vector<int64_t>{1, 9, 10, 4}));
  EXPECT_EQ(made.shape_of("conv.w"), (std::vector<int64_t>{5, 3, 3, 4}));
  EXPECT_EQ(made.find_stage("conv")->reduction[0].extent, 4);
  EXPECT_EQ(schedule.to_string(), "tw1\npack_factors conv c 4");
  expect_equal(schedule);
  expect_equal(schedule.prepare("conv.w").split("conv", "c", 2).vectorize("conv.in", "c"));
}

TEST(PackFactors, WidensFactorsThatAreNarrower) {
  const Schedule both = Schedule(conv_of_bytes(stem)).pack_factors("conv", "c", 2, "i16");
  ASSERT_FALSE(both.error()) << both.error()->message;
  EXPECT_EQ(both.nest().compute.type_of("conv.in"), Int16);
  EXPECT_EQ(both.nest().compute.type_of("conv.w"), Int16);
  expect_equal(both);
  const auto mixed = dsl::parse_compute(
      "input a: i16[5, 6]; weight w: i8[6, 7]; out: i32[m=5, n=7] = sum(k=6) i32(a[m, k]) * "
      "i32(w[k, n])");
  const Schedule own = Schedule(mixed.value()).pack_factors("out", "k", 2, "i16");
  ASSERT_FALSE(own.error()) << own.error()->message;
  EXPECT_EQ(own.nest().compute.find_stage("out.a"), nullptr);
  EXPECT_EQ(own.to_string(), "tw1\npack_factors out k 2 i16");
  expect_equal(own);
}

TEST(PackFactors, SaysWhyItDoesNotApply) {
  const auto message = [](const dsl::Compute& compute, PackFactors step) {
    const Schedule schedule = Schedule(compute).then(std::move(step));
    return schedule.error()
               ? schedule.error()->message.substr(0, schedule.error()->message.find('\n'))
               : "";
  };
  const dsl::Compute plain = conv_of_bytes(stem);
  EXPECT_EQ(message(plain, {"conv", "y", 4}), "[pack_factors] 'conv' does not reduce over 'y'");
  EXPECT_EQ(message(plain, {"conv", "c", 8}), "[pack_factors] the multiple is from 1 to 4, not 8");
  EXPECT_EQ(message(plain, {"conv", "c", 3}),
            "[pack_factors] the factors of 'conv' are packed already: the extent 3 of 'c' is a "
            "multiple of 3");
  EXPECT_EQ(
      message(plain, {"conv", "c", 4, "u8"}),
      "[pack_factors] the type u8 is no integer of at most 32 bits that holds all elements of "
      "'w', i8");
  EXPECT_EQ(
      message(plain, {"conv", "c", 4, "f32"}),
      "[pack_factors] the type f32 is no integer of at most 32 bits that holds all elements of "
      "'in', u8");
  EXPECT_EQ(
      message(plain, {"conv", "c", 4, "i17"}).find("[pack_factors] 'i17' is no data type: f32"),
      0u);
  const std::string why =
      "[pack_factors] 'conv' is no sum of products of elements of two tensors, for which 's' is "
      "an "
      "index";
  EXPECT_EQ(message(plain, {"conv", "s", 2}), why);  // in[..., x * 2 + s - 1]
  const auto parsed = [](const std::string& text) { return dsl::parse_compute(text).value(); };
  const auto why_not = [&](const std::string& text) {
    return message(parsed("input a: i32[7]; weight w: i32[7]; " + text), {"out", "k", 2});
  };
  const auto typed = [&](const std::string& a, const std::string& w, const std::string& sum) {
    return message(parsed("input a: " + a + "[7]; weight w: " + w + "[7]; out: " + sum),
                   {"out", "k", 2, "i32"});
  };
  EXPECT_EQ(typed("i16", "i8", "i16[] = sum(k=7) a[k] * i16(w[k])"),
            "[pack_factors] 'out' multiplies elements of 'a' as they are, which i32 would change");
  EXPECT_EQ(typed("i8", "i8", "i8[] = sum(k=7) a[k] * w[k]"),
            "[pack_factors] 'out' multiplies elements of 'a' as they are, which i32 would change");
  const std::string no_sum =
      "[pack_factors] 'out' is no sum of products of elements of two tensors, for which 'k' is an "
      "index";
  EXPECT_EQ(why_not("out: i32[] = sum(k=7) a[k] * a[k]"), no_sum);
  EXPECT_EQ(why_not("out: i32[] = sum(k=7) a[k] * w[6 - k]"), no_sum);
  EXPECT_EQ(why_not("out: i32[] = sum(k=7) (a[k] - 1) * w[k]"), no_sum);
  EXPECT_EQ(why_not("out: i32[] = sum(k=7) select(w[k] > 0, a[k], 0) * w[k]"), no_sum);
  EXPECT_EQ(why_not("out: i32[] = sum(k=5) a[k] * w[k]"),
            "[pack_factors] 'a' has 7 elements along 'k', which has 5");
  EXPECT_EQ(Schedule(parsed("weight a: i32[7]; weight w: i32[7]; input b: i32[1]\n"
                            "u: i32[] = sum(k=7) a[k] * w[k]\n"
                            "out: i32[i=1] = b[i] * u[]"))
                .prepare("u")
                .pack_factors("u", "k", 2)
                .error()
                ->message.find("[pack_factors] 'u' has steps already"),
            0u);
  const Schedule split = Schedule(plain).split("conv", "x", 2).pack_factors("conv", "c", 4);
  EXPECT_EQ(split.error()->message.find("[pack_factors] 'conv' has steps already"), 0u);
}

/// Returns a sum of products of a weight and u8 or i16 elements. The elements are an input's or
/// those of a stage that doubles the input; in some cases a select pads them with zeros.
dsl::Compute random_sum(Random& random) {
  const int64_t k = 1 + random.below(7), m = 1 + random.below(5), n = 1 + random.below(9);
  const std::string type = random.chance(0.5) ? "u8" : "i16";
  const std::string element = random.chance(0.5) ? "a[x, k]" : "b[x, k]";
  const std::string padded =
      fmt::format("select({} <= x, {}, 0{})", random.below(3), element, type);
  const std::string text = fmt::format(
      "input a: {}[{}, {}]\nweight w: i8[{}, {}]\nb: {}[i={}, j={}] = a[i, j] * 2{}\n"
      "out: i32[x={}, n={}] = sum(k={}) i32({}) * i32(w[n, k])",
      type, m, k, n, k, type, m, k, type, m, n, k, random.chance(0.5) ? padded : element);
  return dsl::parse_compute(text).value();
}

TEST(PackFactors, RandomSchedulesAgree) {
  Random random(5);
  int packed = 0;
  for (int i = 0; i < 200; ++i) {
    Schedule schedule(random_sum(random));
    const Schedule next =
        schedule.pack_factors("out", "k", 1 + random.below(4), random.chance(0.5) ? "i16" : "");
    if (next.error()) continue;
    ++packed;
    schedule = next;
    for (int step = 0; step < 6; ++step) {
      const Schedule more = schedule.then(StepMaker(random, schedule.nest()).make(step / 6.0));
      if (!more.error() && more.program()) schedule = more;
    }
    expect_equal(schedule);
  }
  EXPECT_GT(packed, 100);
}

/// Returns the steps of the algorithm `packed_dot`, or "" if it is not offered.
std::string packing(const dsl::Compute& compute, const Target& target) {
  for (const Rewritten& rewritten : apply_algorithms(compute, target))
    if (rewritten.algorithm == "packed_dot") {
      const std::string text = rewritten.schedule.to_string();
      EXPECT_TRUE(parse_schedule(compute, text)) << text;
      return text;
    }
  return "";
}

TEST(PackedDot, IsOfferedWhereDotProductsFitPaddedAxesAlone) {
  EXPECT_EQ(packing(conv_of_bytes(stem), with_vnni()), "tw1\npack_factors conv c 4");
  EXPECT_EQ(packing(conv_of_bytes("n=1 c=13 h=9 w=9 k=16 r=1 s=1"), with_vnni()),
            "tw1\npack_factors conv c 4");
  EXPECT_EQ(packing(conv_of_bytes(stem), parse_target("x86-64-v3").value()),
            "tw1\npack_factors conv c 2 i16");
  // The axis c needs no padding, but the elements are narrower than those that the instruction
  // reads.
  EXPECT_EQ(
      packing(conv_of_bytes("n=1 c=8 h=9 w=9 k=8 r=3 s=3"), parse_target("x86-64-v3").value()),
      "tw1\npack_factors conv c 2 i16");
  EXPECT_EQ(packing(conv_of_bytes("n=1 c=8 h=9 w=9 k=8 r=3 s=3"), with_vnni()), "");
  // Without packing, c = 6 allows dot products of two terms. Padded to 8, it allows those of four
  // terms, which take two thirds of the time.
  EXPECT_EQ(packing(conv_of_bytes("n=1 c=6 h=9 w=9 k=16 r=1 s=1"), with_vnni()),
            "tw1\npack_factors conv c 4");
  // The elements that vary with the vector's lanes (i) must be constants, and here they are data.
  const auto data = dsl::parse_compute(
      "input a: u8[64, 3]; weight w: i8[3]; out: i32[i=64] = sum(c=3) i32(a[i, c]) * i32(w[c])");
  EXPECT_EQ(packing(data.value(), with_vnni()), "");
  // Both sums have axes that are padded. The weights of the second sum are computed from constants.
  const auto two = dsl::parse_compute(
      "input a: u8[20, 3]; weight v: i8[3, 16]; weight w: i8[7, 16]; input b: u8[20, 7]\n"
      "first: i32[i=20, n=16] = sum(c=3) i32(a[i, c]) * i32(v[c, n])\n"
      "u: i8[c=7, n=16] = w[c, n] - 1i8\n"
      "second: i32[i=20, n=16] = sum(c=7) i32(b[i, c]) * i32(u[c, n])\n"
      "out: i32[i=20, n=16] = first[i, n] + second[i, n]");
  EXPECT_EQ(packing(two.value(), with_vnni()),
            "tw1\npack_factors first c 4\npack_factors second c 4");
  EXPECT_EQ(packing(conv_of_bytes("n=1 c=1 h=9 w=9 k=8 r=3 s=3"), with_vnni()),
            "");  // fourfold products
  EXPECT_EQ(packing(conv_of_bytes(stem), parse_target("cuda:sm_90a").value()), "");
  const auto floats = dsl::parse_workload("conv2d n=1 c=3 h=9 w=10 k=5 r=3 s=3 f32 fast").value();
  EXPECT_EQ(packing(floats.compute, with_vnni()), "");
}

TEST(PackedDot, IsNotOfferedWhereItCannotPay) {
  const Target avx2 = parse_target("x86-64-v3").value();
  const auto product = [](const char* shape) {
    return dsl::parse_workload(fmt::format("qlinear_dense {} f32 fast", shape)).value().compute;
  };
  EXPECT_EQ(packing(product("m=64 n=64 k=64"), avx2), "tw1\npack_factors product k 2 i16");
  EXPECT_EQ(packing(product("m=1 n=64 k=64"), avx2), "");         // each weight has one product
  EXPECT_EQ(packing(product("m=64 n=2 k=64"), avx2), "");         // each element has two
  EXPECT_EQ(packing(product("m=64 n=1 k=63"), with_vnni()), "");  // nothing for lanes
  EXPECT_EQ(packing(conv_of_bytes("n=1 c=2 h=9 w=9 k=8 r=3 s=3"), avx2), "");  // short axes
  EXPECT_EQ(packing(conv_of_bytes("n=1 c=2 h=9 w=9 k=8 r=3 s=3"), with_vnni()),
            "tw1\npack_factors conv c 4");
}

TEST(PackedDot, PointsAreFoundBackFromTheirSteps) {
  const dsl::Workload workload =
      dsl::parse_workload("qlinear_conv2d n=1 c=3 h=16 w=16 k=16 r=3 s=3 pad=1 f32 fast").value();
  const Space space = Space::derive(problem_of(workload), with_vnni()).value();
  Random random(2);
  int found = 0;
  for (int i = 0; i < 40; ++i) {
    const Point point = space.sample(random);
    if (space.algorithm_of(point) == 0) continue;
    const auto back = point_of(space, space.schedule(point));
    if (!back) continue;
    EXPECT_EQ(space.schedule(*back).to_string(), space.schedule(point).to_string());
    ++found;
  }
  EXPECT_GT(found, 10);
}

TEST(PackedDot, ItsSamplesHaveDotProducts) {
  const dsl::Workload workload =
      dsl::parse_workload("qlinear_conv2d n=1 c=3 h=16 w=16 k=16 r=3 s=3 pad=1 f32 fast").value();
  const Space space = Space::derive(problem_of(workload), with_vnni()).value();
  Random random(1);
  int dots = 0;
  for (int i = 0; i < 60; ++i) {
    const Point point = space.sample(random);
    if (space.to_string(point).find("packed_dot;") != 0) continue;
    const auto schedule = space.schedule(point);
    const auto program = schedule.program(limits_of(space.target()));
    if (!program) continue;
    EXPECT_EQ(disagreement(workload.compute, *program, 3, 0), std::nullopt) << schedule.to_string();
    dots += space.to_string(point).find("dot=4") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(dots, 3);
}

}  // namespace
}  // namespace tw::schedules

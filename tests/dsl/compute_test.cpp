// SPDX-License-Identifier: Apache-2.0
#include "dsl/compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/parse.h"

namespace tw::dsl {
namespace {

using ::testing::HasSubstr;

std::string error_of(const Status& status) { return status ? "ok" : status.error().message; }

Tensor gemm(const Axis& m, const Axis& n, const Axis& k) {
  const Tensor a = input("a", Float32, {m, k}), b = weight("b", Float32, {k, n});
  return compute("c", {m, n}, sum(k, a(m, k) * b(k, n)));
}

TEST(Compute, BuildsInDependencyOrder) {
  const Axis m("m", 4), n("n", 3), k("k", 2);
  const Tensor c = gemm(m, n, k);
  const Compute built = *build(compute("out", {m, n}, max(c(m, n), 0)));
  ASSERT_EQ(built.inputs.size(), 2u);
  EXPECT_EQ(built.inputs[0].name, "a");
  EXPECT_TRUE(built.inputs[1].constant);
  ASSERT_EQ(built.stages.size(), 2u);
  EXPECT_EQ(built.stages[0].name, "c");
  EXPECT_EQ(built.outputs, std::vector<std::string>{"out"});
  EXPECT_EQ(built.shape_of("c"), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(built.letters_of("a"), "AB");
  ASSERT_EQ(built.consumers("c").size(), 1u);
  EXPECT_EQ(built.consumers("c")[0]->name, "out");
  EXPECT_EQ(count_flops(built), 2 * 24 + 12);
}

TEST(Compute, BindsExtentsByName) {
  const Axis m("m"), n("n"), k("k");
  const Compute built = *build(gemm(m, n, k), {{m, 4}, {n, 5}, {k, 6}});
  EXPECT_EQ(built.shape_of("a"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(built.stages[0].reduction[0].extent, 6);
  const auto unbound = build(gemm(m, n, k), {{m, 4}});
  ASSERT_FALSE(unbound);
  EXPECT_THAT(unbound.error().message, HasSubstr("has no extent"));
}

TEST(Compute, SharedStagesAreDeclaredOnce) {
  const Axis i("i", 4);
  const Tensor a = input("a", Float32, {i});
  const Tensor s = compute("s", {i}, a(i) + 1);
  const Tensor t = compute("t", {i}, s(i) * s(i));
  EXPECT_EQ(build({t, s})->stages.size(), 2u);
  EXPECT_EQ(build({t, s})->outputs, (std::vector<std::string>{"t", "s"}));
}

TEST(Compute, RefusesWhatHasNoMeaning) {
  const Axis i("i", 4), j("j", 4);
  const Tensor a = input("a", Float32, {i}), other = input("a", Float32, {i});
  const auto message = [](const Result<Compute>& result) {
    return result ? std::string("ok") : result.error().message;
  };
  EXPECT_THAT(message(build(a)), HasSubstr("is an input"));
  EXPECT_THAT(message(build(compute("t", {i}, a(i) + other(i)))),
              HasSubstr("two tensors are named 'a'"));
  EXPECT_THAT(message(build(compute("t", {i}, a(i, i)))), HasSubstr("2 indices, it has 1"));
  EXPECT_THAT(message(build(compute("t", {i}, a(j)))), HasSubstr("'j', which is no axis"));
  EXPECT_THAT(message(build(compute("t", {i, i}, a(i)))), HasSubstr("two axes 'i'"));
  EXPECT_THAT(message(build(compute("max", {i}, a(i)))), HasSubstr("no name for a tensor"));
  EXPECT_THAT(message(build(compute("a b", {i}, a(i)))), HasSubstr("no name for a tensor"));
  EXPECT_THAT(message(build(compute("t", {Axis("a", 3)}, a(var("a"))))),
              HasSubstr("names a tensor too"));
  EXPECT_THAT(message(build(compute("t", {i}, a(Expr(i) / Expr(0)), ""))),
              HasSubstr("divides by 0"));
  EXPECT_THAT(message(build(compute("t", {i}, exp(Expr(i))))), HasSubstr("'exp' needs a float"));
  EXPECT_THAT(message(build(compute("t", {i}, a(i), "AB"))),
              HasSubstr("expected 1 distinct capitals"));
  EXPECT_THAT(message(build(compute("t", {i}, sum(std::vector<Axis>{}, a(i))))),
              HasSubstr("over no axis"));
}

TEST(Compute, DeclaresScans) {
  const Axis i("i"), j("j", 8), k("k");
  const Tensor a = input("a", Float32, {i, j});
  const Tensor s = compute("s", {i, j}, sum(k <= j, a(i, k)));
  const auto built = build(compute("out", {i, j}, max_over(k < i, s(k, j))), {{i, 4}});
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_EQ(to_text(*built),
            "input a: f32[4, 8]\n"
            "s: f32[i=4, j=8] = sum(k <= j) a[i, k]\n"
            "out: f32[i=4, j=8] = max(k < i) s[k, j]\n");
  // A sum counts an addition for each element, and a maximum counts a comparison.
  EXPECT_EQ(count_flops(*built), 2 * 4 * 8);
}

TEST(Compute, RefusesScansOverOtherRanges) {
  const Axis i("i", 4), j("j", 8), k("k");
  const Tensor a = input("a", Float32, {i, j});
  for (const Expr& range : {k <= Expr(3), Expr(k) + 1 <= j, k <= k, eq(k, j)}) {
    const auto built = build(compute("s", {i, j}, sum(range, a(i, 0))));
    ASSERT_FALSE(built) << to_string(range);
    EXPECT_THAT(built.error().message, HasSubstr("not 'k <= j' or 'k < j'")) << to_string(range);
  }
  const auto varies = build(compute("s", {i, j}, sum(k <= j, a(i, k) * a(i, j))));
  ASSERT_FALSE(varies);
  EXPECT_EQ(varies.error().message,
            "[compute] stage 's' uses 'j' in the terms of its scan along 'j': they are a function "
            "of 'k' and the other axes");
}

TEST(Compute, RefusesReadsOfLaterStages) {
  Compute compute = *parse_compute("input a: f32[4]; s: f32[i=4] = a[i]; t: f32[i=4] = s[i]");
  std::swap(compute.stages[0], compute.stages[1]);
  EXPECT_THAT(error_of(validate(compute)), HasSubstr("'s', which is no input or earlier stage"));
}

TEST(Compute, SuggestsTheNearestName) {
  Compute compute = *parse_compute("input image: f32[4]; t: f32[i=4] = image[i]");
  compute.stages[0].body = read("imgae", {var("i")}, Float32);
  EXPECT_THAT(error_of(validate(compute)), HasSubstr("did you mean 'image'?"));
}

// The expression shares nodes. As a tree it would have 2^40 nodes, which nothing may visit one by
// one.
TEST(Compute, Fault77_AnExpressionOfTooManyNodesIsRefusedAtOnce) {
  const Axis i("i", 4);
  const Tensor a = input("a", Float32, {i});
  Expr square = a(i);
  for (int level = 0; level < 40; ++level) square = square * square;
  EXPECT_EQ(square.node().size, largest_count);
  const auto built = build(compute("out", {i}, square));
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::Invalid);
  EXPECT_THAT(built.error().message, HasSubstr("declare stages in between"));
  EXPECT_EQ(check_size(square).error().code, ErrorCode::Invalid);
}

TEST(Compute, ChainsOfStagesAreAsLongAsTheyMayBeMany) {
  const auto chain = [](int stages) {
    const Axis i("i", 4);
    Tensor last = input("a", Float32, {i});
    for (int stage = 0; stage < stages; ++stage)
      last = compute("t" + std::to_string(stage), {i}, last(i) + constant(Float32, 1));
    return last;
  };
  const Result<Compute> longest = build(chain(9'999));
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->stages.size(), 9'999u);
  EXPECT_EQ(longest->stages.back().name, "t9998");
  const auto built = build(chain(100'000));
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::Invalid);
  EXPECT_THAT(built.error().message, HasSubstr("more than 10000 declarations"));
}

TEST(Compute, Fault03_AnExtentOfZeroIsValid) {
  const Axis m("m", 0), n("n", 3), k("k", 2);
  const Compute built = *build(gemm(m, n, k));
  EXPECT_EQ(count_flops(built), 0);
}

TEST(Compute, Fault05_ProductsThatLeave64BitsAreUnsupported) {
  const int64_t big = int64_t{1} << 40;
  const auto tensor = build(gemm({"m", big}, {"n", 1}, {"k", big}));
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(tensor.error().message, HasSubstr("extent overflow"));
  const auto iterations =
      build(gemm({"m", int64_t{1} << 25}, {"n", int64_t{1} << 25}, {"k", int64_t{1} << 25}));
  ASSERT_FALSE(iterations);
  EXPECT_THAT(iterations.error().message, HasSubstr("extent overflow"));
}

TEST(Compute, Fault06_MoreThan2To31ElementsAreDescribedIn64Bits) {
  const Compute built = *build(gemm({"m", 100000}, {"n", 100000}, {"k", 1}));
  EXPECT_EQ(built.shape_of("c"), (std::vector<int64_t>{100000, 100000}));
  EXPECT_EQ(count_flops(built), 2e10);
}

TEST(Compute, IdentitiesAreNeutral) {
  EXPECT_EQ(to_string(identity(Combine::Max, Float32)), "-inf");
  EXPECT_EQ(to_string(identity(Combine::Min, Float32)), "inf");
  EXPECT_EQ(*as_int(identity(Combine::Max, Int8)), -128);
  EXPECT_EQ(*as_int(identity(Combine::Min, UInt8)), 255);
  EXPECT_EQ(*as_int(identity(Combine::Min, Int64)), INT64_MAX);
  EXPECT_EQ(*as_int(identity(Combine::Prod, Int32)), 1);
}

}  // namespace
}  // namespace tw::dsl

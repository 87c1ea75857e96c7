// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/guards.h"

#include <gtest/gtest.h>

#include "dsl/parse.h"

namespace tw::schedules {
namespace {

Expr expr_of(const std::string& text) { return dsl::parse_expr(text).value(); }

Block store() { return {Stmt{Assign{"s", {Expr(0)}, dsl::constant(Float32, 1), Combine::Sum}}}; }
Block guarded(const std::string& condition, Block body) {
  return {Stmt{If{expr_of(condition), block(std::move(body))}}};
}
Block loop(const std::string& variable, int64_t extent, Block body,
           LoopKind kind = LoopKind::Serial) {
  return {Stmt{Loop{variable, Expr(0), Expr(extent), kind, block(std::move(body))}}};
}
std::string resolved(const Block& body, const std::vector<TaskAxis>& axes = {}) {
  return to_string(*resolve_guards(hoist_guards(body), axes, 10'000), 0);
}

TEST(Guards, LeaveLoopsThatTheyDoNotUse) {
  const Block body =
      loop("y", 4, loop("k", 3, loop("x", 4, guarded("1 <= y + k && x <= 2", store()))));
  EXPECT_EQ(to_string(hoist_guards(body), 0),
            "for y in 0..4\n"
            "  for k in 0..3\n"
            "    if 1 <= y + k\n"
            "      for x in 0..4\n"
            "        if x <= 2\n"
            "          s[0] += 1.0\n");
}

TEST(Guards, OfAllLanesOrNoneLeaveTheVector) {
  const auto hoisted = [](const std::string& condition) {
    return to_string(
        hoist_guards(loop("t", 32, loop("v", 8, guarded(condition, store()), LoopKind::Vector))),
        0);
  };
  const auto outside = [](const std::string& condition) {
    return "for t in 0..32\n  if " + condition + "\n    vector v in 0..8\n      s[0] += 1.0\n";
  };
  EXPECT_EQ(hoisted("t * 8 + v < 128"), outside("t * 8 <= 127"));
  EXPECT_EQ(hoisted("16 <= t * 8 + v"), outside("16 <= t * 8"));
  EXPECT_EQ(hoisted("t * 16 + v * 2 < 127"), outside("t * 16 <= 126"));
  // Lanes may count backwards.
  EXPECT_EQ(hoisted("t * 8 - v < 121"), outside("t * 8 <= 120"));
  // Some lanes of a vector are inside, others are not.
  for (const char* condition : {"t * 8 + v <= 126", "t * 8 + v <= 128", "17 <= t * 8 + v",
                                "15 <= t * 8 + v", "t * 4 + v <= 127", "t * 8 - v <= 121"})
    EXPECT_NE(hoisted(condition).find("vector v in 0..8\n    if "), std::string::npos)
        << hoisted(condition);
}

TEST(Guards, TrimSerialLoops) {
  EXPECT_EQ(resolved(loop("y", 4, loop("k", 3, guarded("1 <= y + k && y + k < 5", store())))),
            "for y in 0..4\n"
            "  for k in max(0, 1 - y)..min(3, 5 - y)\n"
            "    s[0] += 1.0\n");
  EXPECT_EQ(resolved(loop("y", 4, loop("k", 9, guarded("3 <= k * 2 - y", store())))),
            "for y in 0..4\n"
            "  for k in (y + 4) / 2..9\n"
            "    s[0] += 1.0\n");
}

TEST(Guards, ThatAlwaysHoldGo) {
  EXPECT_EQ(resolved(loop("y", 4, guarded("y < 9", store()))), "for y in 0..4\n  s[0] += 1.0\n");
}

TEST(Guards, ThatNeverHoldTakeTheLoopAlong) {
  EXPECT_EQ(resolved(loop("y", 4, guarded("9 < y", store()))), "");
}

TEST(Guards, LiteralBoundsOfVectorLoopsAreTrimmed) {
  EXPECT_EQ(resolved(loop("x", 8, guarded("x < 5", store()), LoopKind::Vector)),
            "vector x in 0..5\n  s[0] += 1.0\n");
}

TEST(Guards, OuterLoopsPeelSoThatInnerBoundsAreLiteral) {
  EXPECT_EQ(
      resolved(loop("o", 4, loop("x", 4, guarded("o * 4 + x < 14", store()), LoopKind::Vector))),
      "for o in 0..3\n"
      "  vector x in 0..4\n"
      "    s[0] += 1.0\n"
      "vector x in 0..2\n"
      "  s[0] += 1.0\n");
}

TEST(Guards, TaskAxesPeelByBranches) {
  EXPECT_EQ(
      resolved(loop("x", 4, guarded("t * 4 + x < 14", store()), LoopKind::Unrolled), {{"t", 4}}),
      "if 0 <= t && t < 3\n"
      "  unroll x in 0..4\n"
      "    s[0] += 1.0\n"
      "if t == 3\n"
      "  unroll x in 0..2\n"
      "    s[0] += 1.0\n");
}

// With stride 2 only the first window position of the first row is outside. Only the first row is
// written out because of it, and the other 27 rows stay a loop.
TEST(Guards, OneSidedOnesPeelOneSide) {
  const Block body =
      loop("y", 28, loop("k", 3, guarded("1 <= y * 2 + k", store()), LoopKind::Unrolled));
  EXPECT_EQ(resolved(body),
            "unroll k in 1..3\n"
            "  s[0] += 1.0\n"
            "for y in 1..28\n"
            "  unroll k in 0..3\n"
            "    s[0] += 1.0\n");
}

TEST(Guards, ThatNeedTooManyCopiesAreRefusedEarly) {
  const Block body = loop("x", 8, store(), LoopKind::Unrolled);
  EXPECT_TRUE(resolve_guards(body, {}, 8));
  EXPECT_FALSE(resolve_guards(body, {}, 7));
}

/// Returns the statement s[0] += a[index].
Block load(const std::string& index) {
  const Expr value = dsl::read("a", {expr_of(index)}, Float32);
  return {Stmt{Assign{"s", {Expr(0)}, value, Combine::Sum}}};
}

TEST(Guards, ClampedIndicesOfVectorsArePeeledOff) {
  const Block vector =
      loop("x.0", 6, loop("x.1", 8, load("max(min(x.0 * 8 + x.1 - 1, 43), 0)"), LoopKind::Vector));
  EXPECT_EQ(resolved(vector),
            "vector x.1 in 0..8\n"
            "  s[0] += a[max(min(x.1 - 1, 43), 0)]\n"
            "for x.0 in 1..5\n"
            "  vector x.1 in 0..8\n"
            "    s[0] += a[max(min(x.0 * 8 + x.1 - 1, 43), 0)]\n"
            "vector x.1 in 0..8\n"
            "  s[0] += a[max(min(40 + x.1 - 1, 43), 0)]\n");
  const Block tasks = loop("x.1", 8, load("max(t * 8 + x.1 - 1, 0)"), LoopKind::Vector);
  EXPECT_EQ(resolved(tasks, {{"t", 6}}),
            "if t == 0\n"
            "  vector x.1 in 0..8\n"
            "    s[0] += a[max(x.1 - 1, 0)]\n"
            "if 1 <= t && t < 6\n"
            "  vector x.1 in 0..8\n"
            "    s[0] += a[max(t * 8 + x.1 - 1, 0)]\n");
  const Block scalar = loop("x.0", 6, loop("x.1", 8, load("max(x.0 * 8 + x.1 - 1, 0)")));
  EXPECT_EQ(resolved(scalar), to_string(scalar, 0));
}

// The comparison is not rewritten as x + 1 <= y, which differs where x is the largest i64.
TEST(Guards, OfTwoElementsOfI64Stay) {
  const Expr less = dsl::parse_expr("x[k] < y[k]", {{"x", Int64}, {"y", Int64}}).value();
  EXPECT_EQ(resolved(loop("i", 4, loop("k", 8, {Stmt{If{less, block(store())}}}))),
            "for i in 0..4\n"
            "  for k in 0..8\n"
            "    if x[k] < y[k]\n"
            "      s[0] += 1.0\n");
}

TEST(Guards, WithoutAnAffineFormStay) {
  EXPECT_EQ(resolved(loop("y", 4, guarded("y != 2", store()))),
            "for y in 0..4\n  if y != 2\n    s[0] += 1.0\n");
}

}  // namespace
}  // namespace tw::schedules

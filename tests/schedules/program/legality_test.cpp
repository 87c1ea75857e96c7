// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/legality.h"

#include <gtest/gtest.h>

#include "dsl/parse.h"

namespace tw::schedules {
namespace {

Expr at(const std::string& text) { return dsl::parse_expr(text).value(); }
Stmt store(const std::string& index, DType type = Float32) {
  return {Assign{"out", {at(index)}, dsl::constant_int(type, 1), Combine::None}};
}
Stmt loop(const std::string& variable, const std::string& begin, const std::string& end, Stmt body,
          LoopKind kind = LoopKind::Serial) {
  return {Loop{variable, at(begin), at(end), kind, block({std::move(body)})}};
}

/// Checks a program with one phase, 4 tasks and an output `out` of f32[8]. Returns "legal", or the
/// first line of the reason why the program is illegal.
std::string verdict(Stmt stmt, const Limits& limits = {}) {
  Program program;
  Argument out;
  out.buffer = {"out", Float32, {8}, Scope::Argument};
  out.shape = {8};
  out.layout = dsl::Layout::row_major(1);
  out.is_output = true;
  program.arguments = {out};
  program.phases = {{"out", {{"t", 4}}, block({std::move(stmt)})}};
  const Status status = check_legal(program, limits);
  return status ? "legal" : status.error().message.substr(0, status.error().message.find('\n'));
}

TEST(Legality, AccessesAreInside) {
  EXPECT_EQ(verdict(loop("x", "0", "8", store("x"))), "legal");
  EXPECT_EQ(verdict(loop("x", "0", "2", store("t * 2 + x"))), "legal");
  EXPECT_EQ(verdict(loop("x", "0", "min(3, 8 - t * 3)", store("t * 3 + x"))), "legal");
  EXPECT_EQ(verdict(loop("x", "0", "9", store("x"))),
            "[legality] index 0 of 'out', x, is not proved inside 0..8 (it may be 0..9; "
            "the end of a range is not in it)");
  EXPECT_EQ(verdict(loop("x", "0", "8", store("x - 1"))),
            "[legality] index 0 of 'out', x - 1, is not proved inside 0..8 (it may be -1..7; "
            "the end of a range is not in it)");
}

// The right side of `&&` is evaluated only where the left side holds, and the left side everywhere.
TEST(Legality, AConditionMayGuardItsOwnReads) {
  const Expr first = at("x <= 7"),
             second = dsl::read("out", {at("x")}, Float32) < dsl::constant(Float32, 0);
  const auto branch = [&](const Expr& condition) {
    return loop("x", "0", "9", {If{condition, block({store("0")})}});
  };
  EXPECT_EQ(verdict(branch(first && second)), "legal");
  EXPECT_EQ(verdict(branch(second && first)),
            "[legality] index 0 of 'out', x, is not proved inside 0..8 (it may be 0..9; "
            "the end of a range is not in it)");
}

TEST(Legality, IndicesThatOverflowAreNotInside) {
  EXPECT_EQ(verdict(loop("x", "0", "8", store("x * 2305843009213693952"))),
            "[legality] index 0 of 'out', x * 2305843009213693952, is not proved inside 0..8 "
            "(nothing is known of it; indices are sums of axes times literals)");
}

TEST(Legality, GuardsCount) {
  EXPECT_EQ(verdict(loop("x", "0", "9", {If{at("x < 8"), block({store("x")})}})), "legal");
}

TEST(Legality, TypesAgree) {
  EXPECT_EQ(verdict(store("0", Int32)), "[legality] 'out' holds f32, not i32");
}

TEST(Legality, RanksAgree) {
  EXPECT_EQ(verdict({Assign{"out", {Expr(0), Expr(0)}, dsl::constant(Float32, 1), Combine::None}}),
            "[legality] 'out' has 1 dimensions, not 2");
}

TEST(Legality, BuffersExist) {
  EXPECT_EQ(verdict({Assign{"other", {Expr(0)}, dsl::constant(Float32, 1), Combine::None}}),
            "[legality] there is no buffer 'other'");
}

TEST(Legality, VectorLoopsAreInnermostWithLiteralBounds) {
  EXPECT_EQ(verdict(loop("x", "0", "8", store("x"), LoopKind::Vector)), "legal");
  EXPECT_EQ(verdict(loop("x", "0", "8 - t", store("x"), LoopKind::Vector)),
            "[legality] an unrolled or vector loop needs literal bounds");
  EXPECT_EQ(verdict(loop("x", "0", "4", loop("y", "0", "2", store("x * 2 + y")), LoopKind::Vector)),
            "[legality] a vector loop must be the innermost loop, or one of a dot product");
}

TEST(Legality, LanesDoNotAddToOneElement) {
  const Stmt sum = {Assign{"out", {Expr(0)}, dsl::constant(Float32, 1), Combine::Sum}};
  EXPECT_EQ(verdict(loop("x", "0", "4", sum)), "legal");
  EXPECT_EQ(verdict(loop("x", "0", "4", sum, LoopKind::Vector)),
            "[legality] lanes of a vector that is no dot product add to one element");
  const Stmt products = {
      Assign{"out",
             {Expr(0)},
             dsl::read("out", {at("k")}, Float32) * dsl::read("out", {at("n * 2 + k")}, Float32),
             Combine::Sum}};
  EXPECT_EQ(verdict(loop("n", "0", "4", loop("k", "0", "2", products, LoopKind::Vector),
                         LoopKind::Vector)),
            "[legality] a vector loop must be the innermost loop, or one of a dot product");
}

TEST(Legality, SizesAreLimited) {
  const Stmt unrolled = loop("x", "0", "8", store("x"), LoopKind::Unrolled);
  EXPECT_EQ(unrolled_statements({unrolled, store("0")}), 9);
  EXPECT_EQ(verdict(unrolled, {.unrolled_statements = 8}), "legal");
  EXPECT_EQ(verdict(unrolled, {.unrolled_statements = 7}),
            "[legality] stage 'out' unrolls to more than 7 statements");
  const Stmt allocated = {Allocate{{"t", Float32, {100}, Scope::Local}, block({store("0")})}};
  EXPECT_EQ(verdict(allocated, {.local_bytes = 448}), "legal");
  EXPECT_EQ(verdict(allocated, {.local_bytes = 447}),
            "[legality] stage 'out' keeps 448 bytes in a task, at most 447");
}

}  // namespace
}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
// Tests of attributes that statements of a program may have: guards, pipelines and uniform
// conditions.

#include "schedules/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "dsl/parse.h"
#include "schedules/lowering/lower.h"
#include "schedules/program/evaluate.h"
#include "schedules/program/legality.h"
#include "schedules/program/threads.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

using testing::HasSubstr;

Expr parsed(const std::string& text) { return dsl::parse_expr(text).value(); }
Expr input_at(const std::string& index) { return dsl::read("in", {parsed(index)}, Float32); }

/// Returns the statement out[i] = in[i - 2] if the condition holds, else out[i] = `otherwise`.
Assign guarded_copy(const std::string& condition, double otherwise = 5) {
  Assign assign{"out", {parsed("i")}, input_at("i - 2")};
  assign.guard = Guard{parsed(condition), dsl::constant(Float32, otherwise)};
  return assign;
}
const char* const inside = "2 <= i && i < 6";

Stmt loop_over(const std::string& variable, int64_t extent, LoopKind kind, Block body) {
  return {Loop{variable, Expr(0), Expr(extent), kind, block(std::move(body))}};
}

/// Returns a program with the input in[4] and the output out[8], both of f32.
Program program_of(Block body) {
  Program program;
  for (const bool is_output : {false, true}) {
    Argument argument;
    argument.buffer = {is_output ? "out" : "in", Float32, {is_output ? 8 : 4}};
    argument.shape = argument.buffer.extents;
    argument.layout = dsl::Layout::row_major(1);
    argument.is_output = is_output;
    program.arguments.push_back(argument);
  }
  program.phases = {{"out", {}, block(std::move(body))}};
  return program;
}

/// Runs the program on the input 1, 2, 3, 4. Returns the elements of the output, or the error.
std::string stored(const Program& program) {
  Storage storage;
  storage["in"].resize(4 * sizeof(float));
  const std::vector<float> values = {1, 2, 3, 4};
  std::memcpy(storage["in"].data(), values.data(), storage["in"].size());
  if (const Status status = evaluate(program, storage); !status) return status.error().message;
  std::vector<float> out(8);
  std::memcpy(out.data(), storage["out"].data(), storage["out"].size());
  return fmt::format("{}", fmt::join(out, " "));
}

std::string verdict_of(const Program& program) {
  const Status status = check_legal(program);
  return status ? "legal" : status.error().message.substr(0, status.error().message.find('\n'));
}

TEST(Guards, StoreOneOfTwoValues) {
  const Program program =
      program_of({loop_over("i", 8, LoopKind::Serial, {{guarded_copy(inside)}})});
  EXPECT_THAT(to_string(program), HasSubstr("out[i] = in[i - 2] if 2 <= i && i < 6 else 5.0\n"));
  EXPECT_EQ(verdict_of(program), "legal");
  EXPECT_EQ(stored(program), "5 5 1 2 3 4 5 5");
  // Without the guard, the read is outside of its buffer.
  const Program dropped = program_of(
      {loop_over("i", 8, LoopKind::Serial, {{Assign{"out", {parsed("i")}, input_at("i - 2")}}})});
  EXPECT_THAT(verdict_of(dropped), HasSubstr("index 0 of 'in', i - 2, is not proved inside 0..4"));
  EXPECT_THAT(stored(dropped), HasSubstr("is outside of [0, 4)"));
}

TEST(Guards, AreIllegalElsewhere) {
  const auto verdict_with = [](const std::function<void(Assign&)>& change) {
    Assign assign = guarded_copy(inside);
    change(assign);
    return verdict_of(program_of({loop_over("i", 8, LoopKind::Serial, {{assign}})}));
  };
  EXPECT_EQ(verdict_with([](Assign& a) { a.combine = Combine::Sum; }),
            "[legality] a guarded value is stored, and not combined");
  EXPECT_EQ(verdict_with([](Assign& a) { a.guard->otherwise = input_at("0"); }),
            "[legality] what is stored otherwise is a literal of f32");
  EXPECT_EQ(verdict_with([](Assign& a) { a.guard->otherwise = Expr(0); }),
            "[legality] what is stored otherwise is a literal of f32");
  EXPECT_THAT(verdict_with([](Assign& a) { a.guard->condition = input_at("i") < Expr(0); }),
              HasSubstr("index 0 of 'in', i, is not proved inside 0..4"));
}

TEST(Guards, AreBranchesForATarget) {
  const Stmt copy{guarded_copy(inside)};
  const auto branches = branches_of(copy);
  ASSERT_TRUE(branches);
  EXPECT_EQ(to_string({{branches->taken}, {branches->otherwise}}, 0),
            "if 2 <= i && i < 6\n  out[i] = in[i - 2]\n"
            "if not(2 <= i && i < 6)\n  out[i] = 5.0\n");
  EXPECT_FALSE(branches->stores_zeros);
  EXPECT_TRUE(branches_of({guarded_copy(inside, 0)})->stores_zeros);
  EXPECT_FALSE(branches_of({guarded_copy(inside, -0.0)})->stores_zeros);
  // If all lanes of a vector share the condition, each branch has the whole vector.
  const Stmt together = loop_over("i", 8, LoopKind::Vector, {{guarded_copy("k < 3")}});
  EXPECT_EQ(to_string(with_branches({together}), 0),
            "if k < 3\n  vector i in 0..8\n    out[i] = in[i - 2]\n"
            "if not(k < 3)\n  vector i in 0..8\n    out[i] = 5.0\n");
  const Stmt apart = loop_over("i", 8, LoopKind::Vector, {copy});
  EXPECT_FALSE(branches_of(apart));
  EXPECT_THAT(to_string(with_branches({apart}), 0), HasSubstr("vector i in 0..8\n  if 2 <= i"));
  EXPECT_FALSE(branches_of({Assign{"out", {parsed("i")}, input_at("i")}}));
  EXPECT_EQ(unrolled_statements({copy}), unrolled_statements(with_branches({copy})));
}

TEST(Guards, EndWhereTheConditionIsDecided) {
  const Assign copy = guarded_copy(inside);
  EXPECT_EQ(to_string({{with_condition(copy, parsed("i < 3"))}}, 0),
            "out[i] = in[i - 2] if i < 3 else 5.0\n");
  EXPECT_EQ(to_string({{with_condition(copy, dsl::constant_int(Bool, 1))}}, 0),
            "out[i] = in[i - 2]\n");
  EXPECT_EQ(to_string({{with_condition(copy, dsl::constant_int(Bool, 0))}}, 0), "out[i] = 5.0\n");
  // An asynchronous copy can store zeros in place of data, and no other literal. So a store of
  // zeros stays asynchronous, and a store of 5 does not.
  for (const double otherwise : {0.0, 5.0}) {
    Assign late = guarded_copy(inside, otherwise);
    late.asynchronous = true;
    EXPECT_EQ(with_condition(late, dsl::constant_int(Bool, 0)).asynchronous, otherwise == 0);
  }
}

Loop pipelined_loop(LoopPipeline pipeline) {
  Loop loop{"k", Expr(0), Expr(8), LoopKind::Serial, block({{Wait{1}}, {Barrier{}}})};
  loop.pipeline = pipeline;
  return loop;
}

TEST(Program, PrintsAndHashesWhatStatementsSay) {
  const Stmt copy{guarded_copy(inside)}, branch{If{parsed("i < 3"), block({copy})}};
  Assign uniform_copy = guarded_copy(inside);
  uniform_copy.guard->uniform = true;
  If uniform_branch = *branch.as<If>();
  uniform_branch.uniform = true;
  const std::vector<std::pair<Stmt, std::string>> all = {
      {copy, "out[i] = in[i - 2] if 2 <= i && i < 6 else 5.0\n"},
      {{uniform_copy}, "out[i] = in[i - 2] uniform if 2 <= i && i < 6 else 5.0\n"},
      {{guarded_copy(inside, 4)}, "out[i] = in[i - 2] if 2 <= i && i < 6 else 4.0\n"},
      {{guarded_copy("i < 3")}, "out[i] = in[i - 2] if i < 3 else 5.0\n"},
      {branch, "if i < 3\n  out[i] = in[i - 2] if 2 <= i && i < 6 else 5.0\n"},
      {{uniform_branch}, "uniform if i < 3\n  out[i] = in[i - 2] if 2 <= i && i < 6 else 5.0\n"},
      {{pipelined_loop({2, 3})}, "for k in 0..8 pipeline 2 ahead, 3 slots\n  wait 1\n  barrier\n"},
      {{pipelined_loop({2, 4})}, "for k in 0..8 pipeline 2 ahead, 4 slots\n  wait 1\n  barrier\n"},
      {{pipelined_loop({1, 3})}, "for k in 0..8 pipeline 1 ahead, 3 slots\n  wait 1\n  barrier\n"},
      {loop_over("k", 8, LoopKind::Serial, {{Wait{1}}, {Barrier{}}}),
       "for k in 0..8\n  wait 1\n  barrier\n"}};
  std::set<size_t> hashes;
  for (const auto& [stmt, text] : all) {
    EXPECT_EQ(to_string({stmt}, 0), text);
    EXPECT_TRUE(hashes.insert(hash(program_of({stmt}))).second) << text;
    // Passes that change nothing keep the attributes.
    const auto same = [](const Expr& e) { return e; };
    EXPECT_EQ(to_string(map_expressions({stmt}, same), 0), text);
    if (const Block* body = body_of(stmt)) {
      EXPECT_EQ(to_string({with_body(stmt, block(*body))}, 0), text);
    }
  }
  const auto shifted = [](const Expr& e) { return dsl::substitute(e, "i", parsed("j + 1")); };
  EXPECT_EQ(to_string(map_expressions({copy}, shifted), 0),
            "out[j + 1] = in[j + 1 - 2] if 2 <= j + 1 && j + 1 < 6 else 5.0\n");
}

TEST(Program, TellsWhatAStatementTouches) {
  Assign copy = guarded_copy("i < 3");
  copy.guard->condition = input_at("i") < dsl::constant(Float32, 3);
  const Stmt loop = loop_over("i", 8, LoopKind::Serial, {{copy}});
  std::vector<std::string> seen;
  for_each({loop}, [&](const Stmt& stmt) {
    for_each_access(stmt, [&](const BufferAccess& access) {
      seen.push_back(fmt::format("{}{}[{}]", access.is_store ? "store " : "", access.buffer,
                                 dsl::to_string(access.indices[0])));
    });
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"store out[i]", "in[i - 2]", "in[i]"}));
}

// ---- uniform conditions ---------------------------------------------------------------------

TEST(Uniform, IsWhatDependsOnNoThread) {
  const auto marks = [](const Expr& condition) {
    const Block branch = {{If{condition, block({{Assign{"out", {parsed("t")}, input_at("0")}}})}}};
    const Loop rows{"r", Expr(0), parsed("t + 1"), LoopKind::Serial, block(branch)};
    const Loop columns{"c", Expr(0), Expr(4), LoopKind::Serial, block({{rows}})};
    const Block nest = {loop_over("t", 8, LoopKind::Thread, {{columns}})};
    const Stmt own{Allocate{{"own", Float32, {8}, Scope::Register}, block(nest)}};
    const Block marked = mark_uniform({loop_over("k", 4, LoopKind::Serial, {own})});
    return to_string(marked, 0).find("uniform if ") != std::string::npos;
  };
  const Expr three = dsl::constant(Float32, 3);
  EXPECT_TRUE(marks(parsed("k < 3")));
  EXPECT_TRUE(marks(parsed("k < c")));
  EXPECT_TRUE(marks(parsed("task < 3")));
  EXPECT_TRUE(marks(input_at("k") < three));
  EXPECT_FALSE(marks(parsed("t < 3")));
  EXPECT_FALSE(marks(parsed("k < t")));
  EXPECT_FALSE(marks(parsed("r < 3")));  // threads make different iterations of it
  EXPECT_FALSE(marks(input_at("t") < three));
  EXPECT_FALSE(marks(dsl::read("own", {parsed("t")}, Float32) < three));
}

/// Returns a program in which eight threads copy if a condition holds.
Program copy_by_threads(const std::string& condition, bool uniform, bool is_guard) {
  Assign copy = guarded_copy(condition);
  copy.value = input_at("0");
  copy.guard->uniform = uniform;
  Block body = {{copy}};
  if (!is_guard) {
    copy.guard.reset();
    body = {{If{parsed(condition), block({{copy}}), uniform}}};
  }
  return program_of(
      {loop_over("i", 8, LoopKind::Thread, {loop_over("k", 2, LoopKind::Serial, body)})});
}

TEST(Uniform, MarksAreProved) {
  for (const bool is_guard : {false, true}) {
    EXPECT_EQ(verdict_of(copy_by_threads("k < 1", true, is_guard)), "legal");
    EXPECT_EQ(verdict_of(copy_by_threads("i < 3", false, is_guard)), "legal");
    EXPECT_EQ(verdict_of(copy_by_threads("i < 3", true, is_guard)),
              "[threads] threads may find a condition different that is marked uniform");
    EXPECT_THAT(stored(copy_by_threads("i < 3", true, is_guard)),
                HasSubstr("threads find a uniform condition both true and false"));
  }
  EXPECT_EQ(stored(copy_by_threads("k < 1", true, true)), "5 5 5 5 5 5 5 5");
  EXPECT_EQ(stored(copy_by_threads("k < 1", true, false)), "1 1 1 1 1 1 1 1");
  EXPECT_EQ(stored(copy_by_threads("i < 3", false, true)), "1 1 1 5 5 5 5 5");
}

TEST(Uniform, LoweringMarksConditions) {
  const auto compute = dsl::parse_compute(R"(input a: f32[10, 7]
weight b: f32[7, 8]
c: f32[m=10, n=8] = sum(k=7) a[m, k] * b[k, n])");
  const Schedule schedule = Schedule(*compute)
                                .split("c", "m", 4)
                                .split("c", "k", 2)
                                .reorder("c", {"m.0", "k.0", "m.1", "n", "k.1"})
                                .cache_write("c", "m.0")
                                .cache_operand("c", 1, "k.0", {"m.1", "k.1"})
                                .cache_operand("c", 2, "k.0", {"k.1", "n"})
                                .parallel("c", "m.0")
                                .bind("c", "m.1")
                                .bind("c", "n")
                                .bind("a@c", "m.1")
                                .reorder("b@c", {"n", "k.1"})
                                .bind("b@c", "n");
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  const std::string text = to_string(*program);
  EXPECT_THAT(text, HasSubstr(" if m.0 * 4 + a@c.m.1 < 10 && k.0 * 2 + a@c.k.1 < 7 else 0.0\n"));
  EXPECT_THAT(text, HasSubstr(" uniform if k.0 * 2 + b@c.k.1 < 7 else 0.0\n"));
  EXPECT_EQ(disagreement(*compute, *program), std::nullopt) << text;
}

}  // namespace
}  // namespace tw::schedules

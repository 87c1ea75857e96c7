// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/pack.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dsl/parse.h"
#include "schedules/program/evaluate.h"
#include "schedules/schedule.h"

namespace tw::schedules {
namespace {

constexpr const char* scaled =
    "input in: f32[3, 5]; weight w: f32[5]; out: f32[i=3, j=5] = in[i, j] * w[j]";

/// Returns a kernel of `scaled` with all tensors in blocked layouts, whose blocks do not divide the
/// extents.
Program blocked(const Problem& problem) {
  const auto schedule = parse_schedule(
      problem.compute, "tw1\nset_layout in BA2a\nset_layout w A4a\nset_layout out AB4b");
  return schedule->program(limits_of(*parse_target("x86-64-v3"))).value();
}

Problem problem_of_expression(const std::string& asked = "") {
  dsl::Workload workload = dsl::workload(dsl::parse_compute(scaled).value()).value();
  workload.layouts = dsl::parse_asked(asked).value().layouts;
  return problem_of(workload);
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::string> argument_names(const Program& program) {
  std::vector<std::string> names;
  for (const Argument& argument : program.arguments) names.push_back(argument.buffer.name);
  return names;
}

TEST(ProgramOfCall, ConvertsTheArraysOfTheCaller) {
  const Problem problem = problem_of_expression();
  const Program program = program_of_call(blocked(problem), problem, *parse_target("x86-64-v3"));
  EXPECT_EQ(program.phases.size(), 3u);
  EXPECT_EQ(argument_names(program),
            (std::vector<std::string>{"in of the caller", "w", "out of the caller"}));
  std::vector<float> in, expected;
  for (int i = 0; i < 15; ++i) in.push_back(static_cast<float>(i));
  for (int i = 0; i < 15; ++i) expected.push_back(static_cast<float>(i * (i % 5 + 1)));
  Storage storage = {{"in of the caller", bytes_of(in)}, {"w", bytes_of({1, 2, 3, 4, 5, 0, 0, 0})}};
  const Status status = evaluate(program, storage);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(storage.at("out of the caller"), bytes_of(expected));
}

TEST(ProgramOfCall, LeavesArraysInLayoutsThatTheCallerAsksFor) {
  const Problem problem = problem_of_expression("in=BA2a");
  const Program program = program_of_call(blocked(problem), problem, *parse_target("x86-64-v3"));
  EXPECT_EQ(program.phases.size(), 2u);
  EXPECT_EQ(argument_names(program), (std::vector<std::string>{"in", "w", "out of the caller"}));
}

// A call of an operator passes tensors in the kernel's layouts, because its neighbours in a network
// share them. On GPUs there is no code that packs.
TEST(ProgramOfCall, IsTheKernelForOperatorsAndGpus) {
  const Problem problem = problem_of_expression();
  const Program kernel = blocked(problem);
  EXPECT_EQ(hash(program_of_call(kernel, problem, *parse_target("cuda:sm_90a"))), hash(kernel));
  const auto product = dsl::make_workload("dense", {{"m", 4}, {"n", 4}, {"k", 4}});
  Problem of_operator = problem_of(*product);
  EXPECT_FALSE(of_operator.converts);
  of_operator.compute = problem.compute;
  EXPECT_EQ(hash(program_of_call(kernel, of_operator, *parse_target("x86-64-v3"))), hash(kernel));
}

}  // namespace
}  // namespace tw::schedules

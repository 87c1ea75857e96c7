// SPDX-License-Identifier: Apache-2.0
// Tests that the interpreter of programs refuses faulty programs. agreement_test.cpp tests its
// results.

#include "schedules/program/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/kernels.h"
#include "tests/codegen/runs.h"

namespace tw::codegen {
namespace {

using testing::HasSubstr;

std::string error_of(const Program& program) {
  Storage storage = integer_inputs(program, 1);
  const Status status = schedules::evaluate(program, storage);
  return status ? "" : status.error().message;
}

Program copy_of(Stmt body, std::vector<TaskAxis> axes = {}) {
  return single_phase({argument("in", Float32, {8}, false), argument("out", Float32, {8}, true)},
                      std::move(axes), {std::move(body)});
}

TEST(Evaluate, ReadsOutsideAreNamed) {
  const Expr i = var("i");
  const std::string error =
      error_of(copy_of(serial("i", 8, {assign("out", {i}, f32("in", {i + 1}))})));
  EXPECT_THAT(error, HasSubstr("buffer 'in'"));
  EXPECT_THAT(error, HasSubstr("dimension 0 at 8 is outside of [0, 8)"));
  EXPECT_THAT(error, HasSubstr("out[i] = in[i + 1]"));
  EXPECT_THAT(error, HasSubstr("i = 7"));
}

TEST(Evaluate, WhatIsNotExecutedIsNotChecked) {
  const Expr i = var("i");
  const Expr guarded = dsl::select(i + 1 < Expr(8), f32("in", {i + 1}), dsl::constant(Float32, 0));
  EXPECT_EQ(error_of(copy_of(serial("i", 8, {assign("out", {i}, guarded)}))), "");
  EXPECT_EQ(
      error_of(copy_of(serial("i", 9, {when(i < Expr(8), {assign("out", {i}, f32("in", {i}))})}))),
      "");
}

TEST(Evaluate, WritesOutsideAndOfInputsAreErrors) {
  const Expr i = var("i");
  EXPECT_THAT(error_of(copy_of(serial("i", 9, {assign("out", {i}, dsl::constant(Float32, 1))}))),
              HasSubstr("buffer 'out': dimension 0 at 8"));
  EXPECT_THAT(error_of(copy_of(assign("in", {0}, dsl::constant(Float32, 1)))),
              HasSubstr("an input is written"));
}

TEST(Evaluate, UnwrittenElementsAreNotRead) {
  const Expr i = var("i");
  const Stmt use = assign("out", {i}, f32("tmp", {i}));
  EXPECT_THAT(
      error_of(copy_of(serial("i", 8, {allocate("tmp", Float32, {8}, Scope::Local, {use})}))),
      HasSubstr("buffer 'tmp': element 0 is read before it was written"));
  EXPECT_THAT(error_of(copy_of(assign("out", {0}, dsl::constant(Float32, 1), Combine::Sum))),
              HasSubstr("combined before it was written"));
}

TEST(Evaluate, AnAllocationForgetsEachTime) {
  const Expr i = var("i");
  const Stmt first = when(dsl::eq(i, 0), {assign("tmp", {0}, dsl::constant(Float32, 1))});
  const Stmt use = assign("out", {i}, f32("tmp", {0}));
  EXPECT_THAT(error_of(copy_of(
                  serial("i", 8, {allocate("tmp", Float32, {1}, Scope::Local, {first, use})}))),
              HasSubstr("at i = 1"));
}

TEST(Evaluate, TasksThatMeetAreErrors) {
  const Expr t = var("t"), one = dsl::constant(Float32, 1);
  EXPECT_THAT(error_of(copy_of(assign("out", {t / 2}, one), {{"t", 8}})), HasSubstr("two tasks"));
  const Stmt write = assign("out", {t}, one);
  const Stmt read = when(t >= Expr(1), {assign("out", {t}, f32("out", {t - 1}))});
  Program reads = single_phase({argument("out", Float32, {8}, true)}, {{"t", 8}}, {write, read});
  EXPECT_THAT(error_of(reads), HasSubstr("two tasks"));
  reads.phases = {{"write", {{"t", 8}}, schedules::block({write})},
                  {"read", {}, schedules::block({assign("out", {0}, f32("out", {7}))})}};
  EXPECT_EQ(error_of(reads), "");  // a barrier lies between phases
}

TEST(Evaluate, MissingInputsAreUsageErrors) {
  const Program program = guarded_tail(5);
  Storage storage;
  const Status status = schedules::evaluate(program, storage);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Usage);
}

}  // namespace
}  // namespace tw::codegen

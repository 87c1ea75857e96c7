// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random computes whose stages work on rows, with schedules in which threads keep the elements of a
// row in registers (the step store_in). The length of a row need not be a multiple of the threads
// of a block.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "schedules/space/space.h"

namespace tw::schedules {

/// Tolerance of random_rows(), whose results may be rounded to 16 bits.
inline constexpr double rows_tolerance = 2e-2;

struct RowsCase {
  dsl::Compute compute;
  Schedule schedule;
};

/// Returns the stages that the schedule keeps in registers of threads.
inline std::vector<std::string> kept_stages(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const Step& step : schedule.steps())
    if (const auto* kept = std::get_if<StoreIn>(&step)) names.push_back(kept->stage);
  return names;
}

/// Returns a compute with one to three reductions of rows of `cols` elements: softmax, its
/// logarithm, a layer norm, a division by the root mean square, or `t * sum(t)` where `t` is a row
/// times the weights plus another row.
inline std::string random_rows_text(Random& random, int64_t rows, int64_t cols) {
  const std::string type = random.pick(std::vector<std::string>{"f32", "f32", "f16", "bf16"});
  const std::string inputs = fmt::format(
      "input a: {0}[{1}, {2}]\ninput b: {0}[{1}, {2}]\ninput w: {0}[{2}]\n", type, rows, cols);
  const std::vector<std::string> bodies = {
      R"(peak: f32[i={0}] = max(j={1}) f32(a[i, j])
e: f32[i={0}, j={1}] = exp(f32(a[i, j]) - peak[i])
total: f32[i={0}] = sum(j={1}) e[i, j]
out: {2}[i={0}, j={1}] = {2}(e[i, j] / total[i] * f32(b[i, j]) * f32(w[j])))",
      R"(peak: f32[i={0}] = max(j={1}) f32(a[i, j])
total: f32[i={0}] = sum(j={1}) exp(f32(a[i, j]) - peak[i])
out: {2}[i={0}, j={1}] = {2}(f32(a[i, j]) * f32(w[j]) - peak[i] - log(total[i]) + f32(b[i, j])))",
      R"(total: f32[i={0}] = sum(j={1}) f32(a[i, j])
spread: f32[i={0}] = sum(j={1}) (f32(a[i, j]) - total[i] / {1}.0) * (f32(a[i, j]) - total[i] / {1}.0)
out: {2}[i={0}, j={1}] = {2}((f32(a[i, j]) - total[i] / {1}.0) / sqrt(spread[i] / {1}.0 + 0.001) * f32(w[j]) + f32(b[i, j])))",
      R"(squares: f32[i={0}] = sum(j={1}) f32(a[i, j]) * f32(a[i, j])
out: {2}[i={0}, j={1}] = {2}(f32(a[i, j]) / sqrt(squares[i] / {1}.0 + 0.001) * f32(w[j]) + f32(b[i, j])))",
      R"(t: f32[i={0}, j={1}] = f32(a[i, j]) * f32(w[j]) + f32(b[i, j])
total: f32[i={0}] = sum(j={1}) t[i, j]
out: {2}[i={0}, j={1}] = {2}(t[i, j] * total[i]))"};
  return inputs + fmt::format(fmt::runtime(random.pick(bodies)), rows, cols, type);
}

/// Returns a random compute over rows, with a schedule of its space for sm_90a that keeps a stage
/// in registers.
inline RowsCase random_rows(Random& random) {
  const int64_t rows = 1 + random.below(5), cols = 32 + random.below(300);
  const std::string text = random_rows_text(random, rows, cols);
  const auto compute = dsl::parse_compute(text);
  EXPECT_TRUE(compute) << text << compute.error().message;
  const Target target = *parse_target("cuda:sm_90a");
  const Space space = Space::derive(*compute, target);
  for (;;) {
    const Schedule schedule = space.schedule(space.sample(random));
    if (!kept_stages(schedule).empty() && schedule.program(limits_of(target)))
      return {*compute, schedule};
  }
}

}  // namespace tw::schedules

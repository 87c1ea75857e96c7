// SPDX-License-Identifier: Apache-2.0
#pragma once
// Spaces to test with, and functions that change and find points in them.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "dsl/operators.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/space/find_point.h"
#include "schedules/space/space.h"

namespace tw::schedules {

/// Expressions such as users write: two products, the first of which may be computed inside of the
/// second; row sums that each element is divided by; a producer that is read in overlapping
/// windows; and a product of integers.
inline constexpr std::string_view user_expressions[] = {
    R"(input a: f32[64, 128]
weight b: f32[128, 96]
weight bias: f32[96]
weight d: f32[96, 40]
c: f32[m=64, n=96] = sum(k=128) a[m, k] * b[k, n]
r: f32[m=64, n=96] = max(c[m, n] + bias[n], 0.0)
out: f32[m=64, o=40] = sum(n=96) r[m, n] * d[n, o])",
    R"(input a: f32[300, 100]
s: f32[i=300] = sum(j=100) a[i, j]
out: f32[i=300, j=100] = exp(a[i, j]) / s[i])",
    R"(input a: f32[66, 130]
rows: f32[y=66, x=128] = sum(s=3) a[y, x + s]
out: f32[y=64, x=128] = sum(r=3) rows[y + r, x])",
    R"(input a: i8[7, 33]
input b: i8[33, 11]
out: i8[m=7, n=11] = sum(k=33) a[m, k] * b[k, n])"};

struct Case {
  std::string name;
  dsl::Compute compute;
};

/// Returns every named operator at its example shape, and the user expressions.
inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (const dsl::Operator& op : dsl::operators()) {
    const auto shape = dsl::parse_shape(op.example, op.name);
    const auto workload = dsl::make_workload(op.name, *shape);
    all.push_back({workload->key(), workload->compute});
  }
  for (const std::string_view text : user_expressions) {
    const auto compute = dsl::parse_compute(text);
    EXPECT_TRUE(compute) << text << compute.error().message;
    all.push_back({std::string(text), *compute});
  }
  return all;
}

inline Space space_of(const dsl::Compute& compute, const char* target = "x86-64-v4") {
  return Space::derive(compute, *parse_target(target));
}

/// Returns the value of the first knob with this name in a configuration such as "out: gpu_simt
/// block.rows=64 ...", or `otherwise` if there is none.
inline int64_t value_of(const std::string& configuration, const std::string& knob,
                        int64_t otherwise = 0) {
  for (const std::string& word : words(configuration))
    if (word.starts_with(knob + "="))
      return *parse_int(split(word.substr(knob.size() + 1), ';')[0]);
  return otherwise;
}
inline int64_t value_of(const Space& space, const Point& point, const std::string& knob,
                        int64_t otherwise = 0) {
  return value_of(space.to_string(point), knob, otherwise);
}

/// Other values of some knobs.
using KnobChanges = std::vector<std::pair<std::string, int64_t>>;

/// Returns the point with new values for all knobs of its configuration that `changes` names.
/// Returns nullopt if a knob does not have that value. Knobs that the configuration lacks are
/// skipped if `lenient`; otherwise they give nullopt, too.
inline std::optional<Point> changed(const Space& space, const Point& point,
                                    const KnobChanges& changes, bool lenient = false) {
  std::vector<std::string> parts = words(space.to_string(point));
  for (const auto& [knob, value] : changes) {
    bool found = lenient;
    for (std::string& part : parts) {
      if (!part.starts_with(knob + "=")) continue;
      part = knob + "=" + std::to_string(value) + (part.ends_with(";") ? ";" : "");
      found = true;
    }
    if (!found) return std::nullopt;
  }
  return space.parse(join(parts, " "));
}

/// Samples schedules and looks for their points. Returns the number of schedules for which
/// point_of() finds an allowed point with the same steps.
inline int found_back(const Space& space, int samples, uint64_t seed) {
  Random random(seed);
  int found = 0;
  for (int i = 0; i < samples;) {
    const Schedule schedule = space.schedule(space.sample(random));
    if (schedule.error()) continue;  // no trial has such a schedule
    ++i;
    const auto point = point_of(space, schedule);
    found += point && space.allowed(*point) &&
             space.schedule(*point).to_string() == schedule.to_string();
  }
  return found;
}

}  // namespace tw::schedules

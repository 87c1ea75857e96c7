// SPDX-License-Identifier: Apache-2.0
#include "dsl/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/parse.h"

namespace tw::dsl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Stage last_stage(const std::string& text) { return parse_compute(text).value().stages.back(); }

constexpr const char* gather =
    "input p: i64[4]; input t: f32[1000, 8]; "
    "out: f32[i=4, c=8] = sum(v=1000) select(p[i] == v, t[v, c], 0)";

TEST(Selection, OfAGatherIsTheReducedAxis) {
  const Selection found = selection_of(last_stage(gather));
  EXPECT_THAT(found.selected, ElementsAre("v"));
  EXPECT_THAT(found.selectors, ElementsAre("i"));
  EXPECT_EQ(evaluations_of(last_stage(gather)), 4 * 8);
}

TEST(Selection, OfAScatterIsASpatialAxis) {
  const Stage stage = last_stage(
      "input p: i64[10]; input u: f32[10, 8]; "
      "out: f32[i=500, c=8] = sum(k=10) select(k < 7 && p[k] == i, u[k, c], 0)");
  EXPECT_THAT(selection_of(stage).selected, ElementsAre("i"));
  EXPECT_THAT(selection_of(stage).selectors, ElementsAre("k"));
  EXPECT_EQ(evaluations_of(stage), 10 * 8);
}

TEST(Selection, TakesSeveralAxes) {
  const Stage stage = last_stage(
      "input p: i64[4, 2]; input t: f32[5, 6]; "
      "out: f32[i=4] = sum(v=5, w=6) select(p[i, 0] == v && p[i, 1] == w, t[v, w], 0)");
  EXPECT_THAT(selection_of(stage).selected, ElementsAre("v", "w"));
  EXPECT_EQ(evaluations_of(stage), 4);
}

TEST(Selection, IsBehindConversionsAndInFactors) {
  for (const char* term :
       {"f32(select(p[i] == v, t[v], 0))", "select(p[i] == v, t[v], 0) * w[v]"}) {
    const std::string text =
        "input p: i64[4]; input t: f32[5]; weight w: f32[5]; out: f32[i=4] = sum(v=5) ";
    EXPECT_THAT(selection_of(last_stage(text + term)).selected, ElementsAre("v")) << term;
  }
}

// If an index depends on an axis, it does not select that axis. An axis that is selected does not
// select another one.
TEST(Selection, LeavesAllElse) {
  for (const char* text :
       {"input p: i64[5]; out: i64[i=4] = sum(v=5) select(p[v] == v, p[v], 0)",
        "input t: f32[5]; out: f32[i=4] = sum(v=5) select(i + 1 == v, t[v], 0)",
        "input p: i64[4]; input t: f32[5]; out: f32[i=4] = sum(v=5) select(p[i] == v, t[v], 1)",
        "input p: i64[4]; input t: f32[5]; out: f32[i=4] = sum(v=5) select(p[i] <= v, t[v], 0)",
        "input p: i64[4]; out: f32[i=4, v=5] = select(p[i] == v, 1.0, 0.0)"})
    EXPECT_THAT(selection_of(last_stage(text)).selected, IsEmpty()) << text;
  const Selection chain = selection_of(
      last_stage("input p: i64[5]; input q: i64[4]; "
                 "out: i64[i=4] = sum(v=5, w=6) select(q[i] == v && p[v] == w, 1, 0)"));
  EXPECT_THAT(chain.selected, ElementsAre("v"));
}

}  // namespace
}  // namespace tw::dsl

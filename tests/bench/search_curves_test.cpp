// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/search/curves.h"
#include "bench/search/report.h"

namespace tw::bench {
namespace {

using testing::HasSubstr;

/// Returns a trace that claims 400 ns, then 200, then 100. Its winner takes 110 ns in the end.
Trace steady() {
  Trace trace;
  trace.strategy = "evolution";
  trace.claims = {{1, 1, 400}, {2, 8, 200}, {4, 20, 100}};
  trace.end = {10, 50, 100};
  trace.final_ns = 110;
  trace.schedule = "tw1";
  return trace;
}

/// Returns a trace whose first candidates fail. It claims 200 ns, and its winner takes 220 ns.
Trace late() {
  Trace trace;
  trace.strategy = "random";
  trace.claims = {{3, 5, 200}};
  trace.end = {10, 60, 200};
  trace.final_ns = 220;
  return trace;
}

Trace failed() {
  Trace trace;
  trace.strategy = "random";
  trace.error = "[tune] none is valid";
  return trace;
}

SearchRow row(const std::string& name, std::vector<Trace> traces) {
  SearchRow made;
  made.name = name;
  made.traces = std::move(traces);
  made.onednn_ns = 225;
  made.flops = 1000;
  made.peak_gflops = 100;
  return made;
}

TEST(SearchCurves, AreScaledToWhatTheWinnerTookInTurn) {
  const Trace trace = steady();
  EXPECT_DOUBLE_EQ(trace.scaled(trace.claims[0]).ns, 440);
  EXPECT_EQ(trace.ns_after_trials(0), std::nullopt);
  EXPECT_DOUBLE_EQ(trace.ns_after_trials(7).value(), 440);
  EXPECT_DOUBLE_EQ(trace.ns_after_trials(8).value(), 220);
  EXPECT_DOUBLE_EQ(trace.ns_after_trials(1000).value(), 110);
  EXPECT_EQ(trace.ns_after_seconds(0.5), std::nullopt);
  EXPECT_DOUBLE_EQ(trace.ns_after_seconds(3.9).value(), 220);
}

TEST(SearchCurves, GoalsAreReachedAtTheFirstMomentThatIsFastEnough) {
  const Trace trace = steady();
  ASSERT_TRUE(trace.reach(230));
  EXPECT_EQ(trace.reach(230)->trials, 8);
  EXPECT_EQ(trace.reach(230)->seconds, 2);
  EXPECT_EQ(trace.reach(219)->trials, 20);
  EXPECT_FALSE(trace.reach(109));
}

TEST(SearchCurves, TheBestKnownIsOfAnyWinnerOrOfTheDatabase) {
  SearchRow one = row("a", {steady(), late(), failed()});
  EXPECT_DOUBLE_EQ(one.best_ns(), 110);
  one.known_ns = 55;
  EXPECT_DOUBLE_EQ(one.best_ns(), 55);
}

TEST(SearchCurves, SummariesAreGeometricMeansAndMedians) {
  SearchRow fast = row("b", {steady()});
  fast.known_ns = 27.5;  // a quarter of the time that the search found
  const auto summaries = summarize({row("a", {steady(), late()}), fast});
  ASSERT_EQ(summaries.size(), 2u);
  const SearchSummary& evolution = summaries[0];
  EXPECT_EQ(evolution.strategy, "evolution");
  EXPECT_EQ(evolution.rows, 2);
  EXPECT_NEAR(evolution.winner.value(), 0.5, 1e-12) << "1 and 1/4";
  EXPECT_NEAR(evolution.first.value(), 0.125, 1e-12) << "1/4 and 1/16";
  EXPECT_NEAR(evolution.shares[0].value(), 0.125, 1e-12) << "after one trial";
  EXPECT_NEAR(evolution.shares[3].value(), 0.25, 1e-12) << "after eight";
  EXPECT_EQ(evolution.to_95.reached, 1);
  EXPECT_EQ(evolution.to_95.seconds, std::nullopt) << "the middle between 4 s and never";
  EXPECT_EQ(evolution.to_onednn.reached, 2);
  EXPECT_EQ(evolution.to_onednn.trials, 8);
  const SearchSummary& random = summaries[1];
  EXPECT_EQ(random.shares[0], std::nullopt) << "nothing valid after one trial";
  EXPECT_NEAR(random.shares[3].value(), 0.5, 1e-12);
}

TEST(SearchCurves, FailuresAndThreadsAreCountedApart) {
  SearchRow broken = row("b", {steady()});
  broken.error = "[bench] outputs differ";
  SearchRow wide = row("c", {steady()});
  wide.threads = 2;
  const auto summaries = summarize({row("a", {steady(), failed()}), broken, wide});
  ASSERT_EQ(summaries.size(), 3u);
  EXPECT_EQ(summaries[0].rows, 1);
  EXPECT_EQ(summaries[0].failed, 1);
  EXPECT_EQ(summaries[1].rows, 0);
  EXPECT_EQ(summaries[1].winner, std::nullopt);
  EXPECT_EQ(summaries[2].threads, 2);
}

TEST(SearchCurves, RowsWithoutOneDnnAreNotHeldAgainstIt) {
  SearchRow without = row("b", {steady()});
  without.onednn_ns = 0;
  const std::vector<SearchRow> rows = {row("a", {steady()}), without};
  const auto summaries = summarize(rows);
  EXPECT_EQ(summaries[0].rows, 2);
  EXPECT_EQ(summaries[0].to_onednn.reached, 1);
  EXPECT_EQ(summaries[0].to_onednn.seconds, 2) << "that of the other row";
  EXPECT_TRUE(as_json(rows).at("rows").at(1).at("onednn_us").is_null());
}

TEST(SearchReport, JsonHoldsPointsOnTheCommonScale) {
  const auto json = as_json({row("a", {steady(), failed()})});
  const auto& a = json.at("rows").at(0);
  EXPECT_DOUBLE_EQ(a.at("best_us"), 0.11);
  EXPECT_DOUBLE_EQ(a.at("onednn_us"), 0.225);
  const auto& trace = a.at("traces").at(0);
  EXPECT_EQ(trace.at("points").size(), 3u);
  EXPECT_EQ(trace.at("points").at(1), nlohmann::json({2.0, 8, 0.22}));
  EXPECT_EQ(trace.at("to_95").at("trials"), 20);
  EXPECT_DOUBLE_EQ(trace.at("to_onednn").at("seconds"), 2);
  EXPECT_EQ(a.at("traces").at(1).at("error"), "[tune] none is valid");
  const auto& summary = json.at("summary").at(0);
  EXPECT_DOUBLE_EQ(summary.at("shares").at("8"), 0.5);
  EXPECT_TRUE(json.at("summary").at(1).at("winner").is_null());
}

TEST(SearchReport, TablesNameFailures) {
  SearchRow broken = row("broken", {steady()});
  broken.error = "[bench] outputs differ";
  const std::string text = as_table({row("a", {steady(), failed()}), broken}, false);
  EXPECT_THAT(text, HasSubstr("outputs differ"));
  EXPECT_THAT(text, HasSubstr("none is valid"));
  EXPECT_THAT(text, HasSubstr("evolution"));
}

TEST(SearchReport, ReplaysAreByGuideAndWorkload) {
  Replays replays;
  replays.recordings.resize(2);
  replays.recordings[0].workload = "first";
  replays.recordings[1].workload = "second";
  replays.seeds = {1, 2};
  replays.guides = {tuner::Guide::Random};
  replays.replayed = {{{{0.25, 0.5}, {1, 1}}}};
  const auto json = as_json(replays);
  const auto& random = json.at("guides").at("random");
  EXPECT_DOUBLE_EQ(random.at("shares").at("1"), 0.5);
  EXPECT_DOUBLE_EQ(random.at("workloads").at("first").at("64"), 0.5);
  EXPECT_THAT(as_table(replays, false), HasSubstr("50.00"));
}

}  // namespace
}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tw::bench {
namespace {

using testing::HasSubstr;

Row row(const std::string& name, double ours_ns, double peer_ns, int64_t count, int threads) {
  Row result;
  result.name = name;
  result.count = count;
  result.threads = threads;
  const double ratio = peer_ns / ours_ns;
  result.versus = {{ours_ns, 0.9 * ours_ns, 1.1 * ours_ns},
                   {peer_ns, 0.9 * peer_ns, 1.1 * peer_ns},
                   {ratio, 0.8 * ratio, 1.2 * ratio},
                   0.5 * ours_ns,
                   0.5 * peer_ns,
                   10};
  result.flops = 2000;
  result.peak_gflops = 4;
  result.roofline = {.latency_ns = ours_ns,
                     .flops = 2000,
                     .peak_gflops = 4,
                     .traffic = {4000, 2000},
                     .level = "L1"};
  return result;
}

std::vector<Row> rows() {
  Row failed = row("c", 1, 1, 1, 1);
  failed.error = "[bench] no kernel";
  Row searched = row("b", 2000, 1000, 1, 1);
  searched.searched = true;
  return {row("a", 1000, 2000, 3, 1), searched, failed, row("a", 500, 2000, 3, 2)};
}

Heading heading() {
  Heading h;
  h.suite = "some";
  h.peer = "onednn";
  h.peer_version = "3.2.0";
  h.date = "2001-02-03";
  h.budget_s = 5;
  return h;
}

TEST(Report, SummariesAreByThreadsAndLeaveFailuresOut) {
  const auto summaries = summarize(rows());
  ASSERT_EQ(summaries.size(), 2u);
  const Summary& one = summaries.at(1);
  EXPECT_EQ(one.rows, 2);
  EXPECT_EQ(one.failed, 1);
  EXPECT_NEAR(one.geomean, 1, 1e-12) << "2 and 1/2";
  EXPECT_DOUBLE_EQ(one.ours_ns, 3 * 1000 + 2000);
  EXPECT_DOUBLE_EQ(one.peer_ns, 3 * 2000 + 1000);
  EXPECT_EQ(one.high, 0) << "2 is not above 2";
  EXPECT_NEAR(one.geomean_without_high, 1, 1e-12);
  EXPECT_NEAR(summaries.at(2).geomean, 4, 1e-12);
}

TEST(Report, TheMeanIsAlsoThatWithoutTheRowsAboveTwo) {
  std::vector<Row> all = rows();
  all.push_back(row("d", 1000, 8000, 1, 1));
  const Summary one = summarize(all).at(1);
  EXPECT_NEAR(one.geomean, 2, 1e-12) << "2, 1/2 and 8";
  EXPECT_EQ(one.high, 1);
  EXPECT_NEAR(one.geomean_without_high, 1, 1e-12);
  EXPECT_THAT(as_table(heading(), all, false), HasSubstr("1.000 without the 1 above 2"));
  const auto json = as_json(heading(), all).at("summary");
  EXPECT_EQ(json.at("1").at("high"), 1);
  EXPECT_EQ(json.at("2").at("geomean_without_high"), 0) << "no row is left";
}

TEST(Report, JsonHoldsTheFigures) {
  const auto json = as_json(heading(), rows());
  EXPECT_EQ(json.at("schema_version"), results_schema_version);
  EXPECT_EQ(json.at("date"), "2001-02-03");
  EXPECT_EQ(json.at("peer").at("version"), "3.2.0");
  EXPECT_EQ(json.at("options").at("budget_s"), 5);
  const auto& a = json.at("rows").at(0);
  EXPECT_DOUBLE_EQ(a.at("ours_us"), 1);
  EXPECT_DOUBLE_EQ(a.at("ours_least_us"), 0.5);
  EXPECT_DOUBLE_EQ(a.at("ratio"), 2);
  for (const std::string name : {"ours", "peer", "ratio"}) {
    const std::string unit = name == "ratio" ? "" : "_us";
    EXPECT_LT(a.at(name + "_low" + unit), a.at(name + unit)) << name;
    EXPECT_GT(a.at(name + "_high" + unit), a.at(name + unit)) << name;
  }
  EXPECT_DOUBLE_EQ(a.at("gflops"), 2);
  EXPECT_DOUBLE_EQ(a.at("peak_share"), 0.5);
  EXPECT_DOUBLE_EQ(a.at("memory").at("gb_per_s"), 6);
  EXPECT_EQ(a.at("memory").at("bounds"), true);
  EXPECT_FALSE(a.at("memory").contains("level_share"));
  const auto& c = json.at("rows").at(2);
  EXPECT_EQ(c.at("error"), "[bench] no kernel");
  EXPECT_FALSE(c.contains("ratio"));
  EXPECT_EQ(json.at("summary").at("1").at("failed"), 1);
}

TEST(Report, WithoutASearchNoBudgetWasSpent) {
  const std::vector<Row> known = {row("a", 1000, 2000, 1, 1)};
  EXPECT_EQ(as_json(heading(), known).at("options").at("budget_s"), 0);
}

TEST(Report, RowsThatMemoryBoundsAreMarked) {
  std::vector<Row> timed = {row("a", 1000, 2000, 1, 1)};
  EXPECT_THAT(as_table(heading(), timed, false), HasSubstr("6.0  -"));
  timed[0].roofline.level_gb_per_s = 8;
  EXPECT_THAT(as_table(heading(), timed, false), HasSubstr("75<"));
  // At the peak the 2000 operations take 500 ns. The 6000 bytes take less at 16 GB/s.
  timed[0].roofline.level_gb_per_s = 16;
  EXPECT_THAT(as_table(heading(), timed, false), HasSubstr("38"));
  EXPECT_THAT(as_table(heading(), timed, false), testing::Not(HasSubstr("<")));
  EXPECT_DOUBLE_EQ(as_json(heading(), timed).at("rows").at(0).at("memory").at("level_share"),
                   0.375);
}

TEST(Report, OfAGpuItsPeakAndWhatIsWrongAreSaid) {
  Heading h = heading();
  h.target = parse_target("cuda:sm_90a").value();
  h.target.cpu = "NVIDIA H200";
  h.graphs = true;
  std::vector<Row> all = rows();
  all[0].wrong_forms["algorithm 6 NCHW"] = "[bench] 'out' differs";
  EXPECT_THAT(as_table(h, all, false), HasSubstr("NVIDIA H200: 4 GFLOP/s"));
  const auto json = as_json(h, all);
  EXPECT_EQ(json.at("options").at("graphs"), true);
  EXPECT_EQ(json.at("rows").at(0).at("peer_forms_wrong").at("algorithm 6 NCHW"),
            "[bench] 'out' differs");
  EXPECT_FALSE(as_json(heading(), rows()).at("options").contains("graphs"));
}

TEST(Report, TableMarksDisturbedRows) {
  std::vector<Row> all = rows();
  EXPECT_THAT(as_table(heading(), all, false), testing::Not(HasSubstr("*")));
  all[0].disturbed = "5 switches";
  const std::string table = as_table(heading(), all, false);
  EXPECT_THAT(table, HasSubstr("2.000*"));
  EXPECT_THAT(table, HasSubstr("* " + all[0].name + ": 5 switches"));
  EXPECT_THAT(table, HasSubstr("[bench] no kernel"));
}

}  // namespace
}  // namespace tw::bench

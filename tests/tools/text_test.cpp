// SPDX-License-Identifier: Apache-2.0
// Tests the text forms of values, tables and progress on the command line and in results.

#include "base/text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/flags/completion.h"
#include "tools/flags/quote.h"
#include "tools/reports/progress.h"
#include "tools/reports/report.h"
#include "tools/surroundings.h"
#include "tools/verb.h"

namespace tw::tools {
namespace {

TEST(Notes, WhatAFileHoldsDoesNotCommandTheTerminal) {
  EXPECT_EQ(without_controls("two\n\tlines \xc3\xa9"), "two\n\tlines \xc3\xa9");
  EXPECT_EQ(without_controls(std::string("\033[2J\r\x7f\0.", 7)), "\\x1b[2J\\x0d\\x7f\\x00");
}

TEST(Seconds, UnitsAndBareNumbers) {
  EXPECT_EQ(parse_seconds("90").value(), 90);
  EXPECT_EQ(parse_seconds("1.5s").value(), 1.5);
  EXPECT_EQ(parse_seconds("500ms").value(), 0.5);
  EXPECT_EQ(parse_seconds("5m").value(), 300);
  EXPECT_EQ(parse_seconds("2h").value(), 7200);
}

TEST(Seconds, Fault04_WhatIsNoTime) {
  for (const char* text :
       {"", "s", "0", "-1s", "5d", "1e400", "nan", "inf", "5 m", "1e8", "ms", "5,5s"})
    EXPECT_FALSE(parse_seconds(text).has_value()) << text;
}

TEST(Quote, SafeWordsStayThemselves) {
  EXPECT_EQ(shell_quoted("/a/b-c_d.db"), "/a/b-c_d.db");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's $(x)"), "'it'\\''s $(x)'");
}

TEST(Table, PadsByCharactersAndPutsNumbersToTheRight) {
  const Table table{{"name", "time"}, {{"a", "1.5 µs"}, {"long", "12.5 µs"}}};
  EXPECT_EQ(as_text(table), "name     time\na      1.5 µs\nlong  12.5 µs\n");
}

/// Returns the number of characters of the widest line.
size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (const std::string& line : split(text, '\n')) widest = std::max(widest, width(line));
  return widest;
}

TEST(Table, ARowThatDoesNotFitGoesOnBelow) {
  const Table table{{"record", "status", "latency", "workload"},
                    {{"0123456789abcdef", "ok", "12.5 µs", "dense m=64 n=64 k=64 f32 fast"},
                     {"fedcba9876543210", "hopeless", "2.5 µs", "short"}}};
  EXPECT_EQ(as_text(table, false, 64),
            "record            status    latency  workload\n"
            "0123456789abcdef  ok        12.5 µs  dense m=64 n=64 k=64 f32\n"
            "                                     fast\n"
            "fedcba9876543210  hopeless   2.5 µs  short\n");
  EXPECT_EQ(as_text(table, false, 40),
            "record            status    latency\n"
            "    workload\n"
            "0123456789abcdef  ok        12.5 µs\n"
            "    dense m=64 n=64 k=64 f32 fast\n"
            "fedcba9876543210  hopeless   2.5 µs\n"
            "    short\n");
  for (int columns = 38; columns < 90; ++columns)
    EXPECT_LE(widest_line(as_text(table, false, columns)), static_cast<size_t>(columns));
  EXPECT_EQ(as_text(table, false, 90), as_text(table));
}

TEST(Table, ControlCharactersOfStrangersAreEscaped) {
  const std::string name =
      "a\033[2J\xc2\x9b"
      "1m\n";
  const Table table{{"session", "n"}, {{name, "1"}}};
  EXPECT_EQ(as_text(table), "session               n\na\\x1b[2J\\u009b1m\\x0a  1\n");
  EXPECT_EQ(as_text(Facts{{"session", name}}), "session  a\\x1b[2J\\u009b1m\n\n");
  EXPECT_EQ(as_csv(table), "session,n\n\"" + name + "\",1\n");  // for programs, so unchanged
}

TEST(Table, WhatIsPrintedKeepsItsOwnHighlightAndNoOtherSequence) {
  testing::internal::CaptureStdout();
  ASSERT_TRUE(print(as_text(Table{{"session"}, {{"b"}}}, true) + "of \033]0;title\a\n"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "\033[1msession\033[0m\nb\nof \\x1b]0;title\\x07\n");
}

TEST(Table, FactsAreNotAlignedAsNumbers) {
  EXPECT_EQ(as_text(Facts{{"a", "12"}, {"long", "text"}}), "a     12\nlong  text\n");
}

TEST(Table, CsvQuotesWhatNeedsIt) {
  const Table table{{"a", "b"}, {{"1,2", "say \"x\"\n"}}};
  EXPECT_EQ(as_csv(table), "a,b\n\"1,2\",\"say \"\"x\"\"\n\"\n");
}

TEST(Numbers, Times) {
  EXPECT_EQ(time_text(0), "-");
  EXPECT_EQ(time_text(12.34), "12.3 ns");
  EXPECT_EQ(time_text(235'100), "235.1 µs");
  EXPECT_EQ(time_text(1'949'826), "1.95 ms");
  EXPECT_EQ(time_text(2.5e9), "2.50 s");
}

TEST(Numbers, Shares) {
  EXPECT_EQ(show_share(0.5), "50 %");
  EXPECT_EQ(show_share(0.0999), "10 %");
  EXPECT_EQ(show_share(0.01), "1.0 %");
  EXPECT_EQ(show_share(0.0004), "0.04 %");
}

TEST(Numbers, Counts) {
  EXPECT_EQ(show_counts({{"hopeless", 3}, {"ok", 45}}), "45 ok, 3 pruned");
  EXPECT_EQ(show_status(db::TrialStatus::Hopeless), "pruned");
}

TEST(Progress, BeforeTheFirstTrial) {
  tuner::Progress p;
  p.budget_s = 60;
  EXPECT_EQ(progress_text(p), "getting ready | 60 s left | 0 trials");
  p.preparing = "predicting kernel 4 of 61";
  EXPECT_EQ(progress_text(p), "predicting kernel 4 of 61 | 60 s left");
  p.budget_s = 0;  // as for --effort none
  EXPECT_EQ(progress_text(p), "predicting kernel 4 of 61");
  p.preparing.clear();
  p.budget_s = 60;
}

TEST(Progress, TheBestAgainstPeakAndUntuned) {
  tuner::Progress p;
  p.budget_s = 60;
  p.elapsed_s = 48;
  p.trials = {{"ok", 45}, {"hopeless", 3}};
  p.known_trials = 12;
  p.best_ns = 1e6;
  p.untuned_ns = 38e6;
  p.flops = 100e6;
  p.peak_gflops = 125;
  p.model = "analytic";
  EXPECT_EQ(progress_text(p),
            "best 1.00 ms, 100.0 GFLOP/s, 80 % of peak, 38.0x untuned | 12 s left | "
            "48 trials (45 ok, 3 pruned), 12 known | model analytic");
}

TEST(Progress, ANarrowTerminalKeepsTheBestAndTheTime) {
  tuner::Progress p;
  p.budget_s = 7200;
  p.elapsed_s = 48;
  p.name = "resnet_layer_12";
  p.tasks = 23;
  p.finished = 4;
  p.trials = {{"ok", 4500}, {"hopeless", 300}, {"compile_error", 12}};
  p.known_trials = 12'000;
  p.best_ns = 235.1e3;
  p.untuned_ns = 9e6;
  p.flops = 23e6;
  p.peak_gflops = 125;
  p.next_gain = 0.0042;
  p.model = "analytic, corrected by 24 trials: rank correlation 0.81 (without 0.62)";
  const std::string whole = progress_text(p);
  EXPECT_NE(whole.find("model analytic, corrected"), std::string::npos);
  for (int columns = 79; columns < 250; ++columns) {
    const std::string text = progress_text(p, columns);
    EXPECT_LE(width(text), static_cast<size_t>(columns)) << text;
    for (const char* part : {"resnet_layer_12 (4/23 done)", "best 235.1 µs", "7152 s left"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(progress_text(p, static_cast<int>(width(whole))), whole);
}

TEST(Progress, WhatTheNextMinuteIsWorth) {
  tuner::Progress p;
  p.budget_s = 300;
  p.next_gain = 0.0042;
  EXPECT_NE(progress_text(p).find("| 300 s left | expected gain of the next minute: 0.4 % |"),
            std::string::npos);
  p.elapsed_s = 270;
  p.next_gain = 0.00042;
  EXPECT_NE(progress_text(p).find("| 30 s left | expected gain of the rest: 0.04 % |"),
            std::string::npos);
}

TEST(Progress, OfASuiteNamesTheWorkload) {
  tuner::Progress p;
  p.budget_s = 60;
  p.name = "r05";
  p.tasks = 23;
  p.finished = 4;
  EXPECT_EQ(progress_text(p), "r05 (4/23 done): getting ready | 60 s left | 0 trials");
}

TEST(Progress, AfterTheBudgetItSaysWhatIsWaitedFor) {
  tuner::Progress p;
  p.budget_s = 1;
  p.elapsed_s = 2;
  EXPECT_NE(progress_text(p).find("| finishing |"), std::string::npos);
  p.finishing = "building the winner";
  EXPECT_NE(progress_text(p).find("| finishing: building the winner |"), std::string::npos);
}

TEST(EnvironmentNames, FollowTheFlags) {
  EXPECT_EQ(environment_name("dry-run"), "TILEWRIGHT_DRY_RUN");
}

TEST(Completion, HiddenVerbsStayHidden) {
  const std::vector<Verb> verbs = {{.name = "shown", .summary = "it's shown"},
                                   {.name = "secret", .summary = "not", .hidden = true}};
  for (const std::string& script :
       {bash_completion(verbs), zsh_completion(verbs), fish_completion(verbs)}) {
    EXPECT_NE(script.find("shown"), std::string::npos);
    EXPECT_EQ(script.find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace tw::tools

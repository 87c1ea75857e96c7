// SPDX-License-Identifier: Apache-2.0
// The examples in docs/schedules.md and docs/tutorial.md and the files of golden/ must show what
// the code prints. Run the tests with TW_UPDATE_GOLDEN=1 to rewrite these files, then review the
// changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/text.h"
#include "dsl/workload.h"
#include "schedules/space/strategy.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Expects the file to contain `actual`. If TW_UPDATE_GOLDEN is set, writes `actual` to the file
/// first.
void expect_file(const fs::path& path, const std::string& actual) {
  if (std::getenv("TW_UPDATE_GOLDEN")) std::ofstream(path) << actual;
  EXPECT_EQ(contents(path), actual) << path;
}

/// Returns the part of `program` from the text `head` up to the next line that begins with "phase".
/// Returns the whole program if `head` is empty, begins with "kernel" or "preparation", or does not
/// occur.
std::string part_of(const std::string& program, const std::string& head) {
  if (head.empty() || head.starts_with("kernel") || head.starts_with("preparation")) return program;
  const size_t begin = program.find(head);
  if (begin == std::string::npos) return program;
  const size_t end = program.find("\nphase", begin);
  return program.substr(begin, end == std::string::npos ? end : end + 1 - begin);
}

struct Page {
  std::string text;
  int blocks = 0;
};

/// Returns the page with the contents of its `program` and `error` blocks computed again, from the
/// last `tw` block (compute) and `tw1` block (steps) before each.
Page regenerated(const std::string& page) {
  Page result;
  std::string compute, steps;
  std::istringstream in(page);
  for (std::string line; std::getline(in, line);) {
    result.text += line + "\n";
    if (!line.starts_with("```") || line == "```") continue;
    std::string body;
    for (std::string inner; std::getline(in, inner) && inner != "```";) body += inner + "\n";
    if (line == "```tw") compute = body, steps = "";
    if (line == "```tw1") steps = body.starts_with("tw1") ? body : "tw1\n" + body;
    if (line == "```program" || line == "```error") {
      ++result.blocks;
      const auto declared = dsl::parse_compute(compute);
      const auto schedule = parse_schedule(declared.value(), steps);
      const auto program = schedule ? schedule->program() : tl::unexpected<Error>(schedule.error());
      EXPECT_EQ(program.has_value(), line == "```program")
          << steps << (program ? "" : program.error().message);
      if (program) {
        EXPECT_EQ(disagreement(*declared, *program), std::nullopt) << steps;
        body = part_of(to_string(*program), body.substr(0, body.find('\n')));
      } else {
        body = program.error().message + "\n";
      }
    }
    result.text += body + "```\n";
  }
  return result;
}

TEST(Docs, BlocksOfThePageAreWhatTheCodePrints) {
  const fs::path path = TW_SOURCE_DIR "/docs/schedules.md";
  const Page page = regenerated(contents(path));
  EXPECT_GE(page.blocks, 20);
  expect_file(path, page.text);
}

TEST(Docs, BlocksOfTheTutorialAreWhatTheCodePrints) {
  const fs::path path = TW_SOURCE_DIR "/docs/tutorial.md";
  const Page page = regenerated(contents(path));
  EXPECT_GE(page.blocks, 10);
  expect_file(path, page.text);
}

TEST(Docs, EveryStepHasASectionThatNamesItsFields) {
  const std::string page = contents(TW_SOURCE_DIR "/docs/schedules.md");
  for (const std::string& usage : step_usages())
    EXPECT_NE(page.find("`" + usage + "`"), std::string::npos) << usage;
}

TEST(Docs, EveryStrategyIsShown) {
  const std::string page = contents(TW_SOURCE_DIR "/docs/schedules.md");
  for (const Strategy& strategy : strategies())
    EXPECT_NE(page.find("\n| `" + std::string(strategy.name) + "` | "), std::string::npos)
        << strategy.name;
}

/// A golden file has the key of a workload, the schedule, a line `---`, and the program to which
/// the schedule must be lowered.
TEST(Golden, SchedulesLowerToTheirPrograms) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(TW_SOURCE_DIR "/tests/schedules/golden")) {
    if (entry.path().extension() != ".tw1") continue;
    SCOPED_TRACE(entry.path());
    ++files;
    const std::string text = contents(entry.path());
    const size_t line = text.find('\n'), rule = text.find("\n---\n");
    ASSERT_NE(rule, std::string::npos);
    const auto workload = dsl::parse_workload(text.substr(0, line));
    ASSERT_TRUE(workload) << workload.error().message;
    const std::string steps = text.substr(line + 1, rule - line - 1);
    const auto schedule = parse_schedule(workload->compute, steps);
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_EQ(schedule->to_string(), steps);
    const auto program = schedule->program();
    ASSERT_TRUE(program) << program.error().message;
    expect_file(entry.path(), text.substr(0, rule) + "\n---\n" + to_string(*program));
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
// Compares the hashes of default schedules, with which searches begin, with a golden file. It
// covers every operator at its example shape and a few expressions. A difference shows which
// defaults a change of a strategy affects. If the change is intended, run with TW_UPDATE_GOLDEN=1
// to rewrite the file.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/schedules/spaces.h"

namespace tw::schedules {
namespace {

TEST(Defaults, AreThoseOfTheGoldenFile) {
  const std::string path = TW_SOURCE_DIR "/tests/schedules/golden/defaults.txt";
  std::ifstream in(path);
  std::string actual;
  for (const char* target : {"x86-64-v3", "x86-64-v4", "arm-64-linux", "opencl", "cuda:sm_80",
                             "cuda:sm_90a", "cuda:sm_120"})
    for (const Case& c : cases()) {
      const Space space = space_of(c.compute, target);
      const Schedule schedule = space.schedule(space.default_point());
      const std::string name = c.name.substr(0, c.name.find('\n'));
      const std::string line = fmt::format("{} {} {}", schedule.hash(), target, name);
      std::string expected;
      std::getline(in, expected);
      EXPECT_EQ(expected, line) << schedule.to_string();
      actual += line + "\n";
    }
  if (std::getenv("TW_UPDATE_GOLDEN")) std::ofstream(path) << actual;
}

}  // namespace
}  // namespace tw::schedules

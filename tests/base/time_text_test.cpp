// SPDX-License-Identifier: Apache-2.0
#include "base/time_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tw {
namespace {

std::vector<std::string> texts(const std::vector<double>& times_ns) {
  const TimeUnit unit(times_ns);
  std::vector<std::string> all;
  for (const double ns : times_ns) all.push_back(unit.text(ns));
  return all;
}

using Texts = std::vector<std::string>;

TEST(TimeText, OneTimeHasTheUnitThatFitsIt) {
  EXPECT_EQ(time_text(0.5), "0.5 ns");
  EXPECT_EQ(time_text(999), "999.0 ns");
  EXPECT_EQ(time_text(59'710), "59.7 µs");
  EXPECT_EQ(time_text(3'030'000), "3.03 ms");
  EXPECT_EQ(time_text(2.5e9), "2.50 s");
  for (const double none : {0.0, -1.0, std::nan("")}) EXPECT_EQ(time_text(none), "-");
}

TEST(TimeText, OneTableHasOneUnit) {
  EXPECT_EQ(texts({60'000, 230}), (Texts{"60.00 µs", "0.23 µs"}));
  EXPECT_EQ(texts({1'200'000, 2'000}), (Texts{"1200.0 µs", "2.0 µs"}));
  EXPECT_EQ(texts({10e6, 3e6}), (Texts{"10.00 ms", "3.00 ms"}));
  EXPECT_EQ(texts({740, 28}), (Texts{"740.0 ns", "28.0 ns"}));
}

TEST(TimeText, ATableOfOneTimeIsLikeTheTimeByItself) {
  for (const double ns : {1.5, 740.0, 59'710.0, 3.03e6, 2.5e9})
    EXPECT_EQ(TimeUnit(std::vector{ns}).text(ns), time_text(ns)) << ns;
}

TEST(TimeText, WhatIsNoTimeChangesNoUnit) {
  EXPECT_EQ(texts({0, 59'710, std::nan(""), -1}), (Texts{"-", "59.7 µs", "-", "-"}));
  EXPECT_EQ(texts({0}), Texts{"-"});
  EXPECT_EQ(texts({}), Texts{});
}

TEST(TimeText, DecimalsAreAtMostThree) {
  EXPECT_EQ(texts({1e9, 1}), (Texts{"1000000.000 µs", "0.001 µs"}));
}

}  // namespace
}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/contention.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace tw::tuner {
namespace {

constexpr int64_t second_ns = 1'000'000'000;

class CounterFiles : public testing::Test {
 protected:
  CounterFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "tilewright_XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    sources_.stat = directory_ / "stat";
    sources_.pressure = directory_ / "pressure";
  }
  ~CounterFiles() override { std::filesystem::remove_all(directory_); }

  Counters read(const std::string& stat, const std::string& pressure) {
    std::ofstream(sources_.stat) << stat;
    std::ofstream(sources_.pressure) << pressure;
    return read_counters(sources_);
  }

  std::filesystem::path directory_;
  CounterSources sources_;
};

TEST_F(CounterFiles, AreRead) {
  const Counters counters =
      read("cpu  1 2 3 4 5 6 7 300 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n",
           "some avg10=1.00 avg60=0.10 avg300=0.00 total=2500\nfull avg10=0.00 total=9\n");
  EXPECT_EQ(counters.steal_ns, 300 * (second_ns / ::sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(counters.pressure_ns, 2'500'000);
  EXPECT_TRUE(counters.involuntary_switches.has_value());
}

TEST_F(CounterFiles, AbsentOrForeignOnesAreNotJudged) {
  const Counters absent = read_counters(sources_);
  EXPECT_FALSE(absent.steal_ns);
  EXPECT_FALSE(absent.pressure_ns);
  const Counters foreign = read("cpu  1 2\n", "some total=many\n");
  EXPECT_FALSE(foreign.steal_ns);
  EXPECT_FALSE(foreign.pressure_ns);
  EXPECT_EQ(contention(foreign, foreign, second_ns), std::nullopt);
}

TEST(Contention, QuietIsQuiet) {
  const Counters before = {.involuntary_switches = 10, .steal_ns = 0, .pressure_ns = 0};
  const Counters after = {
      .involuntary_switches = 14, .steal_ns = 1'000'000, .pressure_ns = 5'000'000};
  EXPECT_EQ(contention(before, after, second_ns / 10), std::nullopt);
}

TEST(Contention, EachReasonIsNamed) {
  const Counters before = {.involuntary_switches = 0, .steal_ns = 0, .pressure_ns = 0};
  const auto reason = [&](const Counters& after) {
    return contention(before, after, second_ns).value_or("");
  };
  EXPECT_NE(reason({100, 0, 0}).find("100 involuntary context switches in 1000 ms"),
            std::string::npos);
  EXPECT_NE(reason({0, second_ns / 20, 0}).find("5 % of a processor"), std::string::npos);
  EXPECT_NE(reason({0, 0, second_ns / 2}).find("50 % of the time"), std::string::npos);
}

TEST(Contention, AShortMeasurementIsNotFlaggedForOneSwitch) {
  const Counters before = {.involuntary_switches = 0};
  EXPECT_EQ(contention(before, {.involuntary_switches = 1}, 1'000'000), std::nullopt);
}

TEST(Drift, IsToleratedWithinTheMachinesOwnNoise) {
  EXPECT_EQ(drift(100, 102), std::nullopt);
  EXPECT_EQ(drift(100, 98), std::nullopt);
  EXPECT_NE(drift(100, 90).value_or("").find("-10.0 %"), std::string::npos);
  EXPECT_TRUE(drift(100, 110));
  EXPECT_TRUE(drift(0, 100));
}

}  // namespace
}  // namespace tw::tuner

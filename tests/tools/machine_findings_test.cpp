// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/machine_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "db/store.h"
#include "tests/isa_targets.h"

namespace tw::tools {
namespace {

using testing::HasSubstr;

/// Has a directory that is removed when the test ends.
class MachineFindings : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = (std::filesystem::temp_directory_path() / "tw_tools_XXXXXX").string();
};

Finding calibration_of(db::Store* store, const Status& calibrated) {
  const std::vector<Finding> all = machine_findings(host_target(), store, calibrated);
  return *std::find_if(all.begin(), all.end(),
                       [](const Finding& finding) { return finding.name == "calibration"; });
}

TEST_F(MachineFindings, ACalibrationWithoutTimeFailsSaysWhyAndChangesNothing) {
  auto store = db::Store::open(folder_ + "/t.db", db::OpenMode::ReadWrite);
  ASSERT_TRUE(store) << store.error().message;
  Surroundings here;
  int64_t now_ns = 0;
  here.environment.clock = [&now_ns] { return now_ns += 1'000'000'000; };
  const Status calibrated = calibrate(host_target(), &*store, here);
  ASSERT_FALSE(calibrated);
  EXPECT_EQ(calibrated.error().code, ErrorCode::TryLater) << calibrated.error().message;
  EXPECT_EQ(store->info()->calibrations, 0);
  const Finding finding = calibration_of(&*store, calibrated);
  EXPECT_THAT(finding.text, HasSubstr(calibrated.error().message));
  EXPECT_THAT(finding.text, HasSubstr("used is"));
  EXPECT_FALSE(finding.present);
  EXPECT_EQ(finding.failure, std::nullopt) << "tuning works without";
}

TEST_F(MachineFindings, ACalibrationThatNothingKeepsIsNotBegun) {
  Surroundings here;
  here.environment.clock = [] { return ADD_FAILURE(), int64_t{0}; };
  const Status calibrated = calibrate(host_target(), nullptr, here);
  ASSERT_FALSE(calibrated);
  EXPECT_EQ(calibrated.error().code, ErrorCode::Database);
  EXPECT_THAT(calibration_of(nullptr, calibrated).text, HasSubstr("no database"));
}

std::string text_of(const Target& target, const std::string& name) {
  const std::vector<Finding> all = machine_findings(target, nullptr, {});
  return std::ranges::find(all, name, &Finding::name)->text;
}

TEST_F(MachineFindings, DotProductsHaveTheirRates) {
  Target target = parse_target("x86-64-v3").value();
  target.machine.core.word_dots_per_cycle = 1.5;
  EXPECT_EQ(text_of(target, "dot products"), "per cycle 1.5 vpmaddubsw, 1.5 vpmaddwd");
  EXPECT_EQ(text_of(parse_target("arm-64-linux").value(), "dot products"), "none");
}

TEST_F(MachineFindings, TilesHaveTheirRates) {
  Target target = parse_target(target_text_of_isa("amx")).value();
  target.machine.core.byte_tile_dots_per_cycle = 16;
  target.machine.core.bf16_tile_dots_per_cycle = 12;
  EXPECT_EQ(text_of(target, "tiles"),
            "dot products per cycle 16 of amx_m16n16k64_i8, 12 of amx_m16n16k32_bf16");
  EXPECT_EQ(text_of(parse_target("x86-64-v4").value(), "tiles"), "none");
}

TEST(RoundTripFinding, ABusyMachineIsNoFailure) {
  const Finding busy = round_trip_finding(fail(ErrorCode::TryLater, "[cores] busy"));
  EXPECT_FALSE(busy.present);
  EXPECT_EQ(busy.failure, std::nullopt);
  EXPECT_EQ(busy.text, "[cores] busy");
  const Finding broken = round_trip_finding(fail(ErrorCode::Environment, "[cores] no threads"));
  EXPECT_EQ(broken.failure, ErrorCode::Environment);
  const Finding measured = round_trip_finding(121.4);
  EXPECT_TRUE(measured.present);
  EXPECT_EQ(measured.failure, std::nullopt);
  EXPECT_THAT(measured.text, HasSubstr("121 ns"));
}

}  // namespace
}  // namespace tw::tools

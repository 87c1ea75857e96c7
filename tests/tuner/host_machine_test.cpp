// SPDX-License-Identifier: Apache-2.0
#include "tuner/host_machine.h"

#include <gtest/gtest.h>

#include <functional>

#include "db/calibration.h"
#include "tests/isa_targets.h"
#include "tests/tuner/tuning.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

/// Returns a target whose processor is not in the table of known processors.
Target unknown_target() {
  Target target = *parse_target("x86-64-v3");
  target.cpu = "Unheard-of 9000";
  return target;
}

tw::Machine measured_machine(double clock_ghz = 2.5) {
  tw::Machine machine = unknown_target().machine;
  machine.name = "Unheard-of 9000";
  machine.origin = MachineOrigin::Calibrated;
  machine.core.clock_ghz = clock_ghz;
  machine.caches[2].bytes /= 4;
  return machine;
}

const Measurer test_measurer = {"1.2.3", 1'700'000'000'000};

/// A fixture with a database of its own and a calibration that counts its calls.
class HostMachineTest : public ::testing::Test {
 protected:
  HostMachine choose(const Target& target) {
    return choose_machine(
        store_, target,
        [&]() -> Result<tw::Machine> {
          ++calls_;
          return answer_;
        },
        test_measurer);
  }

  Folder folder_;
  db::Store store_ = open_store(folder_ / "a.db");
  Result<tw::Machine> answer_ = measured_machine();
  int calls_ = 0;
};

TEST_F(HostMachineTest, AMachineOfTheTableIsNotMeasured) {
  Target target = unknown_target();
  target.machine = *machine_by_name("Zen 3", vector_sizes(target));
  const HostMachine host = choose(target);
  EXPECT_EQ(host.target.machine, target.machine);
  EXPECT_EQ(host.note, "");
  EXPECT_EQ(calls_, 0);
}

TEST_F(HostMachineTest, AnUnknownOneIsMeasuredOnceAndThenKnown) {
  const HostMachine first = choose(unknown_target());
  EXPECT_EQ(first.target.machine, measured_machine());
  EXPECT_EQ(first.note, "Unheard-of 9000 was calibrated");
  const HostMachine second = choose(unknown_target());
  EXPECT_EQ(second.target.machine, measured_machine());
  EXPECT_EQ(second.note, "");
  EXPECT_EQ(calls_, 1);
  const auto stored = db::calibrations(store_).value();
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].program_version, "1.2.3");
  EXPECT_EQ(stored[0].created_ms, test_measurer.now_ms);
}

TEST_F(HostMachineTest, ACalibrationWithoutTilesIsNotOfAProcessorThatHasThem) {
  Target target = *parse_target(target_text_of_isa("amx"));
  const auto known_after = [&](std::string text) {
    db::Calibration calibration;
    calibration.target = target.to_string();
    calibration.device = device_text(target);
    calibration.machine = std::move(text);
    EXPECT_TRUE(db::add_calibration(store_, std::move(calibration)));
    return known_machine(store_, target).has_value();
  };
  const std::string text = to_string(measured_machine());
  const size_t from = text.find("core.byte_tile_dots"), to = text.find("core.loads");
  EXPECT_FALSE(known_after(std::string(text).erase(from, to - from)));
  EXPECT_TRUE(known_after(text));
}

TEST_F(HostMachineTest, TheDeviceIsWhatTheSystemReportsNotWhatWasMeasured) {
  const Target before = unknown_target(), after = choose(before).target;
  EXPECT_NE(after.machine.l3_bytes(), before.machine.l3_bytes());
  EXPECT_EQ(device_text(after), device_text(before));
  EXPECT_EQ(after.to_string(), before.to_string());
  EXPECT_EQ(known_machine(store_, after), measured_machine()) << "it is found by either";
}

TEST_F(HostMachineTest, WhatTheDatabaseHoldsIsUsedBeforeTheTable) {
  Target target = unknown_target();
  target.machine = *machine_by_name("Zen 3", vector_sizes(target));
  ASSERT_TRUE(store_calibration(store_, target, measured_machine(3), test_measurer));
  EXPECT_EQ(choose(target).target.machine, measured_machine(3));
  Target elsewhere = target;
  elsewhere.cpu = "Another";
  EXPECT_EQ(choose(elsewhere).target.machine, target.machine);
  EXPECT_EQ(calls_, 0);
}

TEST_F(HostMachineTest, VerbsThatMeasureNothingSeeTheMachineOfTheNextRun) {
  const Target target = unknown_target(), gpu = *parse_target("cuda:sm_90a");
  EXPECT_EQ(with_known_machine(store_, target).machine, target.machine);
  ASSERT_TRUE(store_calibration(store_, target, measured_machine(3), test_measurer));
  const Target known = with_known_machine(store_, target);
  EXPECT_EQ(known.machine, measured_machine(3));
  EXPECT_EQ(known.machine, choose(target).target.machine);
  EXPECT_EQ(device_text(known), device_text(target));
  EXPECT_EQ(with_known_machine(store_, gpu).machine, gpu.machine);
}

TEST_F(HostMachineTest, TheNewestCalibrationIsUsed) {
  for (const double clock_ghz : {2.0, 3.0})
    ASSERT_TRUE(
        store_calibration(store_, unknown_target(), measured_machine(clock_ghz), test_measurer));
  EXPECT_EQ(choose(unknown_target()).target.machine.core.clock_ghz, 3);
}

TEST_F(HostMachineTest, Fault48_WhatCannotBeMeasuredIsAssumedAndSaidSoInOneLine) {
  answer_ = fail(ErrorCode::TryLater, "[calibration] a neighbour was there");
  const HostMachine host = choose(unknown_target());
  EXPECT_EQ(host.target.machine, unknown_target().machine);
  EXPECT_EQ(host.note,
            "[calibration] a neighbour was there; meanwhile it is taken for generic x86-64 "
            "(assumed)");
  EXPECT_TRUE(db::calibrations(store_).value().empty());
  EXPECT_NE(provenance(host.target.machine).find("; assumed; "), std::string::npos);
}

TEST_F(HostMachineTest, Fault19_WhatCannotBeStoredHoldsForTheRun) {
  store_ = std::move(*db::Store::open(folder_ / "a.db", db::OpenMode::ReadOnly));
  const HostMachine host = choose(unknown_target());
  EXPECT_EQ(host.target.machine, measured_machine());
  EXPECT_TRUE(host.note.starts_with("Unheard-of 9000 was calibrated, for this run only: "))
      << host.note;
}

TEST_F(HostMachineTest, AnAbsurdAnswerIsNotStored) {
  answer_->core.clock_ghz = 1e9;
  (void)choose(unknown_target());
  EXPECT_TRUE(db::calibrations(store_).value().empty());
}

TEST_F(HostMachineTest, GpusAreAsTheirDriversSay) {
  const Target gpu = *parse_target("cuda:sm_90a");
  EXPECT_EQ(choose(gpu).target.machine, gpu.machine);
  EXPECT_EQ(choose(*parse_target("opencl")).note, "");
  EXPECT_EQ(calls_, 0);
}

TEST(Provenance, NamesTheMachineAndItsText) {
  const tw::Machine machine = measured_machine();
  const std::string text = provenance(machine);
  EXPECT_TRUE(text.starts_with("Unheard-of 9000; calibrated; ")) << text;
  EXPECT_NE(text, provenance(measured_machine(2.6)));
  EXPECT_EQ(text, provenance(parse_machine(to_string(machine)).value()));
}

}  // namespace
}  // namespace tw::tuner

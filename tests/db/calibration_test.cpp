// SPDX-License-Identifier: Apache-2.0
#include "db/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <sstream>

#include "db/maintenance.h"
#include "db/store.h"
#include "db/transfer.h"
#include "tests/db/backends.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {
namespace {

class AnyCalibration : public OnBackends {};
TW_ON_BACKENDS(AnyCalibration);

Calibration sealed_calibration(double clock_ghz, int64_t generation) {
  Calibration calibration = sample_calibration(clock_ghz);
  calibration.generation = generation;
  return seal(std::move(calibration));
}

/// Returns the clock in GHz of the newest calibration of the sample device, or 0 if there is none.
double newest_clock(Store& store) {
  const Calibration sample = sample_calibration();
  const auto newest = newest_calibration(store, sample.target, sample.device).value();
  return newest ? parse_machine(newest->machine).value().core.clock_ghz : 0;
}

TEST(Calibration, CanonicalTextIsAsDocumented) {
  Calibration calibration{"x86-64-linux", "CPU", "name x\n", "0.3.0", 2, 7, {}};
  EXPECT_EQ(canonical_text(calibration),
            "tilewright-calibration 1\ntarget:12:x86-64-linux\ndevice:3:CPU\nmachine:7:name x\n\n"
            "program_version:5:0.3.0\ngeneration:1:2\ncreated_ms:1:7\n");
}

TEST(Calibration, JsonRoundTrips) {
  const Calibration calibration = sealed_calibration(3.25, 4);
  const std::string line = to_json(calibration);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(calibration_from_json(line).value(), calibration);
  EXPECT_FALSE(from_json(line)) << "it is no record";
  EXPECT_FALSE(calibration_from_json(to_json(sample_record(0))));
  EXPECT_FALSE(calibration_from_json("{}"));
  EXPECT_FALSE(calibration_from_json("[1"));
}

TEST(Calibration, ErrorsOfLinesNameTheFieldInPlainWords) {
  const std::string good = to_json(sealed_calibration(3, 1));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    return std::string(good).replace(good.find(from), from.size(), to);
  };
  const std::vector<std::pair<std::string, const char*>> problems = {
      {"{}", "the field calibration is missing"},
      {"nonsense", "it is not JSON: the error is at byte 2"},
      {replaced(R"("calibration":1)", R"("calibration":2)"), "another calibration version: 2"},
      {replaced(R"("device":)", R"("devise":)"), "the field device is missing"},
      {replaced(R"("generation":1)", R"("generation":"1")"), "generation is not an integer"},
      {replaced(R"("machine":")", R"("machine":5,"text":")"), "machine is not a text"},
  };
  for (const auto& [line, problem] : problems)
    EXPECT_EQ(
        error_of(calibration_from_json(line)),
        fmt::format("[calibration] {}; a line written by `tilewright db export` was expected; "
                    "export it again",
                    problem));
}

TEST(Calibration, Fault28_ImpossibleMachinesAreRefused) {
  const auto with_machine = [](const std::function<void(Machine&)>& change) {
    Calibration calibration = sample_calibration();
    Machine machine = parse_machine(calibration.machine).value();
    change(machine);
    calibration.machine = to_string(machine);
    calibration.generation = 1;
    return seal(std::move(calibration));
  };
  EXPECT_TRUE(check(with_machine([](Machine&) {})));
  EXPECT_FALSE(check(with_machine([](Machine& m) { m.core.clock_ghz = 0; })));
  EXPECT_FALSE(check(with_machine([](Machine& m) { m.core.loads_per_cycle = 1e6; })));
  EXPECT_FALSE(check(with_machine([](Machine& m) { m.caches[0].bytes_per_cycle = -1; })));
  EXPECT_FALSE(check(with_machine([](Machine& m) { m.origin = MachineOrigin::Table; })));
}

TEST(Calibration, OtherImpossibleFactsAreRefused) {
  const auto refused = [](const std::function<void(Calibration&)>& change) {
    Calibration calibration = sealed_calibration(3, 1);
    change(calibration);
    return !check(seal(std::move(calibration)));
  };
  EXPECT_FALSE(refused([](Calibration&) {}));
  EXPECT_TRUE(refused([](Calibration& c) { c.target = "z80"; }));
  EXPECT_TRUE(refused([](Calibration& c) { c.device = "\xff"; }));
  EXPECT_TRUE(refused([](Calibration& c) { c.created_ms = -1; }));
  EXPECT_TRUE(refused([](Calibration& c) { c.created_ms = INT64_MAX; }));
  EXPECT_TRUE(refused([](Calibration& c) { c.generation = 0; }));
  EXPECT_TRUE(refused([](Calibration& c) { c.generation = INT64_MAX; }));
  EXPECT_TRUE(refused([](Calibration& c) { c.machine = "nonsense"; }));
  Calibration tampered = sealed_calibration(3, 1);
  tampered.created_ms += 1;
  EXPECT_FALSE(check(tampered));
}

TEST_P(AnyCalibration, TheOneAddedLastIsTheNewestWhateverTheClocksSay) {
  Store store = open_store(databases / "a.db");
  EXPECT_EQ(newest_clock(store), 0);
  Calibration from_the_future = sample_calibration(2);
  from_the_future.created_ms *= 2;
  ASSERT_TRUE(add_calibration(store, from_the_future));
  EXPECT_EQ(newest_clock(store), 2);
  ASSERT_TRUE(add_calibration(store, sample_calibration(3)));
  EXPECT_EQ(newest_clock(store), 3);
  Calibration elsewhere = sample_calibration(4), narrow = sample_calibration(5);
  elsewhere.device = "Another CPU";
  narrow.target = "x86-64-linux";
  ASSERT_TRUE(add_calibration(store, elsewhere));
  ASSERT_TRUE(add_calibration(store, narrow));
  EXPECT_EQ(newest_clock(store), 3);
  EXPECT_EQ(store.info().value().calibrations, 4);
  EXPECT_EQ(verify(store).value().calibrations, 4);
}

TEST(Calibration, AnImpossibleOneIsNotAdded) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  Calibration calibration = sample_calibration();
  calibration.machine = "nonsense";
  EXPECT_EQ(add_calibration(store, calibration).error().code, ErrorCode::Invalid);
  EXPECT_EQ(newest_clock(store), 0);
}

TEST_P(AnyCalibration, Fault30_EveryOrderOfMergingGivesTheSameNewest) {
  const std::vector<std::vector<Calibration>> parts = {
      {sealed_calibration(2, 1), sealed_calibration(3, 2)},
      {sealed_calibration(2, 1), sealed_calibration(2.5, 2)},
      {sealed_calibration(3.5, 1)}};
  for (size_t i = 0; i < parts.size(); ++i) {
    Store store = open_store(databases / fmt::format("part{}.db", i));
    ASSERT_TRUE(append_calibrations(store, parts[i]));
  }
  std::array<int, 3> order = {0, 1, 2};
  std::optional<std::vector<Calibration>> expected;
  do {
    const std::string name = fmt::format("m{}{}{}.db", order[0], order[1], order[2]);
    Store store = open_store(databases / name);
    for (const int part : order) {
      ASSERT_TRUE(merge_from(store, databases / fmt::format("part{}.db", part)));
      EXPECT_EQ(merge_from(store, databases / fmt::format("part{}.db", part)).value().calibrations,
                0);
    }
    const std::vector<Calibration> merged = db::calibrations(store).value();
    EXPECT_EQ(merged.size(), 4u);
    if (!expected) expected = merged;
    EXPECT_EQ(merged, *expected);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(expected->front().generation, 2);
}

TEST_P(AnyCalibration, TravelsInExportsOfBothKinds) {
  Store store = open_store(databases / "a.db");
  ASSERT_TRUE(store.append(sample_records(0, 2)));
  ASSERT_TRUE(add_calibration(store, sample_calibration(3.25)));
  ASSERT_TRUE(export_to(store, files / "lines.jsonl"));
  ASSERT_TRUE(export_to(store, files / "copy.db"));
  Store lines = open_store(databases / "lines.db"), copy = open_store(files / "copy.db");
  const AppendSummary summary = import_jsonl(lines, files / "lines.jsonl").value();
  EXPECT_EQ(summary.inserted, 2);
  EXPECT_EQ(summary.calibrations, 1);
  EXPECT_EQ(newest_clock(lines), 3.25);
  EXPECT_EQ(newest_clock(copy), 3.25);
}

/// Returns five calibrations for each of a thousand devices, in the order of an export.
std::vector<Calibration> many_calibrations() {
  std::vector<Calibration> all;
  for (int device = 0; device < 1000; ++device)
    for (int64_t generation = 5; generation > 0; --generation) {
      Calibration calibration = sample_calibration();
      calibration.device = fmt::format("Test CPU {:04}", device);
      calibration.generation = generation;
      all.push_back(seal(std::move(calibration)));
    }
  return all;
}

TEST_P(AnyCalibration, ManyTravelToTheLast) {
  const std::vector<Calibration> all = many_calibrations();
  Store store = open_store(databases / "a.db");
  ASSERT_EQ(append_calibrations(store, all).value().calibrations, 5000);
  EXPECT_EQ(verify(store).value().calibrations, 5000);
  EXPECT_TRUE(db::calibrations(store).value() == all);

  std::stringstream lines;
  ASSERT_TRUE(export_jsonl(store, lines));
  Store imported = open_store(databases / "b.db"), by_path = open_store(databases / "c.db"),
        by_store = open_store(databases / "d.db");
  EXPECT_EQ(import_jsonl(imported, lines, "lines").value().calibrations, 5000);
  EXPECT_EQ(merge_from(by_path, databases / "a.db").value().calibrations, 5000);
  EXPECT_EQ(merge_from(by_store, store).value().calibrations, 5000);
  for (Store* other : {&imported, &by_path, &by_store})
    EXPECT_TRUE(db::calibrations(*other).value() == all);
}

TEST_P(AnyCalibration, ManyDamagedOnesHideNoOthers) {
  std::vector<std::string> said;
  StoreOptions options;
  options.waiting.on_message = [&](std::string_view message) { said.emplace_back(message); };
  Store store = open_store(databases / "a.db", OpenMode::ReadWrite, std::move(options));
  ASSERT_TRUE(append_calibrations(store, many_calibrations()));
  run_in(databases / "a.db",
         "UPDATE calibrations SET created_ms = 1 WHERE device < 'Test CPU 0990'");
  EXPECT_EQ(db::calibrations(store).value().size(), 50u);
  EXPECT_EQ(store.damaged(), 4950);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("4950 calibrations are damaged"), std::string::npos) << said[0];
}

TEST_P(AnyCalibration, AFileOfCalibrationsAloneIsImported) {
  Store store = open_store(databases / "a.db");
  std::istringstream lines("\n" + to_json(sealed_calibration(3, 1)) + "\nnonsense\n");
  const AppendSummary summary = import_jsonl(store, lines, "lines").value();
  EXPECT_EQ(summary.calibrations, 1);
  EXPECT_EQ(summary.quarantined, 1);
}

TEST_P(AnyCalibration, AnImpossibleLineIsQuarantined) {
  Store store = open_store(databases / "a.db");
  Calibration poisoned = sealed_calibration(3, 1);
  poisoned.machine = "nonsense";
  std::istringstream lines(to_json(seal(poisoned)));
  EXPECT_EQ(import_jsonl(store, lines, "lines").value().quarantined, 1);
  EXPECT_EQ(newest_clock(store), 0);
}

TEST(Calibration, Fault16_OneThatDisagreesWithItsHashIsLeftOut) {
  const Folder folder;
  {
    Store store = open_store(folder / "a.db");
    ASSERT_TRUE(add_calibration(store, sample_calibration(2)));
    ASSERT_TRUE(add_calibration(store, sample_calibration(3)));
  }
  RawSql(folder / "a.db").run("UPDATE calibrations SET created_ms = 1 WHERE generation = 2");
  Store store = open_store(folder / "a.db");
  EXPECT_EQ(newest_clock(store), 2);
  EXPECT_EQ(store.damaged(), 1);
  EXPECT_EQ(verify(store).value().damaged, 1);
  EXPECT_FALSE(verify(store).value().ok());
}

TEST(Calibration, Fault15_IsRecoveredBesideTheRecords) {
  const Folder folder;
  {
    Store store = open_store(folder / "a.db");
    ASSERT_TRUE(store.append(sample_records(0, 3)));
    ASSERT_TRUE(add_calibration(store, sample_calibration(3)));
  }
  const AppendSummary summary = recover(folder / "a.db", folder / "fresh.db").value();
  EXPECT_EQ(summary.inserted, 3);
  EXPECT_EQ(summary.calibrations, 1);
  Store fresh = open_store(folder / "fresh.db");
  EXPECT_EQ(newest_clock(fresh), 3);
}

}  // namespace
}  // namespace tw::db

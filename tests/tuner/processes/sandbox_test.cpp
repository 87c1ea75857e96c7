// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/sandbox.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <ostream>
#include <string>

#include "tests/sanitizers.h"
#include "tests/tuner/planted.h"

namespace tw::tuner {
namespace {

/// A directory for one test, with a "scratch" directory in it.
struct TemporaryDirectory {
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tilewright_XXXXXX").string();
    path = ::mkdtemp(name.data());
    scratch = path / "scratch";
    std::filesystem::create_directory(scratch);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  std::filesystem::path path, scratch;
};

Fault fault_of(const Outcome& outcome) {
  if (const auto* died = std::get_if<Died>(&outcome)) return classify(*died);
  ADD_FAILURE() << text(outcome);
  return {};
}

struct Misdeed {
  const char* deed;
  FaultKind kind;
  const char* detail;  ///< part of the report
};

void PrintTo(const Misdeed& misdeed, std::ostream* out) { *out << misdeed.deed; }

class Planted : public testing::TestWithParam<Misdeed> {
 protected:
  /// The candidate is marked, the worker replaced, and work goes on.
  void expect_fault(Process& worker) {
    const Fault fault = fault_of(ask(worker, GetParam().deed));
    EXPECT_EQ(status_of(fault.kind), status_of(GetParam().kind)) << fault.detail;
    EXPECT_EQ(fault.kind, GetParam().kind) << fault.detail;
    EXPECT_NE(fault.detail.find(GetParam().detail), std::string::npos) << fault.detail;
    expect_replaceable(worker);
  }
};

std::string name_of(const testing::TestParamInfo<Misdeed>& info) { return info.param.deed; }

class Fault34_Crash : public Planted {};
TEST_P(Fault34_Crash, IsReportedAndSurvived) {
  Process worker = planted({"confined"});
  expect_fault(worker);
}
TEST_P(Fault34_Crash, IsKnownEvenWithoutHandlers) {
  Process worker = planted({"free"});
  const Fault fault = fault_of(ask(worker, GetParam().deed));
  EXPECT_EQ(status_of(fault.kind), db::TrialStatus::Crash) << fault.detail;
  expect_replaceable(worker);
}
INSTANTIATE_TEST_SUITE_P(Signals, Fault34_Crash,
                         testing::Values(Misdeed{"segv", FaultKind::Crash, "SIGSEGV at 0x40"},
                                         Misdeed{"ill", FaultKind::Crash, "SIGILL"},
                                         Misdeed{"fpe", FaultKind::Crash, "SIGFPE"},
                                         Misdeed{"bus", FaultKind::Crash, "SIGBUS at 0x"},
                                         Misdeed{"abort", FaultKind::Crash, "SIGABRT"},
                                         Misdeed{"exit", FaultKind::Crash, "code 7"}),
                         name_of);

class Fault36_Resource : public Planted {};
TEST_P(Fault36_Resource, EndsTheWorker) {
  Process worker = planted({"confined"});
  expect_fault(worker);
}
INSTANTIATE_TEST_SUITE_P(Forbidden, Fault36_Resource,
                         testing::Values(Misdeed{"fork", FaultKind::Resource, "clone"},
                                         Misdeed{"exec", FaultKind::Resource, "execve"},
                                         Misdeed{"socket", FaultKind::Resource, "socket"},
                                         Misdeed{"write_home", FaultKind::Resource, "open"},
                                         Misdeed{"kill_parent", FaultKind::Resource, "kill"},
                                         Misdeed{"trace_parent", FaultKind::Resource, "ptrace"},
                                         Misdeed{"survive_parent", FaultKind::Resource, "prctl"}),
                         name_of);

TEST(Fault36, EatenMemoryIsAResourceFault) {
  if (has_shadow_memory) GTEST_SKIP() << "a sanitizer leaves no room for an address space limit";
  Process worker = planted({"confined"});
  const Fault fault = fault_of(ask(worker, "eat_memory"));
  EXPECT_EQ(fault.kind, FaultKind::Resource) << fault.detail;
  EXPECT_NE(fault.detail.find("memory"), std::string::npos) << fault.detail;
  expect_replaceable(worker);
}

TEST(Fault36, ScratchIsTheOnlyPlaceToWrite) {
  const TemporaryDirectory directory;
  Process worker = planted({"confined", directory.scratch.string()});
  EXPECT_EQ(text(ask(worker, "write_scratch")), "reply: done");
  EXPECT_TRUE(std::filesystem::exists(directory.scratch / "planted_file"));
  if (worker.tail().find("no Landlock") != std::string::npos)
    GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(text(ask(worker, "write_home")), "reply: done");  // refused, as to any program
  EXPECT_FALSE(std::filesystem::exists(directory.path / "tilewright_planted_file"));
}

TEST(Fault36, FilesCannotFillTheDisk) {
  const TemporaryDirectory directory;
  Process worker = planted({"confined", directory.scratch.string()});
  const Fault fault = fault_of(ask(worker, "fill_disk"));
  EXPECT_EQ(fault.kind, FaultKind::Resource) << fault.detail;
  EXPECT_LE(std::filesystem::file_size(directory.scratch / "planted_file"), 8u << 20);
}

TEST(Sandbox, LetsHonestWorkThrough) {
  Process worker = planted({"confined"});
  EXPECT_EQ(text(ask(worker, "start_threads")), "reply: done");
  EXPECT_EQ(text(ask(worker, "limits")), "reply: core 0 files 64");
  if (!has_shadow_memory) {
    EXPECT_EQ(worker.tail(), "");  // nothing was missing
  }
}

TEST(Sandbox, Fault42_CompilersRunWithinTheSameWalls) {
  const TemporaryDirectory directory;
  Process worker = planted({"building", directory.scratch.string()});
  EXPECT_EQ(text(ask(worker, "build")), "reply: done");
  EXPECT_TRUE(std::filesystem::exists(directory.scratch / "built"));
  const Fault fault = fault_of(ask(worker, "socket"));
  EXPECT_EQ(fault.kind, FaultKind::Resource) << fault.detail;
}

TEST(Sandbox, Fault42_ACompilerThatEatsMemoryFailsAlone) {
  if (has_shadow_memory) GTEST_SKIP() << "a sanitizer leaves no room for an address space limit";
  const TemporaryDirectory directory;
  Process worker = planted({"building", directory.scratch.string()});
  EXPECT_EQ(text(ask(worker, "build_without_end")), "reply: done");
  EXPECT_EQ(text(ask(worker, "echo still here")), "reply: still here");
}

TEST(Sandbox, Fault72_MissingScratchDirectoryIsNamed) {
  Process worker = planted({"confined", "/no/such/scratch"});
  const Outcome outcome = ask(worker, "nothing");
  EXPECT_NE(text(outcome).find("/no/such/scratch"), std::string::npos) << text(outcome);
}

class Fault37_OutOfBounds : public Planted {};
TEST_P(Fault37_OutOfBounds, IsCaughtByAGuard) {
  Process worker = planted({"confined"});
  expect_fault(worker);
}
INSTANTIATE_TEST_SUITE_P(
    Accesses, Fault37_OutOfBounds,
    testing::Values(Misdeed{"read_past_end", FaultKind::OutOfBounds, "past the end"},
                    Misdeed{"write_past_end", FaultKind::OutOfBounds, "past the end"},
                    Misdeed{"read_before_start", FaultKind::OutOfBounds, "before the start"},
                    Misdeed{"write_before_start", FaultKind::OutOfBounds, "before the start"},
                    Misdeed{"past_end_on_threads", FaultKind::OutOfBounds, "past the end"},
                    Misdeed{"overflow_stack", FaultKind::StackOverflow, "stack overflow"},
                    Misdeed{"overflow_thread_stack", FaultKind::StackOverflow, "stack overflow"}),
    name_of);

TEST(Fault39, WritingAnInputFaults) {
  Process worker = planted({"confined"});
  const Fault fault = fault_of(ask(worker, "write_input"));
  EXPECT_EQ(fault.kind, FaultKind::InputWritten) << fault.detail;
  EXPECT_EQ(status_of(fault.kind), db::TrialStatus::MutatesInput);
  expect_replaceable(worker);
}

TEST(Classify, ReadsEndsThatTheWorkerCouldNotReport) {
  EXPECT_EQ(classify({.signal = SIGKILL}).kind, FaultKind::Lost);  // the out-of-memory killer
  EXPECT_EQ(classify({.signal = SIGSYS}).kind, FaultKind::Resource);
  EXPECT_EQ(classify({.signal = SIGXFSZ}).kind, FaultKind::Resource);
  EXPECT_EQ(classify({.signal = SIGSEGV}).kind, FaultKind::Crash);
  EXPECT_EQ(classify({.signal = SIGSEGV}).detail, "SIGSEGV");
  EXPECT_EQ(classify({.exit_code = 0}).kind, FaultKind::Crash);
  EXPECT_EQ(classify({}).kind, FaultKind::Crash);
  EXPECT_EQ(classify({}).detail, "the worker could not be ended");
  EXPECT_EQ(classify({.is_unknown = true}).kind, FaultKind::Ended);
}

TEST(Classify, Fault84_ASignalFromOutsideIsNobodysFault) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const Fault fault = classify({.signal = signal});
    EXPECT_EQ(fault.kind, FaultKind::Ended) << signal;
    EXPECT_TRUE(db::proves_nothing(status_of(fault.kind)));
    EXPECT_FALSE(db::proves_wrong(status_of(fault.kind)));
  }
}

TEST(Classify, OutputOfTheCandidateIsNoReport) {
  const Fault fault =
      classify({.exit_code = 101, .tail = "noise\n[candidate] SIGSEGV at 0x1\nmore"});
  EXPECT_EQ(fault.kind, FaultKind::OutOfBounds);
  EXPECT_EQ(fault.detail, "SIGSEGV at 0x1");
}

/// A driver in a process of its own, which can write to a scratch directory.
class Fault82_Driver : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  Process worker_ = planted({"driving", directory_.scratch});
};

TEST_F(Fault82_Driver, NamesItsThreads) {
  EXPECT_EQ(text(ask(worker_, "name_thread")), "reply: done");
}

TEST_F(Fault82_Driver, HasLocalSocketsOnly) {
  EXPECT_EQ(text(ask(worker_, "connect_locally")), "reply: done");
  EXPECT_EQ(text(ask(worker_, "open_network")), "reply: done");
}

TEST_F(Fault82_Driver, IsRefusedWhatItTriesAndGoesOn) {
  EXPECT_EQ(text(ask(worker_, "write_scratch")), "reply: done");
  EXPECT_TRUE(std::filesystem::exists(directory_.scratch / "planted_file"));
  EXPECT_EQ(text(ask(worker_, "try_much")), "reply: done");
  if (worker_.tail().find("no Landlock") != std::string::npos)
    GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(text(ask(worker_, "write_home")), "reply: done");
  EXPECT_FALSE(std::filesystem::exists(directory_.path / "tilewright_planted_file"));
}

TEST_F(Fault82_Driver, IsEndedWhereItHarmsOthers) {
  const Fault fault = fault_of(ask(worker_, "trace_parent"));
  EXPECT_EQ(fault.kind, FaultKind::Resource) << fault.detail;
}

}  // namespace
}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#include "runtime/session.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/isa.h"
#include "db/store.h"
#include "tests/runtime/tiny_kernels.h"

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    artifact_.info.target = host_target().to_string();
    std::filesystem::create_directory(cache_);
    std::filesystem::permissions(cache_, std::filesystem::perms::owner_all);
    ASSERT_TRUE(db::Store::open(database_, db::OpenMode::ReadWrite));
  }

  void record(double latency_ns, const std::string& schedule, int64_t threads = 1,
              const std::string& device = "test device", const std::string& layouts = "") {
    db::Record record;
    record.layouts = layouts;
    record.workload = artifact_.info.workload;
    record.op = "copy";
    record.target = artifact_.info.target;
    record.device = device;
    record.toolchain = "cc";
    record.codegen_abi = current_codegen_abi;
    record.threads = threads;
    record.schedule = schedule;
    record.samples_ns = {latency_ns, latency_ns, latency_ns};
    record.latency_ns = record.latency_low_ns = record.latency_high_ns = latency_ns;
    record.flops = 1;
    record.host = record.session = "test";
    record.program_version = "test";
    auto store = db::Store::open(database_, db::OpenMode::ReadWrite);
    ASSERT_TRUE(store);
    const db::Record sealed = db::seal(record);
    const auto summary = store->append({&sealed, 1});
    ASSERT_TRUE(summary) << summary.error().message;
    ASSERT_EQ(summary->inserted, 1) << db::check(sealed).error().message;
  }

  /// Returns the only record of the schedule.
  db::Record record_of(const std::string& schedule) {
    auto store = db::Store::open(database_, db::OpenMode::ReadOnly);
    std::vector<db::Record> found;
    EXPECT_TRUE(store->for_each({}, [&](const db::Record& record) {
      if (record.schedule == schedule) found.push_back(record);
      return true;
    }));
    EXPECT_EQ(found.size(), 1u);
    return found.at(0);
  }

  std::string artifact_path(const std::string& schedule) {
    return cache_ + "/" +
           artifact_name(artifact_.info.workload, schedule, artifact_.info.target,
                         current_codegen_abi);
  }
  /// Returns the command that compiles the record of the schedule.
  std::string compile_line(const std::string& schedule) {
    return "tilewright compile --db '" + directory_.path() + "/it'\\''s.db' --cache '" + cache_ +
           "' " + record_of(schedule).hash.substr(0, 16);
  }
  void compile(const std::string& schedule) {
    artifact_.info.schedule = schedule;
    ASSERT_TRUE(write_artifact(artifact_path(schedule), artifact_));
  }
  Session open(int threads = 1) {
    auto session =
        Session::open({.database = database_, .cache = cache_, .threads = threads, .device = ""});
    EXPECT_TRUE(session) << session.error().message;
    return std::move(*session);
  }
  Error error_of_kernel() { return open().kernel(artifact_.info.workload).error(); }

  TemporaryDirectory directory_;
  const std::string database_ = directory_ / "it's.db";
  const std::string cache_ = directory_ / "cache";
  Artifact artifact_ = copy_artifact();
};

TEST_F(SessionTest, GivesTheKernelOfTheBestRecord) {
  record(200, "tw1\nslow");
  record(100, "tw1\nfast");
  compile("tw1\nslow");
  compile("tw1\nfast");
  Session session = open();
  const auto kernel = session.kernel(artifact_.info.workload);
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(kernel->info().schedule, "tw1\nfast");
  std::vector<float> x = {1, 2, 3, 4}, y(4);
  const std::vector<Buffer> buffers = {{x.data(), Float32, {4}, {}}, {y.data(), Float32, {4}, {}}};
  ASSERT_TRUE(kernel->call(buffers, session.pool()));
  EXPECT_EQ(y, x);
}

TEST_F(SessionTest, LayoutsThatAreAskedForFollowTheWorkload) {
  record(100, "tw1\nfree");
  record(50, "tw1\nasked", 1, "test device", "x=B y=A");
  for (const char* schedule : {"tw1\nfree", "tw1\nasked"}) compile(schedule);
  Session session = open();
  const std::string& workload = artifact_.info.workload;
  EXPECT_EQ(session.kernel(workload)->info().schedule, "tw1\nfree");
  EXPECT_EQ(session.kernel(workload + " {x=B y=A}")->info().schedule, "tw1\nasked");
  const auto none = session.kernel(workload + " {x=A}");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::NoCandidate);
  EXPECT_THAT(none.error().message, HasSubstr("--workload 'copy(x[4]) {x=A}'"));
  std::filesystem::remove(artifact_path("tw1\nasked"));
  EXPECT_THAT(open().kernel(workload + " {x=B y=A}").error().message,
              HasSubstr(compile_line("tw1\nasked")));
}

TEST_F(SessionTest, NoRecordNamesTheLineThatTunes) {
  const Error error = error_of_kernel();
  EXPECT_EQ(error.code, ErrorCode::NoCandidate);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("spelled as `tilewright tune --dry-run` prints it"),
                    HasSubstr("tilewright tune --db '"), HasSubstr("it'\\''s.db' --cache '"),
                    HasSubstr("--workload 'copy(x[4])'")));
}

TEST_F(SessionTest, NoArtifactNamesTheLineThatCompiles) {
  record(100, "tw1\nfast");
  const Error error = error_of_kernel();
  EXPECT_EQ(error.code, ErrorCode::NotCompiled);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr(compile_line("tw1\nfast")), HasSubstr(artifact_path("tw1\nfast"))));
}

// If only the workload is given, `compile` looks for a record of one thread.
TEST_F(SessionTest, TheLineThatCompilesNamesTheRecordOfTheThreads) {
  record(100, "tw1\none", 1);
  record(150, "tw1\ntwo", 2);
  const auto kernel = open(2).kernel(artifact_.info.workload);
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr(compile_line("tw1\ntwo")));
}

TEST_F(SessionTest, ADatabaseNeedsACache) {
  const auto session = Session::open({.database = database_, .cache = "", .device = ""});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::Usage);
  EXPECT_THAT(session.error().message, HasSubstr("and no cache given"));
}

TEST_F(SessionTest, Fault54_AnArtifactUnderAnothersNameIsRefused) {
  record(100, "tw1\nfast");
  compile("tw1\nslow");
  std::filesystem::rename(artifact_path("tw1\nslow"), artifact_path("tw1\nfast"));
  const Error error = error_of_kernel();
  EXPECT_EQ(error.code, ErrorCode::Invalid);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("another kernel"), HasSubstr(compile_line("tw1\nfast"))));
}

TEST_F(SessionTest, Fault54_ADamagedArtifactNamesTheLineThatCompilesItAgain) {
  record(100, "tw1\nfast");
  compile("tw1\nfast");
  write_bytes(artifact_path("tw1\nfast"), "junk");
  const Error error = error_of_kernel();
  EXPECT_EQ(error.code, ErrorCode::Invalid);
  EXPECT_THAT(error.message, HasSubstr(compile_line("tw1\nfast")));
}

TEST_F(SessionTest, Fault56_AReadOnlyCacheServes) {
  record(100, "tw1\nfast");
  compile("tw1\nfast");
  std::filesystem::permissions(cache_, std::filesystem::perms(0500));
  std::filesystem::permissions(artifact_path("tw1\nfast"), std::filesystem::perms(0400));
  Session session = open();
  EXPECT_TRUE(session.kernel(artifact_.info.workload));
}

TEST_F(SessionTest, RecordsOfTheSessionsThreadCountComeFirstThenThoseOfOne) {
  record(100, "tw1\none", 1);
  compile("tw1\none");
  EXPECT_EQ(open(2).kernel(artifact_.info.workload)->info().schedule, "tw1\none");
  record(150, "tw1\ntwo", 2);
  compile("tw1\ntwo");
  EXPECT_EQ(open(2).kernel(artifact_.info.workload)->info().schedule, "tw1\ntwo");
  EXPECT_EQ(open(1).kernel(artifact_.info.workload)->info().schedule, "tw1\none");
}

TEST_F(SessionTest, TheSameWorkloadGivesTheSameKernelWhileItLives) {
  record(200, "tw1\nslow");
  compile("tw1\nslow");
  Session session = open();
  ASSERT_TRUE(session.kernel(artifact_.info.workload));
  record(100, "tw1\nfast");
  compile("tw1\nfast");
  EXPECT_EQ(session.kernel(artifact_.info.workload)->info().schedule, "tw1\nslow");
  EXPECT_EQ(open().kernel(artifact_.info.workload)->info().schedule, "tw1\nfast");
}

TEST_F(SessionTest, Fault64_ManyThreadsAsk) {
  record(100, "tw1\nfast");
  compile("tw1\nfast");
  Session session = open(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 8; ++i)
    askers.emplace_back([&] {
      std::vector<float> x = {1, 2, 3, 4}, y(4);
      const std::vector<Buffer> buffers = {{x.data(), Float32, {4}, {}},
                                           {y.data(), Float32, {4}, {}}};
      const auto kernel = session.kernel(artifact_.info.workload);
      wrong += !kernel || !kernel->call(buffers, session.pool()) || x != y;
    });
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(wrong, 0);
}

// ---- GPUs, on the driver of tests/runtime/fake_cuda.h ----

class GpuSessionTest : public SessionTest {
 protected:
  void SetUp() override {
    SessionTest::SetUp();
    fake_ = reinterpret_cast<FakeCudaControl*>(
        dlsym(dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), "fake_cuda"))();
    *fake_ = {};
    fake_->kernels = matvec_for_fake_cuda();
    gpu_ = open_cuda_device({.library = TW_FAKE_CUDA}).value();
    artifact_ = matvec_for_cuda("sm_90a");
  }
  void TearDown() override { *fake_ = {}; }

  /// Makes all further records and artifacts for this GPU architecture.
  void is_for(const std::string& architecture) { artifact_ = matvec_for_cuda(architecture); }
  Result<Session> open_on_gpu() {
    return Session::open(
        {.database = database_, .cache = cache_, .threads = 1, .device = "", .gpu = gpu_});
  }
  Result<DeviceKernel> kernel_of_gpu() {
    return open_on_gpu().value().device_kernel(artifact_.info.workload);
  }

  FakeCuda* fake_ = nullptr;
  std::shared_ptr<Device> gpu_;
};

TEST_F(GpuSessionTest, GivesTheKernelOfTheBestRecordOfTheClosestTarget) {
  for (const auto& [architecture, latency_ns] :
       {std::pair("sm_80", 10), std::pair("sm_90a", 200), std::pair("sm_90", 20)}) {
    is_for(architecture);
    record(latency_ns, "tw1\nslow");
    record(latency_ns - 1, "tw1\nfast");
    compile("tw1\nfast");
  }
  const auto kernel = kernel_of_gpu();
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(kernel->info().target, "cuda:sm_90a");
  EXPECT_EQ(kernel->info().schedule, "tw1\nfast");
  Matvec known = Matvec::make();
  std::vector<float> y(64);
  ASSERT_TRUE(kernel->call(known.arrays(y)));
  EXPECT_EQ(y, known.y);
}

TEST_F(GpuSessionTest, RecordsOfTheGpuItselfComeFirst) {
  record(100, "tw1\nothers", 1, "NVIDIA H20; 78 multiprocessors; 97871 MiB; L2 61440 KiB");
  record(200, "tw1\nown", 1, "Fake GPU; 132 multiprocessors; 1024 MiB; L2 51200 KiB");
  compile("tw1\nothers");
  compile("tw1\nown");
  EXPECT_EQ(kernel_of_gpu().value().info().schedule, "tw1\nown");
}

TEST_F(GpuSessionTest, Fault52_AnOlderGpusKernelServesByItsPtx) {
  is_for("sm_80");
  record(100, "tw1\nfast");
  compile("tw1\nfast");
  const auto refused = kernel_of_gpu();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
  artifact_.ptx = ".version 9.0\n.target sm_80\n";
  compile("tw1\nfast");
  const auto kernel = kernel_of_gpu();
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(fake_->loaded, ".ver");
}

TEST_F(GpuSessionTest, WhatIsMissingNamesTheLineThatMakesItForTheGpu) {
  const auto untuned = kernel_of_gpu();
  ASSERT_FALSE(untuned);
  EXPECT_EQ(untuned.error().code, ErrorCode::NoCandidate);
  EXPECT_THAT(untuned.error().message,
              AllOf(HasSubstr("tilewright tune --db '"), HasSubstr(" --target cuda:sm_90a "),
                    HasSubstr("--workload 'matvec(a[64,5],x[5])'")));
  is_for("sm_90");
  record(100, "tw1\nfast");
  const auto uncompiled = kernel_of_gpu();
  ASSERT_FALSE(uncompiled);
  EXPECT_EQ(uncompiled.error().code, ErrorCode::NotCompiled);
  EXPECT_THAT(uncompiled.error().message,
              AllOf(HasSubstr(compile_line("tw1\nfast")), HasSubstr(artifact_path("tw1\nfast"))));
}

TEST_F(GpuSessionTest, KernelsOfTheProcessorAreThereAsWell) {
  record(100, "tw1\ngpu");
  artifact_ = copy_artifact();
  artifact_.info.target = host_target().to_string();
  record(100, "tw1\nfast");
  compile("tw1\nfast");
  EXPECT_TRUE(open_on_gpu().value().kernel(artifact_.info.workload));
}

TEST_F(GpuSessionTest, WithoutAGpuThereAreNoKernelsOfOne) {
  const auto kernel = open().device_kernel(artifact_.info.workload);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::Usage);
  EXPECT_EQ(open().load_on_device("none").error().code, ErrorCode::Usage);
  fake_->major = 7;
  gpu_ = open_cuda_device({.library = TW_FAKE_CUDA}).value();
  EXPECT_EQ(kernel_of_gpu().error().code, ErrorCode::Unsupported);
}

TEST_F(GpuSessionTest, LoadsAnArtifactFile) {
  const std::string path = directory_ / "kernel.twart";
  ASSERT_TRUE(write_artifact(path, artifact_));
  Session session = open_on_gpu().value();
  EXPECT_TRUE(session.load_on_device(path));
  ASSERT_TRUE(write_artifact(path, matvec_artifact()));
  EXPECT_EQ(session.load_on_device(path).error().code, ErrorCode::Usage);
}

TEST_F(SessionTest, AMissingDatabaseIsADatabaseError) {
  const auto session =
      Session::open({.database = directory_ / "none.db", .cache = cache_, .device = ""});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::Database);
}

TEST(SessionLimits, Fault73_AnUnknownLimitOnInstructionSetsIsAnError) {
  const char* const own = ::getenv(max_isa_variable);
  const std::string before = own ? own : "";
  ::setenv(max_isa_variable, "avx3", 1);
  const auto session = Session::open({});
  ::setenv(max_isa_variable, before.c_str(), 1);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, ErrorCode::Usage);
  EXPECT_THAT(session.error().message, HasSubstr("did you mean 'avx'"));
  EXPECT_TRUE(Session::open({}));
}

}  // namespace
}  // namespace tw::runtime

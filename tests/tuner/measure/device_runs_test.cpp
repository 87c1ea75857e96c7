// SPDX-License-Identifier: Apache-2.0
// Tests kernels on devices, with real workers. The OpenCL kernels are written by hand and run on
// any device of this machine; PoCL makes the processor such a device. A fake driver stands in for
// CUDA's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>

#include "codegen/abi.h"
#include "runtime/artifact.h"
#include "runtime/device.h"
#include "schedules/schedule.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/tuner/tuning.h"
#include "tuner/workers/device.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;
using testing::HasSubstr;

template <typename T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// Builds the plain schedule of a workload as its reference.
ReferenceKernel reference_of(Workers& workers, const dsl::Workload& workload) {
  const BuildOutcome built = value(
      build_one(*workers.builder,
                {.kernels = {{workload.key(), schedules::Schedule(workload.compute).to_string()}},
                 .packs = true,
                 .is_reference = true}));
  return {built.artifact, built.otherwise};
}

/// Workers that measure kernels of one workload for a GPU target.
class Bench {
 public:
  Bench(std::string_view target, std::string_view workload, double timeout_s)
      : target_(value(parse_target(target))),
        workload_(workload_of(workload)),
        program_(value(schedules::Schedule(workload_.compute).program())),
        workers_(value(start_workers(target_, 1, test_environment(), timeout_s))) {
    (void)value(runner().prepare(workload_.key(), reference_of(workers_, workload_), Needed::No));
  }

  Runner& runner() { return *workers_.runner; }

  /// Returns the name of an artifact that has this object and one phase.
  std::string artifact(const std::string& object, const runtime::PhaseInfo& phase,
                       int64_t scratch_bytes = 0,
                       std::optional<runtime::PreparationInfo> preparation = {}) {
    runtime::Artifact artifact;
    artifact.info.workload = workload_.key();
    artifact.info.schedule = "tw1";
    artifact.info.target = target_.to_string();
    artifact.info.toolchain = "by hand";
    artifact.info.codegen_abi = codegen::codegen_abi;
    artifact.info.phases = {phase};
    artifact.info.scratch_bytes = scratch_bytes;
    artifact.info.preparation = std::move(preparation);
    for (const schedules::Argument& a : program_.arguments)
      artifact.info.arguments.push_back(
          {a.buffer.name, a.buffer.type, a.is_output, a.shape, "", a.buffer.elements(), ""});
    artifact.object = object;
    return value(workers_.artifacts->put(artifact));
  }

  MeasureReply measure(const std::string& artifact) {
    return value(runner().measure({.artifact = artifact}));
  }
  MeasureReply measure_schedule(const std::string& schedule) {
    const BuildOutcome built =
        value(build_one(*workers_.builder, {.kernels = {{workload_.key(), schedule}}}));
    return measure(built.artifact);
  }

 private:
  Target target_;
  dsl::Workload workload_;
  schedules::Program program_;
  Workers workers_;
};

// Source of c = a b, in which each thread computes one element. `body` may use the element's index
// `i` and its sum `p`.
constexpr const char* dense = "dense m=24 n=20 k=16 f32 fast";
std::string dense_source(std::string_view body) {
  return fmt::format(R"(
enum {{ M = 24, N = 20, K = 16 }};
__kernel void dense_p0(__global const float* a, __global const float* b, __global float* c,
                       __global float* scratch) {{
  const int i = get_global_id(0);
  float p = 0;
  for (int k = 0; k < K; ++k) p += a[i / N * K + k] * b[k * N + i % N];
  {}
}})",
                     body);
}

class OnOpenCl : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
    if (!available()) GTEST_SKIP() << "[SKIP] no OpenCL device";
  }

  Bench& bench(double timeout_s = 60) {
    if (!bench_) bench_.emplace("opencl", dense, timeout_s);
    return *bench_;
  }
  std::string artifact(std::string_view body, int64_t scratch_bytes = 0) {
    return bench().artifact(dense_source(body), {"dense_p0", 24, 20}, scratch_bytes);
  }
  MeasureReply measure(std::string_view body, int64_t scratch_bytes = 0) {
    return bench().measure(artifact(body, scratch_bytes));
  }
  void expect_right_one_passes() {
    const MeasureReply right = measure("c[i] = p;");
    EXPECT_EQ(right.status, TrialStatus::Ok) << right.reason;
  }

  std::optional<Bench> bench_;

 public:
  // Opens the device in this process, so that a driver which fails only in a worker's sandbox does
  // not skip the tests.
  static bool available() {
    static const Folder cache;
    ::setenv("POCL_CACHE_DIR", cache.path().c_str(), 0);
    static const bool is = runtime::open_opencl_device().has_value();
    return is;
  }
};

TEST_F(OnOpenCl, ARightKernelIsMeasured) {
  const MeasureReply reply = measure("c[i] = p;");
  EXPECT_EQ(reply.status, TrialStatus::Ok) << reply.reason;
  EXPECT_FALSE(reply.samples_ns.empty());
  EXPECT_GT(reply.latency_ns, 0);
  EXPECT_LE(reply.low_ns, reply.latency_ns);
  EXPECT_LT(reply.verified_error, 1e-5);
}

TEST_F(OnOpenCl, AnErrorWithinTheToleranceIsTold) {
  const MeasureReply reply = measure("c[i] = p == (int)p ? p : p * (1 + 0x1p-17f);");
  EXPECT_EQ(reply.status, TrialStatus::Ok) << reply.reason;
  EXPECT_NEAR(reply.verified_error, 0x1p-17, 1e-6);
}

TEST_F(OnOpenCl, PreparationsAreVerifiedWithTheirKernels) {
  Bench bench("opencl",
              "expr fast input a: f32[6, 8]; weight w: f32[10, 8]; "
              "u: f32[c=8, k=10] = w[k, c] * w[k, c] + 1.0; "
              "out: f32[m=6, k=10] = sum(c=8) a[m, c] * u[c, k]",
              60);
  const MeasureReply reply = bench.measure_schedule("tw1\nprepare u\nparallel u c\nbind u k");
  EXPECT_EQ(reply.status, TrialStatus::Ok) << reply.reason;
  EXPECT_LT(reply.verified_error, 1e-5);
}

struct Broken {
  const char* name;
  const char* body;
  const char* status;
  const char* reason;
};

/// The preparation copies the weights to `d`, and the kernel reads `d` in place of the weights.
TEST_F(OnOpenCl, Fault37_BrokenPreparationsAreRejected) {
  Bench bench("opencl",
              "expr fast input a: f32[24, 16]; weight b: f32[16, 20]; "
              "c: f32[m=24, n=20] = sum(k=16) a[m, k] * b[k, n]",
              60);
  const auto measure = [&](std::string_view body) {
    const std::string source = fmt::format(R"(
__kernel void prepare_p0(__global float* b, __global float* d, __global float* scratch) {{
  const int i = get_global_id(0);
  d[i] = b[i];
  {}
}}
__kernel void dense_p0(__global const float* a, __global const float* b, __global float* c,
                       __global const float* d, __global float* scratch) {{
  const int i = get_global_id(0);
  float p = 0;
  for (int k = 0; k < 16; ++k) p += a[i / 20 * 16 + k] * d[k * 20 + i % 20];
  c[i] = p;
}})",
                                           body);
    const runtime::PreparationInfo preparation = {
        {1}, {{"d", Float32, false, {16, 20}, "", 320, ""}}, {{"prepare_p0", 16, 20}}, 64};
    return bench.measure(bench.artifact(source, {"dense_p0", 24, 20}, 0, preparation));
  };
  EXPECT_EQ(measure("scratch[i % 16] = 1;").status, TrialStatus::Ok);
  constexpr Broken preparations[] = {
      {"past the result", "if (i == 0) d[320] = 1;", "oob", "outside of a prepared buffer"},
      {"past the weights", "if (i == 0) b[320] = 1;", "oob", "outside of 'b'"},
      {"past scratch", "if (i == 0) scratch[16] = 1;", "oob", "scratch"},
      {"to the weights", "if (i == 0) b[0] = 17;", "mutates_input", "'b'"},
  };
  for (const Broken& preparation : preparations) {
    SCOPED_TRACE(preparation.name);
    const MeasureReply reply = measure(preparation.body);
    EXPECT_EQ(db::to_string(reply.status), preparation.status) << reply.reason;
    EXPECT_THAT(reply.reason, HasSubstr("in its preparation"));
    EXPECT_THAT(reply.reason, HasSubstr(preparation.reason));
  }
}

TEST_F(OnOpenCl, ScratchMemoryIsTheKernels) {
  const MeasureReply reply = measure("scratch[i] = p; c[i] = scratch[i];", 24 * 20 * 4);
  EXPECT_EQ(reply.status, TrialStatus::Ok) << reply.reason;
}

TEST_F(OnOpenCl, Fault37_BrokenKernelsAreRejected) {
  constexpr Broken kernels[] = {
      {"wrong", "c[i] = p + 1;", "wrong", "differs"},
      {"not a number", "c[i] = i == 7 ? NAN : p;", "wrong", "differs"},
      {"incomplete", "if (i != 7) c[i] = p;", "wrong", "differs"},
      {"past the output", "c[i] = p; if (i == 0) c[M * N] = 1;", "oob", "outside of"},
      {"far past the output", "c[i] = p; c[M * N + 16 * i] = 1;", "oob", "outside of"},
      {"past an input", "c[i] = p; ((__global float*)b)[K * N + i] = 1;", "oob", "outside of 'b'"},
      {"past scratch", "c[i] = p; scratch[16] = 1;", "oob", "scratch"},
      {"to an input", "c[i] = p; ((__global float*)a)[0] = -0.0f;", "mutates_input", "'a'"},
      {"reads poison", "c[i] = p * (as_uint(c[i]) == 0x7f7f7f7f ? 1.000001f : 1);",
       "nondeterministic", "two runs"},
      {"reads past an input", "c[i] = p * (b[K * N] > 1 ? 1.000001f : 1);", "nondeterministic",
       "two runs"},
      {"no code", "c[i] = nonsense;", "compile_error", "nonsense"},
  };
  for (const Broken& kernel : kernels) {
    SCOPED_TRACE(kernel.name);
    const MeasureReply reply = measure(kernel.body, 64);
    EXPECT_EQ(db::to_string(reply.status), kernel.status) << reply.reason;
    EXPECT_THAT(reply.reason, HasSubstr(kernel.reason));
    EXPECT_TRUE(reply.samples_ns.empty()) << "it was timed";
    expect_right_one_passes();
  }
}

TEST_F(OnOpenCl, Fault38_WhatIsWrongInLateCallsIsFound) {
  // The kernel counts its calls in the scratch memory. It is correct in the first three calls on
  // new memory, which is filled with poison, and wrong in later calls.
  const MeasureReply reply = measure(
      "const int calls = as_uint(scratch[i]) >> 16 == 0x1234 ? as_uint(scratch[i]) & 0xffff : 0;"
      "scratch[i] = as_float(0x12340000 | (calls + 1));"
      "c[i] = calls < 3 ? p : 0;",
      24 * 20 * 4);
  EXPECT_EQ(reply.status, TrialStatus::Wrong);
  EXPECT_THAT(reply.reason, HasSubstr("after it was timed"));
}

TEST_F(OnOpenCl, Fault54_AnArtifactWithoutItsKernelIsRefused) {
  const std::string name = bench().artifact(dense_source("c[i] = p;"), {"another_p0", 24, 20});
  const MeasureReply reply = bench().measure(name);
  EXPECT_EQ(reply.status, TrialStatus::CompileError);
  EXPECT_THAT(reply.reason, HasSubstr("another_p0"));
}

TEST_F(OnOpenCl, Fault34_ACrashIsSurvived) {
  const MeasureReply reply = measure("c[i] = p; *(__global volatile int*)16 = 1;");
  EXPECT_EQ(reply.status, TrialStatus::Crash) << reply.reason;
  expect_right_one_passes();
}

TEST_F(OnOpenCl, Fault35_AnEndlessKernelMeetsItsDeadline) {
  bench(10);
  expect_right_one_passes();
  const MeasureReply reply = measure("c[i] = p; for (volatile int go = 1; go;) {}");
  EXPECT_EQ(reply.status, TrialStatus::Timeout) << reply.reason;
  expect_right_one_passes();
}

TEST_F(OnOpenCl, TheFasterKernelWinsTheFinals) {
  // The counter and the stores are volatile, so that the compiler keeps every iteration.
  const auto repeated = [&](int times) {
    return artifact(
        fmt::format("for (volatile int r = 0; r < {}; ++r)"
                    "  for (int k = 0; k < K; ++k)"
                    "    ((volatile __global float*)c)[i] = p;",
                    times));
  };
  const std::string fast = repeated(50), slow = repeated(100);
  const CompareReply reply = value(bench().runner().compare({fast, slow, 11}));
  ASSERT_EQ(reply.error, "");
  EXPECT_NE(reply.winner, Winner::B);
}

TEST_F(OnOpenCl, TheDeviceIsDescribedAndItsPeakMeasured) {
  const Target machine = value(bench().runner().machine());
  EXPECT_EQ(machine.to_string(), "opencl");
  EXPECT_THAT(device_text(machine),
              testing::AllOf(HasSubstr(machine.cpu + "; "), HasSubstr("multiprocessors; ")));
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GT(machine.machine.gpu->memory_bytes, 0);
  EXPECT_GT(value(bench().runner().peak_gflops()), 0.01);
}

TEST_F(OnOpenCl, AWorkloadIsTuned) {
  Folder folder;
  auto store = open_store(folder / "t.db");
  const Target target = value(bench().runner().machine());
  const TuneOptions options{.trials = 6, .batch = 3, .timeout_s = 60};
  const auto tuned =
      tune(workload_of(dense), target, options, store, test_environment(), [](const Progress&) {});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->best.target, "opencl");
  EXPECT_EQ(tuned->best.device, device_text(target));
  EXPECT_EQ(tuned->best.toolchain, "opencl");
  EXPECT_GT(tuned->best.latency_ns, 0);
  EXPECT_GT(tuned->best.peak_gflops, 0);
  EXPECT_THAT(tuned->artifact.object, HasSubstr("__kernel"));
  const auto known = value(best_known(store, workload_of(dense), target, options.threads));
  ASSERT_TRUE(known);
  EXPECT_EQ(known->schedule, tuned->best.schedule);
}

TEST(OnOpenClAlone, TheReferenceIsADefaultKernelOfTheDevice) {
  if (!OnOpenCl::available()) GTEST_SKIP() << "[SKIP] no OpenCL device";
  Folder folder;
  auto store = open_store(folder / "t.db");
  Environment environment = test_environment();
  environment.code_generator = folder.path();  // the folder has no code generator
  const Target target =
      with_facts(value(parse_target("opencl")), value(runtime::open_opencl_device())->facts());
  const TuneOptions options{.trials = 4, .batch = 2, .timeout_s = 60};
  const auto tuned =
      tune(workload_of(dense), target, options, store, environment, [](const Progress&) {});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_GT(tuned->best.latency_ns, 0);
  const auto again =
      measure_schedule(workload_of(dense), tuned->best.schedule, target, 1, environment);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->toolchain, "opencl");
  // The reference runs on the device, and a verification accepts the reference kernel itself.
  Workers workers = value(start_workers(target, 1, environment, 60));
  const ReferenceKernel reference = reference_of(workers, workload_of(dense));
  EXPECT_TRUE(reference.on_device);
  (void)value(workers.runner->prepare(workload_of(dense).key(), reference, Needed::No));
  const MeasureReply checked =
      value(workers.runner->measure({.artifact = reference.artifact, .verify_only = true}));
  EXPECT_EQ(checked.status, TrialStatus::Ok);
}

/// A fake compiler stands in for NVRTC and reports the version of CUDA 13.9.
TEST(OnNoDevice, TheToolchainIsThatOfTheBuildersCompiler) {
  Folder folder;
  std::filesystem::create_symlink(TW_FAKE_NVRTC, folder / "libnvrtc.so.13");
  Environment environment = test_environment();
  environment.cuda_directories = {folder.path()};
  const Target target = value(parse_target("cuda:sm_90a"));
  Workers workers = value(start_workers(target, 1, environment, 60));
  EXPECT_EQ(workers.builder->toolchain(), "");
  const dsl::Workload workload = workload_of(dense);
  const BuildOutcome built = value(build_one(
      *workers.builder,
      {.kernels = {{workload.key(), schedules::Schedule(workload.compute).to_string()}}}));
  EXPECT_EQ(workers.builder->toolchain(), "nvrtc-13.9");
  const auto artifact = value(workers.artifacts->load(built.artifact, target));
  EXPECT_EQ(artifact.info.toolchain, "nvrtc-13.9");
}

/// A fixture whose workers find the driver of tests/runtime/fake_cuda.h. Its kernel saxpy_p0 adds 2
/// x to y.
class OnFakeCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_generate_code()) GTEST_SKIP() << "[SKIP] the code generator was not built";
    std::filesystem::create_symlink(TW_FAKE_CUDA, folder_ / "libcuda.so.1");
    ::setenv("LD_LIBRARY_PATH", folder_.path().c_str(), 1);
  }
  void TearDown() override { ::unsetenv("LD_LIBRARY_PATH"); }

  Folder folder_;
};

TEST_F(OnFakeCuda, Fault67_ALostDeviceIsACrashAndTheNextWorkerOpensItAfresh) {
  Bench bench("cuda:sm_90", "transpose rows=8 cols=8 f32 fast", 60);
  EXPECT_FALSE(value(bench.runner().machine()).cpu.empty());
  // `wrong` adds to its output, which holds poison, so its results are wrong. `stray` accesses
  // memory outside of its buffers, by which the device is lost.
  const std::string wrong = bench.artifact(runtime::cubin(90), {"saxpy_p0", 1, 64}),
                    stray = bench.artifact(runtime::cubin(90), {"saxpy_p0", 1000, 256});
  EXPECT_EQ(bench.measure(wrong).status, TrialStatus::Wrong);
  const MeasureReply lost = bench.measure(stray);
  EXPECT_EQ(lost.status, TrialStatus::Crash);
  EXPECT_THAT(lost.reason, HasSubstr("illegal memory access"));
  EXPECT_EQ(bench.measure(wrong).status, TrialStatus::Wrong);
}

TEST_F(OnFakeCuda, Fault82_ADriverThatNamesItsThreadsWorksWithinTheLimits) {
  Bench bench("cuda:sm_90", "transpose rows=8 cols=8 f32 fast", 60);
  EXPECT_FALSE(value(bench.runner().machine()).cpu.empty());
  const MeasureReply reply = bench.measure(bench.artifact(runtime::cubin(90), {"saxpy_p0", 1, 64}));
  EXPECT_EQ(reply.status, TrialStatus::Wrong) << reply.reason;  // the kernel was loaded and ran
}

TEST(OnNoDevice, Fault50_AMachineWithoutADriverIsTold) {
  Folder empty;
  std::ofstream(empty / "libcuda.so.1") << "no library";
  ::setenv("LD_LIBRARY_PATH", empty.path().c_str(), 1);
  auto workers = start_workers(value(parse_target("cuda:sm_90")), 1, test_environment(), 60);
  ASSERT_TRUE(workers);
  const auto machine = workers->runner->machine();
  ::unsetenv("LD_LIBRARY_PATH");
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, ErrorCode::Environment);
  EXPECT_THAT(machine.error().message, HasSubstr("[cuda]"));
}

}  // namespace
}  // namespace tw::tuner

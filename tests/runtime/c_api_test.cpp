// SPDX-License-Identifier: Apache-2.0
// Tests the C interface as a deployment uses it: the shared library, a program in C, and the
// libraries that both link.
#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/tilewright.h"
#include "tests/nightly.h"
#include "tests/runtime/opencl_library.h"
#include "tests/runtime/tiny_kernels.h"
#include "tests/runtime/tiny_model.h"
#include "tests/sanitizers.h"

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code = -1;  ///< minus the signal where one ended it
  std::string output;  ///< text of both output streams
};

Outcome run_command(const std::string& command) {
  Outcome outcome;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (size_t count; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    outcome.output.append(buffer, count);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return outcome;
}

class CApiTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_artifact(artifact_, matvec_artifact()));
    ASSERT_EQ(tw_session_open(nullptr, nullptr, 2, &session_), TW_OK);
  }
  void TearDown() override {
    tw_kernel_release(kernel_);
    tw_session_close(session_);
  }

  TemporaryDirectory directory_;
  const std::string artifact_ = directory_ / "kernel.twart";
  tw_session* session_ = nullptr;
  tw_kernel* kernel_ = nullptr;
};

TEST_F(CApiTest, ExampleProgramRuns) {
  const Outcome outcome = run_command(fmt::format("{} {}", TW_EXAMPLE, artifact_));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "input a[64,5]\ninput x[5]\noutput y[64]\ny = a x\n");
}

TEST_F(CApiTest, ExampleProgramReportsADamagedArtifact) {
  write_bytes(artifact_, read_bytes(artifact_) + "x");
  const Outcome outcome = run_command(fmt::format("{} {}", TW_EXAMPLE, artifact_));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("kernel: [artifact]"), HasSubstr(artifact_)));
}

TEST_F(CApiTest, Fault11_NullHandlesAndPointersAreErrors) {
  int32_t count = 0;
  tw_argument argument;
  EXPECT_EQ(tw_session_open(nullptr, nullptr, 1, nullptr), TW_USAGE);
  EXPECT_EQ(tw_kernel_get(nullptr, "w", &kernel_), TW_USAGE);
  EXPECT_EQ(tw_kernel_get(session_, nullptr, &kernel_), TW_USAGE);
  EXPECT_EQ(tw_kernel_load(session_, nullptr, &kernel_), TW_USAGE);
  EXPECT_EQ(tw_kernel_load(session_, artifact_.c_str(), nullptr), TW_USAGE);
  EXPECT_EQ(tw_kernel_argument_count(nullptr, &count), TW_USAGE);
  EXPECT_EQ(tw_kernel_argument(nullptr, 0, &argument), TW_USAGE);
  EXPECT_EQ(tw_kernel_call(nullptr, nullptr, 0, 0), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("kernel is NULL"));
  EXPECT_EQ(kernel_, nullptr);
  tw_kernel_release(nullptr);
  tw_session_close(nullptr);
}

TEST_F(CApiTest, Fault11_ImpossibleBuffersAreErrors) {
  ASSERT_EQ(tw_kernel_load(session_, artifact_.c_str(), &kernel_), TW_OK);
  float data[320] = {};
  const int64_t shape[] = {64, 5};
  tw_buffer buffers[3] = {{data, TW_FLOAT32, 2, shape, nullptr},
                          {data, TW_FLOAT32, 1, shape + 1, nullptr},
                          {data, 99, 1, shape, nullptr}};
  EXPECT_EQ(tw_kernel_call(kernel_, buffers, 3, 0), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("buffer 2 has dtype 99: expected a tw_dtype, 0 to 11"));
  buffers[2] = {data, TW_UINT32, 1, shape, nullptr};
  EXPECT_EQ(tw_kernel_call(kernel_, buffers, 3, 0), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("u32"));
  buffers[2] = {data, TW_FLOAT32, -1, shape, nullptr};
  EXPECT_EQ(tw_kernel_call(kernel_, buffers, 3, 0), TW_USAGE);
  buffers[2] = {data, TW_FLOAT32, 1, nullptr, nullptr};
  EXPECT_EQ(tw_kernel_call(kernel_, buffers, 3, 0), TW_USAGE);
  EXPECT_EQ(tw_kernel_call(kernel_, buffers, -1, 0), TW_USAGE);
  tw_argument argument;
  EXPECT_EQ(tw_kernel_argument(kernel_, 3, &argument), TW_USAGE);
  EXPECT_EQ(tw_kernel_argument(kernel_, -1, &argument), TW_USAGE);
}

TEST_F(CApiTest, TensorsOfDlpackAreCalled) {
  ASSERT_EQ(tw_kernel_load(session_, artifact_.c_str(), &kernel_), TW_OK);
  Matvec known = Matvec::make();
  std::vector<float> y(64);
  int64_t shape[] = {64, 5};
  const auto tensor = [](std::vector<float>& numbers, int rank, int64_t* extents) {
    return DLTensor{numbers.data(), {kDLCPU, 0}, rank, {kDLFloat, 32, 1}, extents, nullptr, 0};
  };
  DLTensor a = tensor(known.a, 2, shape), x = tensor(known.x, 1, shape + 1),
           to = tensor(y, 1, shape);
  const void* const tensors[] = {&a, &x, &to};
  ASSERT_EQ(tw_kernel_call_dlpack(kernel_, tensors, 3, 0), TW_OK) << tw_last_error();
  EXPECT_EQ(y, known.y);
  x.dtype.bits = 64;
  EXPECT_EQ(tw_kernel_call_dlpack(kernel_, tensors, 3, 0), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("input 'x'"));
  EXPECT_EQ(tw_kernel_call_dlpack(kernel_, tensors, -1, 0), TW_USAGE);
  EXPECT_EQ(tw_kernel_call_dlpack(kernel_, nullptr, 3, 0), TW_USAGE);
  EXPECT_EQ(tw_kernel_call_dlpack(nullptr, tensors, 3, 0), TW_USAGE);
}

TEST_F(CApiTest, CallsPrepareConstants) {
  ASSERT_TRUE(write_artifact(artifact_, prepared_artifact()));
  ASSERT_EQ(tw_kernel_load(session_, artifact_.c_str(), &kernel_), TW_OK) << tw_last_error();
  int32_t count = 0;
  ASSERT_EQ(tw_kernel_argument_count(kernel_, &count), TW_OK);
  EXPECT_EQ(count, 3);
  float x[] = {1, 2, 3, 4}, w[] = {0, 1, 2, 3}, y[4] = {};
  const int64_t shape[] = {4};
  const tw_buffer buffers[] = {{x, TW_FLOAT32, 1, shape, nullptr},
                               {w, TW_FLOAT32, 1, shape, nullptr},
                               {y, TW_FLOAT32, 1, shape, nullptr}};
  ASSERT_EQ(tw_kernel_call(kernel_, buffers, 3, 0), TW_OK) << tw_last_error();
  EXPECT_EQ(y[3], 40);
  w[3] = 1;
  ASSERT_EQ(tw_kernel_call(kernel_, buffers, 3, 0), TW_OK) << tw_last_error();
  EXPECT_EQ(y[3], 8);
}

TEST_F(CApiTest, StatusesKeepTheirMeaning) {
  EXPECT_EQ(tw_kernel_get(session_, "w", &kernel_), TW_NO_CANDIDATE);
  EXPECT_EQ(tw_kernel_load(session_, (directory_ / "none").c_str(), &kernel_), TW_NOT_COMPILED);
  tw_session* other = nullptr;
  const std::string none = directory_ / "none.db";
  EXPECT_EQ(tw_session_open(none.c_str(), directory_.path().c_str(), 1, &other), TW_DATABASE);
  EXPECT_EQ(tw_session_open(none.c_str(), nullptr, 1, &other), TW_USAGE);
  EXPECT_EQ(other, nullptr);
  EXPECT_STRNE(tw_version(), "");
  EXPECT_EQ(tw_runtime_abi(), kRuntimeAbi);
}

TEST_F(CApiTest, KernelsOfTheProcessorTakeNoDeviceMemory) {
  ASSERT_EQ(tw_kernel_load(session_, artifact_.c_str(), &kernel_), TW_OK);
  tw_buffer buffers[3] = {};
  void* queue = nullptr;
  EXPECT_EQ(tw_kernel_call_on(kernel_, buffers, 3, nullptr), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("[tw_kernel_call_on] the kernel runs on the processor"));
  EXPECT_EQ(tw_session_queue(session_, &queue), TW_USAGE);
  EXPECT_EQ(tw_session_queue(nullptr, &queue), TW_USAGE);
  EXPECT_EQ(tw_session_open_device(nullptr, nullptr, nullptr, &session_), TW_USAGE);
  EXPECT_EQ(tw_session_open_device(nullptr, nullptr, "gpu", &session_), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("'gpu' is no device"));
}

/// Returns the buffers of a call: the matrix, the vector and the result. The memory may be of a
/// device.
std::vector<tw_buffer> buffers_of(void* a, void* x, void* y) {
  static constexpr int64_t shape[] = {64, 5};
  return {{a, TW_FLOAT32, 2, shape, nullptr},
          {x, TW_FLOAT32, 1, shape + 1, nullptr},
          {y, TW_FLOAT32, 1, shape, nullptr}};
}

class OnDevice : public CApiTest {
 protected:
  void SetUp() override { keep_pocl_cache_apart(); }

  /// Loads the kernel on the device. Returns false if there is no such device; tw_last_error() then
  /// says why.
  bool opens(const char* device, const Artifact& artifact) {
    EXPECT_TRUE(write_artifact(artifact_, artifact));
    if (tw_session_open_device(nullptr, nullptr, device, &session_) != TW_OK) return false;
    EXPECT_EQ(tw_kernel_load(session_, artifact_.c_str(), &kernel_), TW_OK) << tw_last_error();
    return kernel_ != nullptr;
  }
  /// Checks calls on arrays in the processor's memory.
  void expect_call() {
    std::vector<float> y(64);
    const auto buffers = buffers_of(known_.a.data(), known_.x.data(), y.data());
    ASSERT_EQ(tw_kernel_call(kernel_, buffers.data(), 3, 0), TW_OK) << tw_last_error();
    EXPECT_EQ(y, known_.y);
  }

  Matvec known_ = Matvec::make();
};

TEST_F(OnDevice, AKernelRunsOnOpenCl) {
  if (!opens("opencl", matvec_for_opencl())) GTEST_SKIP() << "[SKIP] " << tw_last_error();
  expect_call();
  void* queue = nullptr;
  ASSERT_EQ(tw_session_queue(session_, &queue), TW_OK);
  tw_session_close(session_);  // the kernel stays usable
  session_ = nullptr;
  OpenClLibrary library(queue);
  const auto a = library.make_memory(known_.a), x = library.make_memory(known_.x),
             y = library.make_memory(std::vector<float>(64));
  const auto buffers = buffers_of(a.get(), x.get(), y.get());
  ASSERT_EQ(tw_kernel_call_on(kernel_, buffers.data(), 3, queue), TW_OK) << tw_last_error();
  EXPECT_EQ(library.read(queue, y.get(), 64), known_.y);
  EXPECT_EQ(tw_kernel_call_on(kernel_, buffers.data(), 2, queue), TW_USAGE);
}

TEST_F(OnDevice, ExampleProgramRunsOnOpenCl) {
  if (!opens("opencl", matvec_for_opencl())) GTEST_SKIP() << "[SKIP] " << tw_last_error();
  // PoCL never frees the memory that it allocates, so LeakSanitizer is turned off.
  const Outcome outcome =
      run_command(fmt::format("ASAN_OPTIONS=detect_leaks=0 {} {} opencl", TW_EXAMPLE, artifact_));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("y = a x\n"));
}

TEST_F(OnDevice, AKernelRunsOnCuda) {
  void* const driver = dlopen(TW_FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  FakeCuda& fake = *reinterpret_cast<FakeCudaControl*>(dlsym(driver, "fake_cuda"))();
  fake.kernels = matvec_for_fake_cuda();
  ASSERT_TRUE(opens("cuda", matvec_for_cuda("sm_90a"))) << tw_last_error();
  expect_call();
  void* queue = nullptr;
  ASSERT_EQ(tw_session_queue(session_, &queue), TW_OK);
  fake.launches.clear();
  // The memory of the fake driver is memory of the process, so the test can pass its own arrays.
  alignas(16) float y[64] = {};
  std::vector<float> a = known_.a, x = known_.x;
  const auto buffers = buffers_of(a.data(), x.data(), y);
  ASSERT_EQ(tw_kernel_call_on(kernel_, buffers.data(), 3, nullptr), TW_OK) << tw_last_error();
  ASSERT_EQ(tw_kernel_call_on(kernel_, buffers.data(), 3, queue), TW_OK) << tw_last_error();
  EXPECT_EQ(std::vector<float>(y, y + 64), known_.y);
  ASSERT_EQ(fake.launches.size(), 4U);
  EXPECT_EQ(fake.launches[0].stream, nullptr);
  EXPECT_EQ(fake.launches[2].stream, queue);
  int64_t shape[] = {64, 5};
  const DLDevice gpu{kDLCUDA, 0};
  const DLDataType f32{kDLFloat, 32, 1};
  DLTensor tensors[] = {{a.data(), gpu, 2, f32, shape, nullptr, 0},
                        {x.data(), gpu, 1, f32, shape + 1, nullptr, 0},
                        {y, gpu, 1, f32, shape, nullptr, 0}};
  const void* const given[] = {&tensors[0], &tensors[1], &tensors[2]};
  ASSERT_EQ(tw_kernel_call_dlpack(kernel_, given, 3, 2), TW_OK) << tw_last_error();
  EXPECT_EQ(fake.launches.back().stream, reinterpret_cast<void*>(2));
  tw_session* second = nullptr;
  EXPECT_EQ(tw_session_open_device(nullptr, nullptr, "cuda:1", &second), TW_USAGE);
  EXPECT_EQ(second, nullptr);
}

// A deployment needs no compiler and no machine learning library.
TEST(Linkage, RuntimeNeedsFewLibraries) {
  const Outcome outcome = run_command(fmt::format("ldd {}", TW_RUNTIME_LIBRARY));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("libsqlite3"), HasSubstr("libcrypto")));
  for (const char* const unwanted : {"Halide", "LLVM", "xgboost", "libgomp", "not found"})
    EXPECT_THAT(outcome.output, Not(HasSubstr(unwanted)));
}

TEST(Linkage, RuntimeExportsTheCInterfaceOnly) {
  const Outcome outcome =
      run_command(fmt::format("nm -D --defined-only --format=posix {}", TW_RUNTIME_LIBRARY));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("tw_kernel_call T"));
  for (size_t begin = 0; begin < outcome.output.size();) {
    const size_t end = outcome.output.find('\n', begin);
    EXPECT_EQ(outcome.output.substr(begin, 3), "tw_") << outcome.output.substr(begin, end - begin);
    begin = end + 1;
  }
}

/// Runs the program again and again, each time with another allocation that fails: the first, the
/// fourth, and so on, and at night each one, until 20 runs succeed in a row. A program whose
/// allocation fails must exit with 0 or 1 and not die by a signal. The only exception is the
/// destructor of nlohmann's values (3.11), which allocates and aborts if that fails.
void expect_errors_of_failing_allocations(const std::string& program, const std::string& success,
                                          int most_allocations, int most_aborts) {
  if (has_shadow_memory) GTEST_SKIP() << "the sanitizer has its own allocator";
  int succeeded = 0, aborted_in_destructor = 0;
  for (int n = 1; n < most_allocations && succeeded < 20; n += cases_of(3, 1)) {
    const Outcome outcome = run_command(
        fmt::format("MALLOC_FAILS_AT={} LD_PRELOAD={} exec {}", n, TW_MALLOC_FAILS, program));
    succeeded = outcome.output.find(success) != std::string::npos ? succeeded + 1 : 0;
    if (outcome.exit_code == -SIGABRT && outcome.output.find("bad_alloc") != std::string::npos)
      ++aborted_in_destructor;
    else
      ASSERT_THAT(outcome.exit_code, testing::AnyOf(0, 1)) << "allocation " << n << outcome.output;
  }
  EXPECT_EQ(succeeded, 20) << "the loop ended before the allocations did";
  EXPECT_LE(aborted_in_destructor, most_aborts);
}

TEST_F(CApiTest, Fault14_AnyAllocationMayFail) {
  expect_errors_of_failing_allocations(fmt::format("{} {}", TW_EXAMPLE, artifact_), "y = a x", 2000,
                                       6);
}

class NetworkInC : public CApiTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_model(path_, one_step_model()));
    ASSERT_EQ(tw_session_open(nullptr, nullptr, 2, &session_), TW_OK);
  }
  void TearDown() override {
    tw_model_release(model_);
    tw_session_close(session_);
  }

  const std::string path_ = directory_ / "net.twart";
  tw_model* model_ = nullptr;
};

TEST_F(NetworkInC, ExampleProgramRuns) {
  const Outcome outcome = run_command(fmt::format("{} {}", TW_NETWORK_EXAMPLE, path_));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "input x[4]\noutput y[4]\ny = x w\n");
}

TEST_F(NetworkInC, Fault54_ExampleProgramReportsADamagedFile) {
  write_bytes(path_, read_bytes(path_) + "x");
  const Outcome outcome = run_command(fmt::format("{} {}", TW_NETWORK_EXAMPLE, path_));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("model: [model]"), HasSubstr(path_)));
}

TEST_F(NetworkInC, Fault11_NullHandlesPointersAndWrongBuffersAreErrors) {
  int32_t count = 0;
  tw_argument argument;
  EXPECT_EQ(tw_model_open(nullptr, path_.c_str(), &model_), TW_USAGE);
  EXPECT_EQ(tw_model_open(session_, nullptr, &model_), TW_USAGE);
  EXPECT_EQ(tw_model_open(session_, path_.c_str(), nullptr), TW_USAGE);
  EXPECT_EQ(tw_model_open(session_, (directory_ / "none").c_str(), &model_), TW_NOT_COMPILED);
  EXPECT_EQ(tw_model_argument_count(nullptr, &count), TW_USAGE);
  EXPECT_EQ(tw_model_argument(nullptr, 0, &argument), TW_USAGE);
  EXPECT_EQ(tw_model_call(nullptr, nullptr, 0, 0), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("[tw_model_call] model is NULL"));
  EXPECT_EQ(model_, nullptr);
  tw_model_release(nullptr);

  ASSERT_EQ(tw_model_open(session_, path_.c_str(), &model_), TW_OK) << tw_last_error();
  EXPECT_EQ(tw_model_argument_count(model_, nullptr), TW_USAGE);
  EXPECT_EQ(tw_model_argument(model_, 2, &argument), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("[tw_model_argument] index 2 given, expected 0 to 1"));
  EXPECT_EQ(tw_model_argument(model_, -1, &argument), TW_USAGE);
  EXPECT_EQ(tw_model_argument(model_, 0, nullptr), TW_USAGE);
  float data[8] = {};
  const int64_t shape[] = {4};
  tw_buffer buffers[] = {{data, TW_FLOAT32, 1, shape, nullptr},
                         {data + 4, TW_FLOAT32, 1, shape, nullptr}};
  EXPECT_EQ(tw_model_call(model_, nullptr, 2, 0), TW_USAGE);
  EXPECT_EQ(tw_model_call(model_, buffers, 1, 0), TW_USAGE);
  EXPECT_EQ(tw_model_call(model_, buffers, -1, 0), TW_USAGE);
  EXPECT_EQ(tw_model_call(model_, buffers, 2, 0), TW_OK) << tw_last_error();
  buffers[1].data = data + 3;
  EXPECT_EQ(tw_model_call(model_, buffers, 2, 0), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("output 'y': shares memory"));
}

TEST_F(NetworkInC, LoopsRunTheirTrips) {
  ASSERT_TRUE(write_model(path_, loop_model(2)));
  ASSERT_EQ(tw_model_open(session_, path_.c_str(), &model_), TW_OK) << tw_last_error();
  float s[] = {1, 2, 3, 4}, x[] = {1, 1, 2, 2, 3, 3, 3, 3}, y[8] = {};
  const int64_t row[] = {4}, rows[] = {2, 4};
  const tw_buffer buffers[] = {{s, TW_FLOAT32, 1, row, nullptr},
                               {x, TW_FLOAT32, 2, rows, nullptr},
                               {y, TW_FLOAT32, 2, rows, nullptr}};
  ASSERT_EQ(tw_model_call(model_, buffers, 3, 0), TW_OK) << tw_last_error();
  EXPECT_THAT(y, testing::ElementsAre(1, 4, 18, 32, 3, 12, 54, 96));
  tw_step_time steps[4] = {};
  int32_t count = -1;
  ASSERT_EQ(tw_model_profile(model_, buffers, 3, 0, steps, 4, &count), TW_OK) << tw_last_error();
  ASSERT_EQ(count, 4);
  EXPECT_STREQ(steps[1].name, "next");
  EXPECT_STREQ(steps[2].name, "next");
}

TEST_F(NetworkInC, AProfileNamesTheStepsAndSaysWhenTheyRan) {
  ASSERT_TRUE(write_model(path_, tiny_model()));
  ASSERT_EQ(tw_model_open(session_, path_.c_str(), &model_), TW_OK) << tw_last_error();
  float x[] = {1, 2, 3, 4}, y[4] = {};
  const int64_t shape[] = {4};
  const tw_buffer buffers[] = {{x, TW_FLOAT32, 1, shape, nullptr},
                               {y, TW_FLOAT32, 1, shape, nullptr}};
  tw_step_time steps[4] = {};
  int32_t count = -1;
  ASSERT_EQ(tw_model_profile(model_, buffers, 2, 0, steps, 4, &count), TW_OK) << tw_last_error();
  EXPECT_EQ(std::vector<float>(y, y + 4), tiny_result({1, 2, 3, 4}));
  ASSERT_EQ(count, 3);
  EXPECT_STREQ(steps[0].name, "multiply");
  EXPECT_STREQ(steps[2].name, "add");
  EXPECT_EQ(steps[3].name, nullptr);
  for (int step = 0; step < 3; ++step) {
    EXPECT_LE(steps[step].begin_ns, steps[step].end_ns);
    EXPECT_LE(step > 0 ? steps[step - 1].end_ns : 0, steps[step].begin_ns);
  }
  steps[1] = {};
  count = -1;
  ASSERT_EQ(tw_model_profile(model_, buffers, 2, 1, steps, 1, &count), TW_OK);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(steps[1].name, nullptr) << "no more than the capacity";
  EXPECT_EQ(tw_model_profile(model_, buffers, 2, 1, nullptr, 0, &count), TW_OK);

  count = -1;
  EXPECT_EQ(tw_model_profile(nullptr, buffers, 2, 0, steps, 4, &count), TW_USAGE);
  EXPECT_EQ(tw_model_profile(model_, nullptr, 2, 0, steps, 4, &count), TW_USAGE);
  EXPECT_EQ(tw_model_profile(model_, buffers, 1, 0, steps, 4, &count), TW_USAGE);
  EXPECT_EQ(tw_model_profile(model_, buffers, 2, 0, nullptr, 4, &count), TW_USAGE);
  EXPECT_EQ(tw_model_profile(model_, buffers, 2, 0, steps, -1, &count), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("[tw_model_profile] a capacity of -1 steps given"));
  EXPECT_EQ(tw_model_profile(model_, buffers, 2, 0, steps, 4, nullptr), TW_USAGE);
  x[0] = -1;
  EXPECT_EQ(tw_model_profile(model_, buffers, 2, 0, steps, 4, &count), TW_INTERNAL);
  EXPECT_EQ(count, -1);
}

TEST_F(NetworkInC, VariantsAreDescribedAndChosen) {
  ASSERT_TRUE(write_model(path_, two_variants_model()));
  ASSERT_EQ(tw_model_open(session_, path_.c_str(), &model_), TW_OK) << tw_last_error();
  int32_t count = 0;
  ASSERT_EQ(tw_model_variant_count(model_, &count), TW_OK);
  EXPECT_EQ(count, 2);
  tw_argument argument;
  ASSERT_EQ(tw_model_variant_argument(model_, 1, 0, &argument), TW_OK) << tw_last_error();
  EXPECT_EQ(argument.rank, 2);
  EXPECT_STREQ(argument.name, "x");
  float x[] = {1, 2, 3, 4}, y[4] = {};
  const int64_t square[] = {2, 2}, long_one[] = {5};
  tw_buffer buffers[] = {{x, TW_FLOAT32, 2, square, nullptr}, {y, TW_FLOAT32, 2, square, nullptr}};
  ASSERT_EQ(tw_model_call(model_, buffers, 2, 0), TW_OK) << tw_last_error();
  EXPECT_EQ(y[3], 8);
  buffers[0].rank = 1;
  buffers[0].shape = long_one;
  EXPECT_EQ(tw_model_call(model_, buffers, 2, 0), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("x [5] given, expected x [4]; or x [2, 2]"));

  EXPECT_EQ(tw_model_variant_count(nullptr, &count), TW_USAGE);
  EXPECT_EQ(tw_model_variant_count(model_, nullptr), TW_USAGE);
  EXPECT_EQ(tw_model_variant_argument(nullptr, 0, 0, &argument), TW_USAGE);
  EXPECT_EQ(tw_model_variant_argument(model_, 2, 0, &argument), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("variant 2 given, expected 0 to 1"));
  EXPECT_EQ(tw_model_variant_argument(model_, -1, 0, &argument), TW_USAGE);
  EXPECT_EQ(tw_model_variant_argument(model_, 1, 2, &argument), TW_USAGE);
  EXPECT_EQ(tw_model_variant_argument(model_, 1, 0, nullptr), TW_USAGE);
}

TEST_F(NetworkInC, TensorsOfDlpackAreUsedInPlace) {
  ASSERT_EQ(tw_model_open(session_, path_.c_str(), &model_), TW_OK) << tw_last_error();
  float x[] = {5, 6, 7, 8}, y[4] = {};
  int64_t shape[] = {4};
  const DLDataType f32{kDLFloat, 32, 1};
  DLTensor tensors[] = {{x, {kDLCPU, 0}, 1, f32, shape, nullptr, 0},
                        {y, {kDLCPU, 0}, 1, f32, shape, nullptr, 0}};
  const void* const given[] = {&tensors[0], &tensors[1]};
  ASSERT_EQ(tw_model_call_dlpack(model_, given, 2, 0), TW_OK) << tw_last_error();
  EXPECT_EQ(y[3], 32);
  EXPECT_EQ(tw_model_call_dlpack(nullptr, given, 2, 0), TW_USAGE);
  EXPECT_EQ(tw_model_call_dlpack(model_, nullptr, 2, 0), TW_USAGE);
  EXPECT_EQ(tw_model_call_dlpack(model_, given, 1, 0), TW_USAGE);
  tensors[0].device = {kDLCUDA, 0};
  EXPECT_EQ(tw_model_call_dlpack(model_, given, 2, 0), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("input 'x': a tensor on CUDA device 0 given"));
}

TEST_F(NetworkInC, ASessionOfADeviceRunsTheNetworksOfItsKind) {
  void* const driver = dlopen(TW_FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  FakeCuda* const fake = reinterpret_cast<FakeCudaControl*>(dlsym(driver, "fake_cuda"))();
  fake->kernels = tiny_kernels_for_fake_cuda();
  tw_session* device = nullptr;
  ASSERT_EQ(tw_session_open_device(nullptr, nullptr, "cuda", &device), TW_OK) << tw_last_error();
  tw_model* model = nullptr;
  EXPECT_EQ(tw_model_open(device, path_.c_str(), &model), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("load it without a device"));

  const std::string path = path_ + ".gpu";
  ASSERT_TRUE(write_model(path, tiny_model_for("cuda:sm_90a")));
  ASSERT_EQ(tw_model_open(device, path.c_str(), &model), TW_OK) << tw_last_error();
  std::vector<float> x = {1, 2, 3, 4}, y(4);
  const int64_t shape[] = {4};
  const tw_buffer buffers[] = {{x.data(), TW_FLOAT32, 1, shape, nullptr},
                               {y.data(), TW_FLOAT32, 1, shape, nullptr}};
  EXPECT_EQ(tw_model_call(model, buffers, 2, 0), TW_OK) << tw_last_error();
  EXPECT_EQ(y, tiny_result(x));
  // The memory of the fake driver is memory of the process, so its kernels can use these arrays.
  alignas(16) float on_device[8] = {2, 2, 2, 2};
  const tw_buffer arrays[] = {{on_device, TW_FLOAT32, 1, shape, nullptr},
                              {on_device + 4, TW_FLOAT32, 1, shape, nullptr}};
  EXPECT_EQ(tw_model_call_on(model, arrays, 2, nullptr), TW_OK) << tw_last_error();
  EXPECT_EQ(std::vector<float>(on_device + 4, on_device + 8), tiny_result({2, 2, 2, 2}));
  EXPECT_EQ(tw_model_call_on(nullptr, arrays, 2, nullptr), TW_USAGE);
  EXPECT_EQ(tw_model_call_on(model, arrays, 1, nullptr), TW_USAGE);
  ASSERT_EQ(tw_model_open(session_, path_.c_str(), &model_), TW_OK) << tw_last_error();
  EXPECT_EQ(tw_model_call_on(model_, arrays, 2, nullptr), TW_USAGE);
  tw_model_release(model);
  EXPECT_EQ(tw_model_open(session_, path.c_str(), &model), TW_USAGE);
  EXPECT_THAT(tw_last_error(), HasSubstr("give a device to load it on"));
  tw_session_close(device);
}

TEST_F(NetworkInC, Fault14_AnyAllocationMayFail) {
  expect_errors_of_failing_allocations(fmt::format("{} {}", TW_NETWORK_EXAMPLE, path_), "y = x w",
                                       4000, 20);
}

}  // namespace
}  // namespace tw::runtime

// SPDX-License-Identifier: Apache-2.0
// Tests Device with OpenCL, on any OpenCL device that the machine has. With PoCL, the processor is
// such a device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "runtime/device.h"
#include "tests/runtime/opencl_library.h"

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// Computes y = 2 x + y. Block i of z is block i of the new y in reverse order, by way of local
// memory.
constexpr const char* saxpy = R"(
__kernel void saxpy_p0(__global const float* x, __global float* y, __global float* z,
                       __global void* scratch) {
  __local float tile[64];
  const int thread = get_local_id(0), i = get_global_id(0);
  y[i] += 2.0f * x[i];
  tile[thread] = y[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  z[i] = tile[63 - thread] + (scratch == 0 ? 0.0f : 1000.0f);
})";

class OpenClDevice : public testing::Test {
 protected:
  void SetUp() override {
    keep_pocl_cache_apart();
    auto device = open_opencl_device();
    if (!device) GTEST_SKIP() << device.error().message;
    device_ = *device;
  }

  DeviceBuffer buffer_of(const std::vector<float>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
    DeviceBuffer buffer = device_->allocate(bytes).value();
    EXPECT_TRUE(buffer.write(values.data(), bytes));
    return buffer;
  }

  std::vector<float> values_of(const DeviceBuffer& buffer) {
    std::vector<float> values(static_cast<size_t>(buffer.bytes()) / sizeof(float));
    EXPECT_TRUE(buffer.read(values.data(), buffer.bytes()));
    return values;
  }

  DeviceFunction saxpy_function() {
    return device_->load({.text = saxpy}).value().function("saxpy_p0").value();
  }

  std::shared_ptr<Device> device_;
};

TEST_F(OpenClDevice, SaysWhatItIs) {
  const DeviceFacts& facts = device_->facts();
  EXPECT_FALSE(facts.name.empty());
  EXPECT_EQ(facts.architecture, "opencl");
  EXPECT_GE(facts.multiprocessors, 1);
  EXPECT_GE(facts.warp_size, 1);
  EXPECT_GE(facts.max_threads_per_block, 64);
  EXPECT_GE(facts.shared_bytes_per_block, 16 << 10);
  EXPECT_GT(facts.memory_bytes, 0);
}

TEST_F(OpenClDevice, RunsAKernelWithLocalMemoryAndABarrier) {
  std::vector<float> numbers(256);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const DeviceBuffer x = buffer_of(numbers), y = buffer_of(std::vector<float>(256, 1.0F)),
                     z = buffer_of(numbers);
  const Launch launch{saxpy_function(), 4, 64, 0, {x.address(), y.address(), z.address(), nullptr}};
  ASSERT_TRUE(device_->launch({&launch, 1}));

  const auto sums = values_of(y), reversed = values_of(z);
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(sums[i], 2.0F * static_cast<float>(i) + 1.0F) << i;
    EXPECT_EQ(reversed[i], sums[i / 64 * 64 + 63 - i % 64]) << i;
  }
}

TEST_F(OpenClDevice, LaunchesRunInOrderAndArgumentsAreTakenAtTheCall) {
  const DeviceBuffer x = buffer_of(std::vector<float>(64, 1.0F)),
                     y = buffer_of(std::vector<float>(64, 0.0F)),
                     z = buffer_of(std::vector<float>(64, 0.0F));
  const DeviceFunction function = saxpy_function();
  // The launches compute y = 2; z = 2 (y in reverse); then x = 5 and z = 5; then y = 12 and z = 12
  // + 1000.
  const std::vector<Launch> launches = {
      {function, 1, 64, 0, {x.address(), y.address(), z.address(), nullptr}},
      {function, 1, 64, 0, {z.address(), x.address(), z.address(), nullptr}},
      {function, 0, 64, 0, {x.address(), x.address(), x.address(), nullptr}},
      {function, 1, 64, 0, {x.address(), y.address(), z.address(), y.address()}}};
  ASSERT_TRUE(device_->launch(launches));
  ASSERT_TRUE(device_->synchronize());
  EXPECT_THAT(values_of(y), Each(12.0F));
  EXPECT_THAT(values_of(z), Each(1012.0F));
}

// In OpenCL, a kernel object stores its arguments. Calls of several threads must not mix them up.
TEST_F(OpenClDevice, ThreadsLaunchTheSameFunctionWithArgumentsOfTheirOwn) {
  constexpr int launches = 1000;
  const DeviceFunction function = saxpy_function();
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results)
    threads.emplace_back([&] {
      const DeviceBuffer x = buffer_of(std::vector<float>(64, 1.0F)),
                         y = buffer_of(std::vector<float>(64, 0.0F));
      const DeviceBuffer z = buffer_of(std::vector<float>(64, 0.0F));
      const Launch launch{function, 1, 64, 0, {x.address(), y.address(), z.address(), nullptr}};
      for (int i = 0; i < launches; ++i) EXPECT_TRUE(device_->launch({&launch, 1}));
      result = values_of(y);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_THAT(result, Each(2.0F * launches));
}

TEST_F(OpenClDevice, BuffersAreFilledReadAndWrittenInParts) {
  const DeviceBuffer buffer = buffer_of(std::vector<float>(8, 3.0F));
  ASSERT_TRUE(buffer.fill(0));
  const float five = 5.0F;
  ASSERT_TRUE(buffer.write(&five, 4, 12));
  float part[2] = {-1.0F, -1.0F};
  ASSERT_TRUE(buffer.read(part, 8, 8));
  EXPECT_EQ(part[0], 0.0F);
  EXPECT_EQ(part[1], 5.0F);
  EXPECT_EQ(buffer.write(&five, 4, 29).error().code, ErrorCode::Usage);
  EXPECT_EQ(buffer.read(part, 8, -1).error().code, ErrorCode::Usage);

  const DeviceBuffer empty = device_->allocate(0).value();
  EXPECT_EQ(empty.address(), nullptr);
  EXPECT_TRUE(empty.fill(1));
  EXPECT_EQ(device_->allocate(-1).error().code, ErrorCode::Usage);
}

TEST_F(OpenClDevice, MoreMemoryThanThereIsLeavesTheDeviceAlive) {
  const auto buffer = device_->allocate(int64_t{1} << 50);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::Environment);
  EXPECT_THAT(buffer.error().message, HasSubstr("cannot allocate 1125899906842624 bytes"));
  EXPECT_FALSE(device_->lost());
  EXPECT_TRUE(device_->allocate(64));
}

TEST_F(OpenClDevice, ABuildErrorIsOneLineWithWhatTheCompilerSaid) {
  const auto module = device_->load({.text = "__kernel void f(__global float* x) { x[0] = y; }"});
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, ErrorCode::Invalid);
  EXPECT_THAT(module.error().message,
              AllOf(HasSubstr("does not compile"), HasSubstr("undeclared identifier 'y'"),
                    Not(HasSubstr("\n"))));
  EXPECT_EQ(device_->load({.architecture = "sm_90a", .binary = "cubin"}).error().code,
            ErrorCode::Unsupported);
}

TEST_F(OpenClDevice, WrongLaunchesAreNamedAndNotMade) {
  const DeviceModule module = device_->load({.text = saxpy}).value();
  EXPECT_EQ(module.function("saxpy_p1").error().code, ErrorCode::Invalid);
  const DeviceFunction function = module.function("saxpy_p0").value();
  EXPECT_EQ(function.facts().arguments, 4);
  EXPECT_GE(function.facts().shared_bytes, 256);

  const auto refusal = [&](const Launch& launch) {
    const Status status = device_->launch({&launch, 1});
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
    return status.error().message;
  };
  const std::vector<DeviceAddress> four(4);
  EXPECT_THAT(refusal({function, 1, 64, 0, {nullptr}}), HasSubstr("1 arguments, expected 4"));
  EXPECT_THAT(refusal({function, 1, 0, 0, four}), HasSubstr("0 threads a block"));
  EXPECT_THAT(refusal({function, 1, 1 << 30, 0, four}), HasSubstr("1073741824 threads a block"));
  EXPECT_THAT(refusal({function, -1, 64, 0, four}), HasSubstr("-1 blocks"));
  EXPECT_THAT(refusal({function, 1, 64, 16, four}), HasSubstr("OpenCL C declares"));
  EXPECT_THAT(refusal({DeviceFunction(), 1, 64, 0, {}}), HasSubstr("was not loaded by"));
}

TEST_F(OpenClDevice, TimesLaunchesByItsOwnClock) {
  const DeviceBuffer x = buffer_of(std::vector<float>(1 << 16, 1.0F)),
                     y = buffer_of(std::vector<float>(1 << 16, 0.0F));
  const std::vector<DeviceAddress> arguments = {x.address(), y.address(), x.address(), nullptr};
  const std::vector<Launch> launches(3, Launch{saxpy_function(), 1 << 10, 64, 0, arguments});
  const auto samples = device_->time_ns(launches, {.repeats = 4, .before = {launches.data(), 1}});
  ASSERT_TRUE(samples) << samples.error().message;
  EXPECT_THAT(*samples, AllOf(SizeIs(4), Each(Gt(0.0))));
  EXPECT_THAT(device_->time_ns({}).value(), Each(0.0));
}

TEST_F(OpenClDevice, WhatItMadeKeepsItOpen) {
  const DeviceBuffer x = buffer_of(std::vector<float>(64, 1.0F));
  const std::weak_ptr<Device> device = device_;
  device_.reset();
  EXPECT_FALSE(device.expired());
  EXPECT_EQ(values_of(x)[63], 1.0F);
}

TEST(OpenClLibrary, Fault50_AMachineWithoutOpenClIsToldWhatToInstall) {
  const auto device = open_opencl_device({.library = "/nonexistent/libOpenCL.so.1"});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::Environment);
  EXPECT_THAT(device.error().message,
              AllOf(HasSubstr("no OpenCL"), HasSubstr("pocl-opencl-icd"), Not(HasSubstr("\n"))));
}

TEST_F(OpenClDevice, Fault51_ADeviceThatIsNotThereIsAUsageError) {
  const auto device = open_opencl_device({.index = 1000});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::Usage);
  EXPECT_THAT(device.error().message, HasSubstr("no device 1000"));
}

}  // namespace
}  // namespace tw::runtime

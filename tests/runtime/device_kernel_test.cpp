// SPDX-License-Identifier: Apache-2.0
// Tests DeviceKernel on the driver of tests/runtime/fake_cuda.h, and on any OpenCL device that the
// machine has.
#include "runtime/devices/device_kernel.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <thread>

#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/opencl_library.h"
#include "tests/runtime/tiny_kernels.h"

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* ptx_for_sm80 = ".version 9.0\n.target sm_80\n.address_size 64\n";

// ---- NVIDIA's GPUs --------------------------------------------------------------------------

class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    fake_ = reinterpret_cast<FakeCudaControl*>(dlsym(library, "fake_cuda"))();
    *fake_ = {};
    fake_->kernels = matvec_for_fake_cuda();
    device_ = open_cuda_device({.library = TW_FAKE_CUDA}).value();
  }
  void TearDown() override { *fake_ = {}; }

  DeviceKernel kernel() { return DeviceKernel::load(matvec_for_cuda("sm_90a"), device_).value(); }
  DeviceBuffer on_device(const std::vector<float>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
    DeviceBuffer buffer = device_->allocate(bytes).value();
    EXPECT_TRUE(buffer.write(values.data(), bytes));
    return buffer;
  }
  static std::vector<float> values_of(const DeviceBuffer& buffer) {
    std::vector<float> values(static_cast<size_t>(buffer.bytes()) / sizeof(float));
    EXPECT_TRUE(buffer.read(values.data(), buffer.bytes()));
    return values;
  }
  std::vector<void*> streams() const {
    std::vector<void*> all;
    for (const FakeLaunch& launch : fake_->launches) all.push_back(launch.stream);
    return all;
  }

  FakeCuda* fake_ = nullptr;
  std::shared_ptr<Device> device_;
  Matvec known_ = Matvec::make();
};

/// Arrays of a call, in memory of the device.
struct Given {
  DeviceBuffer a, x, y;
  std::vector<DeviceArray> arrays() const {
    return {
        {a.address(), Float32, {64, 5}}, {x.address(), Float32, {5}}, {y.address(), Float32, {64}}};
  }
};

TEST_F(OnCuda, CopiesArraysOfTheProcessorInAndOut) {
  std::vector<float> y(64);
  const int64_t live = fake_->live;
  {
    const DeviceKernel loaded = kernel();
    ASSERT_TRUE(loaded.call(known_.arrays(y)));
  }
  EXPECT_EQ(y, known_.y);
  ASSERT_EQ(fake_->launches.size(), 2U);
  EXPECT_EQ(fake_->launches[0].function, "rows");
  EXPECT_EQ(fake_->launches[0].blocks, 4U);
  EXPECT_EQ(fake_->launches[0].threads, 16U);
  EXPECT_EQ(fake_->launches[1].function, "store");
  EXPECT_EQ(fake_->live, live);
}

TEST_F(OnCuda, ArraysOfTheProcessorMayHaveStrides) {
  // The array of a is transposed. The array of y runs backwards and has gaps.
  std::vector<float> transposed(320), gaps(128, -1.0F);
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 5; ++j) transposed[j * 64 + i] = known_.a[i * 5 + j];
  const std::vector<Buffer> arrays = {{transposed.data(), Float32, {64, 5}, {1, 64}},
                                      {known_.x.data(), Float32, {5}},
                                      {&gaps[127], Float32, {64}, {-2}}};
  ASSERT_TRUE(kernel().call(arrays));
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(gaps[127 - 2 * i], known_.y[i]);
    EXPECT_EQ(gaps[126 - 2 * i], -1.0F);
  }
}

TEST_F(OnCuda, QueuesOnTheStreamOfTheCallerAndCopiesNothing) {
  const DeviceKernel loaded = kernel();
  const Given given{on_device(known_.a), on_device(known_.x), device_->allocate(256).value()};
  ASSERT_TRUE(loaded.call_on(given.arrays(), cuda_legacy_stream));
  EXPECT_THAT(streams(), ElementsAre(cuda_legacy_stream, cuda_legacy_stream));
  fake_->launches.clear();
  const int64_t live = fake_->live;
  const int calls = fake_->calls;
  ASSERT_TRUE(loaded.call_on(given.arrays(), cuda_legacy_stream));
  EXPECT_EQ(fake_->calls, calls + 2) << "more than the two launches";
  EXPECT_EQ(fake_->live, live);
  EXPECT_EQ(values_of(given.y), known_.y);
}

TEST_F(OnCuda, MemoryMayBeginInsideOfAnother) {
  std::vector<float> behind = {9, 9, 9, 9};
  behind.insert(behind.end(), known_.a.begin(), known_.a.end());
  const Given given{on_device(behind), on_device(known_.x), device_->allocate(256).value()};
  std::vector<DeviceArray> arrays = given.arrays();
  arrays[0].offset = 16;
  ASSERT_TRUE(kernel().call_on(arrays));
  EXPECT_EQ(values_of(given.y), known_.y);
}

// Calls on different streams may run at the same time, calls on one stream do not.
TEST_F(OnCuda, EachStreamHasScratchMemoryOfItsOwn) {
  std::vector<void*> scratches;
  const auto plain = fake_->kernels["rows"];
  fake_->kernels["rows"].run = [&](void* const* arguments) {
    scratches.push_back(arguments[3]);
    plain.run(arguments);
  };
  const DeviceKernel loaded = kernel();
  const Given given{on_device(known_.a), on_device(known_.x), device_->allocate(256).value()};
  const auto call = [&](DeviceStream stream) {
    ASSERT_TRUE(loaded.call_on(given.arrays(), stream));
  };
  call({});
  call(nullptr);
  call(cuda_per_thread_stream);
  call(nullptr);
  std::thread([&] { call(cuda_per_thread_stream); }).join();
  call(cuda_per_thread_stream);
  ASSERT_EQ(scratches.size(), 6U);
  EXPECT_EQ(scratches[3], scratches[1]);
  EXPECT_EQ(scratches[5], scratches[2]);
  EXPECT_EQ(std::set<void*>(scratches.begin(), scratches.end()).size(), 4U);
}

TEST_F(OnCuda, MemoryOfThreadsThatHaveEndedIsFreed) {
  const DeviceKernel loaded = kernel();
  const Given given{on_device(known_.a), on_device(known_.x), device_->allocate(256).value()};
  const auto call_in_thread = [&] {
    std::thread([&] {
      EXPECT_TRUE(loaded.call_on(given.arrays(), cuda_per_thread_stream));
    }).join();
  };
  call_in_thread();
  const int64_t live = fake_->live;
  for (int i = 0; i < 3; ++i) call_in_thread();
  EXPECT_EQ(fake_->live, live);
}

TEST_F(OnCuda, WhatIsWrongNamesTheArgument) {
  const DeviceKernel loaded = kernel();
  const Given given{on_device(known_.a), on_device(known_.x), device_->allocate(256).value()};
  const auto refused = [&](const std::function<void(std::vector<DeviceArray>&)>& spoil) {
    std::vector<DeviceArray> arrays = given.arrays();
    spoil(arrays);
    const Status status = loaded.call_on(arrays);
    EXPECT_TRUE(!status && status.error().code == ErrorCode::Usage);
    return status ? std::string() : status.error().message;
  };
  EXPECT_THAT(refused([](auto& all) { all.pop_back(); }), HasSubstr("2 arrays given, expected 3"));
  EXPECT_THAT(refused([](auto& all) { all[0].dtype = Float16; }),
              HasSubstr("input 'a': dtype f16 given, expected f32"));
  EXPECT_THAT(refused([](auto& all) { all[1].shape = {6}; }), HasSubstr("input 'x': shape [6]"));
  EXPECT_THAT(refused([](auto& all) {
                all[0].strides = {1, 64};
              }),
              AllOf(HasSubstr("input 'a': strides [1, 64]"), HasSubstr("expected a contiguous")));
  EXPECT_THAT(refused([](auto& all) { all[2].offset = 4; }),
              HasSubstr("output 'y': misaligned memory given, expected a multiple of 16"));
  EXPECT_THAT(refused([](auto& all) { all[2].offset = -16; }), HasSubstr("output 'y': offset -16"));
  EXPECT_THAT(refused([](auto& all) { all[1].memory = nullptr; }), HasSubstr("input 'x': null"));
  EXPECT_THAT(refused([](auto& all) {
                all[2].memory = all[0].memory;
                all[2].offset = 1024;
              }),
              HasSubstr("output 'y': shares memory with input 'a'"));
  EXPECT_TRUE(fake_->launches.empty());
}

TEST_F(OnCuda, AnArgumentThatIsStoredInAnotherLayoutIsUnsupported) {
  Artifact artifact = matvec_for_cuda("sm_90a");
  artifact.info.arguments[0].layout = "n1 n0";
  const DeviceKernel loaded = DeviceKernel::load(artifact, device_).value();
  const Given given{on_device(known_.a), on_device(known_.x), device_->allocate(256).value()};
  std::vector<float> y(64);
  const std::vector<Status> refused = {loaded.call(known_.arrays(y)),
                                       loaded.call_on(given.arrays())};
  for (const Status& status : refused) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(status.error().message, HasSubstr("input 'a' is stored as 'n1 n0'"));
  }
}

TEST_F(OnCuda, StorageInALayoutOfItsOwnIsGivenAsOneDimension) {
  Artifact artifact = matvec_for_cuda("sm_90a");
  artifact.info.arguments[0].layout = "n1 n0";
  const int64_t elements = artifact.info.arguments[0].storage_elements;
  const DeviceKernel loaded = DeviceKernel::load(artifact, device_).value();
  const Given given{on_device(known_.a), on_device(known_.x), device_->allocate(256).value()};
  auto arrays = given.arrays();
  arrays[0].shape = {elements};
  const Status called = loaded.call_on(arrays);
  EXPECT_TRUE(called) << called.error().message;
  arrays[0].shape = {elements - 1};
  const Status shorter = loaded.call_on(arrays);
  ASSERT_FALSE(shorter);
  EXPECT_THAT(shorter.error().message,
              HasSubstr(std::to_string(elements) + " elements in one dimension"));
}

TEST_F(OnCuda, Fault52_AnOlderGpusKernelRunsByItsPtx) {
  Artifact artifact = matvec_for_cuda("sm_80");
  const auto refused = DeviceKernel::load(artifact, device_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("code for sm_80 does not run on Fake GPU"));
  artifact.ptx = ptx_for_sm80;
  std::vector<float> y(64);
  ASSERT_TRUE(DeviceKernel::load(artifact, device_).value().call(known_.arrays(y)));
  EXPECT_EQ(y, known_.y);
  EXPECT_EQ(fake_->loaded, ".ver");
}

TEST_F(OnCuda, Fault51_PtxOfANewerToolkitThanTheDriversIsNotTried) {
  fake_->driver_version = 12080;
  device_ = open_cuda_device({.library = TW_FAKE_CUDA}).value();
  Artifact artifact = matvec_for_cuda("sm_80");
  artifact.ptx = ptx_for_sm80;
  const auto refused = DeviceKernel::load(artifact, device_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("older than the toolkit of the PTX (CUDA 13.0)"));
}

TEST_F(OnCuda, WhatIsNoKernelOfAGpuIsRefused) {
  const auto processor = DeviceKernel::load(matvec_artifact(), device_);
  ASSERT_FALSE(processor);
  EXPECT_EQ(processor.error().code, ErrorCode::Usage);
  const auto opencl = DeviceKernel::load(matvec_for_opencl(), device_);
  ASSERT_FALSE(opencl);
  EXPECT_EQ(opencl.error().code, ErrorCode::Invalid);
  EXPECT_THAT(opencl.error().message,
              HasSubstr("code for opencl does not run on Fake GPU, which is sm_90"));
  Artifact other = matvec_for_cuda("sm_90a");
  other.info.phases[1].symbol = "absent";
  const auto absent = DeviceKernel::load(other, device_);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::Invalid);
  EXPECT_THAT(absent.error().message, HasSubstr("no kernel 'absent'"));
}

TEST_F(OnCuda, Fault67_OnALostDeviceEveryCallSaysSo) {
  fake_->kernels["store"].run = [&](void* const*) { fake_->sticky = 700; };
  const DeviceKernel loaded = kernel();
  std::vector<float> y(64);
  const Status first = loaded.call(known_.arrays(y)), second = loaded.call(known_.arrays(y));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::Environment);
  EXPECT_THAT(first.error().message, HasSubstr("Fake GPU is lost"));
  EXPECT_EQ(second.error(), first.error());
  EXPECT_EQ(fake_->launches.size(), 2U);
}

// ---- OpenCL ---------------------------------------------------------------------------------

class OnOpenCl : public testing::Test {
 protected:
  void SetUp() override {
    keep_pocl_cache_apart();
    auto device = open_device("opencl");
    if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
    device_ = *device;
    kernel_ =
        std::make_unique<DeviceKernel>(DeviceKernel::load(matvec_for_opencl(), device_).value());
    ASSERT_TRUE(device_->submit([&](void* queue) -> Status {
      own_ = queue;
      return {};
    }));
    library_ = std::make_unique<OpenClLibrary>(own_);
    a_ = library_->make_memory(known_.a);
    x_ = library_->make_memory(known_.x);
    y_ = library_->make_memory(std::vector<float>(64));
  }

  std::vector<DeviceArray> arrays() const {
    return {{a_.get(), Float32, {64, 5}}, {x_.get(), Float32, {5}}, {y_.get(), Float32, {64}}};
  }
  std::string refused(const std::vector<DeviceArray>& given, DeviceStream stream = {},
                      ErrorCode code = ErrorCode::Usage) {
    const Status status = kernel_->call_on(given, stream);
    EXPECT_TRUE(!status && status.error().code == code);
    return status ? std::string() : status.error().message;
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceKernel> kernel_;
  std::unique_ptr<OpenClLibrary> library_;
  void* own_ = nullptr;
  std::shared_ptr<void> a_, x_, y_;
  Matvec known_ = Matvec::make();
};

TEST_F(OnOpenCl, CopiesArraysOfTheProcessorInAndOut) {
  std::vector<float> y(64);
  ASSERT_TRUE(kernel_->call(known_.arrays(y)));
  EXPECT_EQ(y, known_.y);
}

TEST_F(OnOpenCl, KernelsForCudaAreRefused) {
  const auto cuda = DeviceKernel::load(matvec_for_cuda("sm_90a"), device_);
  ASSERT_FALSE(cuda);
  EXPECT_EQ(cuda.error().code, ErrorCode::Invalid);
  EXPECT_THAT(cuda.error().message,
              HasSubstr("code for cuda:sm_90a does not run on " + device_->facts().name));
}

TEST_F(OnOpenCl, EachCallPrepares) {
  const DeviceKernel kernel = DeviceKernel::load(prepared_for_opencl(), device_).value();
  std::vector<float> x = {1, 2, 3, 4}, y(4, -1);
  for (std::vector<float> w : {std::vector<float>{0, 1, 2, 3}, {1, 1, 1, 1}}) {
    const std::vector<Buffer> given = {
        {x.data(), Float32, {4}, {}}, {w.data(), Float32, {4}, {}}, {y.data(), Float32, {4}, {}}};
    const Status called = kernel.call(given);
    ASSERT_TRUE(called) << called.error().message;
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(y[i], x[i] * (w[i] * w[i] + 1));
  }
}

TEST_F(OnOpenCl, RunsOnItsOwnQueueAndOnOneOfTheCallers) {
  ASSERT_TRUE(kernel_->call_on(arrays()));
  EXPECT_EQ(library_->read(own_, y_.get(), 64), known_.y);
  const auto queue = library_->make_queue();
  y_ = library_->make_memory(std::vector<float>(64));
  ASSERT_TRUE(kernel_->call_on(arrays(), queue.get()));
  EXPECT_EQ(library_->read(queue.get(), y_.get(), 64), known_.y);
}

TEST_F(OnOpenCl, MemoryMayBeginWhereTheDeviceAllows) {
  const int64_t alignment = library_->alignment();
  ASSERT_GT(alignment, 4);
  const auto floats = static_cast<size_t>(alignment) / sizeof(float);
  a_ = library_->make_memory(known_.a, floats);
  y_ = library_->make_memory(std::vector<float>(64), floats);
  std::vector<DeviceArray> given = arrays();
  given[0].offset = given[2].offset = alignment;
  ASSERT_TRUE(kernel_->call_on(given));
  EXPECT_EQ(library_->read(own_, y_.get(), 64, floats), known_.y);
  EXPECT_THAT(library_->read(own_, y_.get(), floats), Each(-1.0F));
  given[0].offset = 4;
  EXPECT_THAT(refused(given, {}, ErrorCode::Unsupported),
              AllOf(HasSubstr("input 'a': an offset of 4 bytes"), HasSubstr("a multiple of")));
}

TEST_F(OnOpenCl, WhatIsNotOfItsContextOrTooSmallIsRefused) {
  std::vector<DeviceArray> given = arrays();
  const auto foreign = library_->make_foreign_memory(256);
  given[2].memory = foreign.get();
  EXPECT_THAT(refused(given), HasSubstr("output 'y': memory of another OpenCL context"));
  given = arrays();
  given[0].memory = x_.get();
  EXPECT_THAT(refused(given),
              HasSubstr("input 'a': memory of 20 bytes given, expected 1280 from 0 on"));
  given = arrays();
  given[2].memory = a_.get();
  given[2].offset = library_->alignment();
  EXPECT_THAT(refused(given), HasSubstr("output 'y': shares memory with input 'a'"));
  EXPECT_THAT(refused(arrays(), nullptr), HasSubstr("or none, given"));
  EXPECT_THAT(refused(arrays(), library_->make_foreign_queue().get()),
              HasSubstr("a queue of another OpenCL context"));
  EXPECT_THAT(refused(arrays(), library_->make_queue(false).get()), HasSubstr("without order"));
}

// The two phases share one scratch memory, so calls on one queue must not run interleaved.
TEST_F(OnOpenCl, Fault64_ManyThreadsCallOneKernel) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&, i] {
      Matvec own = Matvec::make();
      for (float& value : own.x) value *= static_cast<float>(i);
      for (float& value : own.y) value *= static_cast<float>(i);
      for (int round = 0; round < 8; ++round) {
        std::vector<float> y(64);
        wrong += !kernel_->call(own.arrays(y)) || y != own.y;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tw::runtime

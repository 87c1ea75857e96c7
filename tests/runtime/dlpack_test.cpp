// SPDX-License-Identifier: Apache-2.0
#include "runtime/dlpack.h"

#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/opencl_library.h"
#include "tests/runtime/tiny_kernels.h"

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr DLDataType f32{kDLFloat, 32, 1};

/// A tensor as another library lends it. The test fails if the tensor is deleted.
struct Tensor {
  std::vector<int64_t> shape, strides;
  DLManagedTensor managed = {};

  Tensor(void* data, DLDevice device, std::vector<int64_t> extents, std::vector<int64_t> steps = {},
         uint64_t offset = 0)
      : shape(std::move(extents)), strides(std::move(steps)) {
    managed.deleter = [](DLManagedTensor*) { ADD_FAILURE() << "a borrowed tensor was deleted"; };
    managed.dl_tensor = {data,  device,       static_cast<int>(shape.size()),
                         f32,   shape.data(), strides.empty() ? nullptr : strides.data(),
                         offset};
  }
  Tensor(const Tensor&) = delete;
  DLTensor& operator*() { return managed.dl_tensor; }
};

/// The arguments of y = a x.
struct Tensors {
  Tensor a, x, y;
  std::vector<const void*> all() { return {&*a, &*x, &*y}; }
};

/// Returns the error message of a call for which `spoil` has changed a tensor. The error must be
/// Usage.
std::string refused(Tensors& tensors, const std::function<Status()>& call,
                    const std::function<void()>& spoil) {
  const std::vector<DLTensor> before = {*tensors.a, *tensors.x, *tensors.y};
  spoil();
  const Status status = call();
  *tensors.a = before[0], *tensors.x = before[1], *tensors.y = before[2];
  EXPECT_TRUE(!status && status.error().code == ErrorCode::Usage);
  return status ? std::string() : status.error().message;
}

// ---- the processor --------------------------------------------------------------------------

class DlpackOnCpu : public testing::Test {
 protected:
  static constexpr DLDevice cpu{kDLCPU, 0};

  Status call() { return call_dlpack(kernel_, tensors_.all(), pool_); }

  Matvec known_ = Matvec::make();
  std::vector<float> y_ = std::vector<float>(64);
  Tensors tensors_ = {
      {known_.a.data(), cpu, {64, 5}}, {known_.x.data(), cpu, {5}}, {y_.data(), cpu, {64}}};
  Kernel kernel_ = Kernel::load(matvec_artifact()).value();
  ThreadPool pool_;
};

TEST_F(DlpackOnCpu, CompactTensorsAreUsedAsTheyAre) {
  ASSERT_TRUE(call());
  EXPECT_EQ(y_, known_.y);
}

TEST_F(DlpackOnCpu, StridesAndOffsetsAreFollowed) {
  std::vector<float> transposed(3 + 320), gaps(4 + 128, -1.0F);
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 5; ++j) transposed[3 + j * 64 + i] = known_.a[i * 5 + j];
  Tensors tensors = {{transposed.data(), cpu, {64, 5}, {1, 64}, 12},
                     {known_.x.data(), cpu, {5}, {1}},
                     {gaps.data(), cpu, {64}, {2}, 16}};
  ASSERT_TRUE(call_dlpack(kernel_, tensors.all(), pool_));
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(gaps[4 + 2 * i], known_.y[i]);
    EXPECT_EQ(gaps[5 + 2 * i], -1.0F);
  }
}

TEST_F(DlpackOnCpu, MemoryThatCudaPinnedOrManagesIsTheProcessorsToo) {
  (*tensors_.a).device.device_type = kDLCUDAHost;
  (*tensors_.y).device.device_type = kDLCUDAManaged;
  ASSERT_TRUE(call());
  EXPECT_EQ(y_, known_.y);
}

TEST_F(DlpackOnCpu, WhatIsWrongNamesTheArgument) {
  const auto error = [&](const std::function<void()>& spoil) {
    return refused(
        tensors_, [&] { return call(); }, spoil);
  };
  DLTensor &a = *tensors_.a, &x = *tensors_.x, &y = *tensors_.y;
  EXPECT_THAT(
      error([&] {
        a.device = {kDLCUDA, 1};
      }),
      HasSubstr("input 'a': a tensor on CUDA device 1 given, expected one on the processor"));
  EXPECT_THAT(error([&] {
                x.device = {kDLOpenCL, 0};
              }),
              HasSubstr("'x': a tensor on OpenCL device"));
  EXPECT_THAT(error([&] { x.device = {kDLMetal, 0}; }), HasSubstr("DLPack's device type 8"));
  EXPECT_THAT(error([&] { y.dtype.lanes = 4; }),
              HasSubstr("output 'y': elements of 4 lanes given, expected 1"));
  EXPECT_THAT(error([&] { x.dtype.bits = 128; }),
              AllOf(HasSubstr("input 'x': elements of DLPack's type code 2 with 128 bits"),
                    HasSubstr("expected f32")));
  EXPECT_THAT(error([&] { x.dtype = {kDLComplex, 64, 1}; }), HasSubstr("type code 5"));
  EXPECT_THAT(error([&] {
                x.dtype = {kDLBfloat, 16, 1};
              }),
              HasSubstr("input 'x': dtype bf16 given, expected f32"));
  EXPECT_THAT(error([&] { a.ndim = 1; }), HasSubstr("input 'a': rank 1"));
  EXPECT_THAT(error([&] { a.ndim = -1; }), HasSubstr("input 'a': rank -1"));
  EXPECT_THAT(error([&] { a.shape = nullptr; }), HasSubstr("rank 2 and no shape"));
  EXPECT_THAT(error([&] { y.data = nullptr; }), HasSubstr("output 'y': null given"));
  EXPECT_THAT(error([&] { y.byte_offset = ~0ULL; }), HasSubstr("output 'y': a byte offset"));
  EXPECT_THAT(error([&] { y.data = a.data; }), HasSubstr("shares memory with input 'a'"));
  const std::vector<const void*> missing = {&a, nullptr, &y}, few = {&a, &y};
  EXPECT_THAT(call_dlpack(kernel_, missing, pool_).error().message,
              HasSubstr("input 'x': no tensor"));
  EXPECT_THAT(call_dlpack(kernel_, few, pool_).error().message, HasSubstr("2 arrays given"));
}

// The kernel takes f32 and refuses the tensors. Its message names the type of the tensor, so each
// type must have a name.
TEST_F(DlpackOnCpu, TypesAreThoseOfDlpack) {
  const std::vector<std::pair<DLDataType, std::string>> types = {
      {{kDLFloat, 16, 1}, "f16"}, {{kDLBfloat, 16, 1}, "bf16"}, {{kDLInt, 8, 1}, "i8"},
      {{kDLUInt, 8, 1}, "u8"},    {{kDLInt, 32, 1}, "i32"},     {{kDLInt, 64, 1}, "i64"},
      {{6, 8, 1}, "bool"}};
  for (const auto& [type, name] : types)
    EXPECT_THAT(refused(
                    tensors_, [&] { return call(); }, [&] { (*tensors_.x).dtype = type; }),
                HasSubstr("dtype " + name + " given"));
}

// ---- NVIDIA's GPUs --------------------------------------------------------------------------

class DlpackOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    fake_ = reinterpret_cast<FakeCudaControl*>(
        dlsym(dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), "fake_cuda"))();
    *fake_ = {};
    fake_->devices = 2;
    fake_->kernels = matvec_for_fake_cuda();
    // Records the pointers that are passed to the first phase.
    fake_->kernels["rows"].run = [this, run = fake_->kernels["rows"].run](void* const* given) {
      seen_.assign(given, given + 3);
      run(given);
    };
    device_ = open_cuda_device({.index = 1, .library = TW_FAKE_CUDA}).value();
    kernel_ = std::make_unique<DeviceKernel>(
        DeviceKernel::load(matvec_for_cuda("sm_90a"), device_).value());
  }
  void TearDown() override { *fake_ = {}; }

  Status call(int64_t stream = 1) { return call_dlpack(*kernel_, tensors_.all(), stream); }

  static constexpr DLDevice gpu{kDLCUDA, 1};
  FakeCuda* fake_ = nullptr;
  std::vector<void*> seen_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceKernel> kernel_;
  Matvec known_ = Matvec::make();
  // The memory of the fake driver is memory of the process, so the test can pass its own arrays.
  alignas(16) float a_[8 + 320] = {}, x_[8] = {}, y_[64] = {};
  Tensors tensors_ = {{a_, gpu, {64, 5}, {}, 32}, {x_, gpu, {5}, {1}}, {y_, gpu, {64}}};
};

TEST_F(DlpackOnCuda, PointersAndOffsetsGoToTheKernelOnTheStream) {
  std::copy(known_.a.begin(), known_.a.end(), a_ + 8);
  std::copy(known_.x.begin(), known_.x.end(), x_);
  void* own = nullptr;
  ASSERT_TRUE(device_->submit([&](void* queue) -> Status {
    own = queue;
    return {};
  }));
  ASSERT_TRUE(call(1));
  EXPECT_EQ(seen_, (std::vector<void*>{a_ + 8, x_, y_}));
  EXPECT_EQ(std::vector<float>(y_, y_ + 64), known_.y);
  ASSERT_TRUE(call(2));
  ASSERT_TRUE(call(reinterpret_cast<int64_t>(own)));
  ASSERT_TRUE(call(dlpack_own_queue));
  std::vector<void*> streams;
  for (const FakeLaunch& launch : fake_->launches)
    if (launch.function == "rows") streams.push_back(launch.stream);
  EXPECT_EQ(streams, (std::vector<void*>{cuda_legacy_stream, cuda_per_thread_stream, own, own}));
}

TEST_F(DlpackOnCuda, PinnedAndManagedMemoryIsTheDevicesToo) {
  (*tensors_.x).device = {kDLCUDAHost, 0};
  (*tensors_.y).device = {kDLCUDAManaged, 0};
  EXPECT_TRUE(call());
}

TEST_F(DlpackOnCuda, WhatIsWrongNamesTheArgument) {
  const auto error = [&](const std::function<void()>& spoil) {
    return refused(
        tensors_, [&] { return call(); }, spoil);
  };
  DLTensor &a = *tensors_.a, &y = *tensors_.y;
  EXPECT_THAT(
      error([&] {
        a.device = {kDLCPU, 0};
      }),
      HasSubstr("input 'a': a tensor on the processor given, expected one on CUDA device 1"));
  EXPECT_THAT(error([&] { y.device.device_id = 0; }),
              HasSubstr("output 'y': a tensor on CUDA device 0 given"));
  EXPECT_THAT(error([&] { a.byte_offset = 4; }), HasSubstr("input 'a': misaligned memory"));
  EXPECT_THAT(error([&] { a.dtype.lanes = 2; }), HasSubstr("input 'a': elements of 2 lanes"));
  int64_t transposed[] = {1, 64};
  EXPECT_THAT(error([&] { a.strides = transposed; }), HasSubstr("expected a contiguous array"));
  for (const int64_t stream : {int64_t{0}, int64_t{-2}}) {
    const Status status = call(stream);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Usage);
    EXPECT_THAT(status.error().message, HasSubstr("CUDA's legacy default stream"));
  }
  EXPECT_TRUE(fake_->launches.empty());
}

// ---- OpenCL ---------------------------------------------------------------------------------

TEST(DlpackOnOpenCl, HandlesAndOffsetsGoToTheKernelOnTheQueue) {
  keep_pocl_cache_apart();
  const auto device = open_opencl_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  const DeviceKernel kernel = DeviceKernel::load(matvec_for_opencl(), *device).value();
  void* own = nullptr;
  ASSERT_TRUE((*device)->submit([&](void* queue) -> Status {
    own = queue;
    return {};
  }));
  OpenClLibrary library(own);
  const Matvec known = Matvec::make();
  const auto offset = static_cast<size_t>(library.alignment());
  const auto a = library.make_memory(known.a, offset / sizeof(float)),
             x = library.make_memory(known.x), y = library.make_memory(std::vector<float>(64));
  const DLDevice here{kDLOpenCL, 0};
  Tensors tensors = {
      {a.get(), here, {64, 5}, {}, offset}, {x.get(), here, {5}}, {y.get(), here, {64}}};
  const auto queue = library.make_queue();
  ASSERT_TRUE(call_dlpack(kernel, tensors.all(), reinterpret_cast<int64_t>(queue.get())));
  EXPECT_EQ(library.read(queue.get(), y.get(), 64), known.y);
  EXPECT_TRUE(call_dlpack(kernel, tensors.all(), dlpack_own_queue));
  EXPECT_THAT(call_dlpack(kernel, tensors.all(), 1).error().message,
              HasSubstr("expected a cl_command_queue's address"));
  (*tensors.x).device = {kDLCUDA, 0};
  EXPECT_THAT(call_dlpack(kernel, tensors.all(), dlpack_own_queue).error().message,
              HasSubstr("input 'x': a tensor on CUDA device 0 given, expected one on OpenCL"));
}

}  // namespace
}  // namespace tw::runtime

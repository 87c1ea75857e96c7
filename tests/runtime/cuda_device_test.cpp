// SPDX-License-Identifier: Apache-2.0
// Tests Device with CUDA's driver interface. tests/runtime/fake_cuda.h stands in for the driver.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "runtime/device.h"
#include "runtime/devices/cuda_driver.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/tiny_kernels.h"

namespace tw::runtime {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr const char* ptx = ".version 9.0\n.target sm_80\n.address_size 64\n";

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    fake_ = reinterpret_cast<FakeCudaControl*>(dlsym(library, "fake_cuda"))();
    *fake_ = {};
  }

  static Result<std::shared_ptr<Device>> open(int index = 0) {
    return open_cuda_device({.index = index, .library = TW_FAKE_CUDA});
  }

  Error open_error() {
    const auto device = open();
    EXPECT_FALSE(device);
    EXPECT_EQ(fake_->live, 0);
    return device ? Error() : device.error();
  }

  static DeviceModule module_of(Device& device) {
    return device.load({.architecture = "sm_90a", .binary = cubin(90)}).value();
  }

  static DeviceBuffer buffer_of(Device& device, const std::vector<float>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
    DeviceBuffer buffer = device.allocate(bytes).value();
    EXPECT_TRUE(buffer.write(values.data(), bytes));
    return buffer;
  }

  FakeCuda* fake_ = nullptr;
};

TEST_F(CudaDevice, SaysWhatItIs) {
  const DeviceFacts facts = open().value()->facts();
  EXPECT_EQ(facts.name, "Fake GPU");
  EXPECT_EQ(facts.architecture, "sm_90");
  EXPECT_EQ(facts.driver_version, 13000);
  EXPECT_EQ(facts.multiprocessors, 132);
  EXPECT_EQ(facts.warp_size, 32);
  EXPECT_EQ(facts.max_threads_per_block, 1024);
  EXPECT_EQ(facts.max_threads_per_multiprocessor, 2048);
  EXPECT_EQ(facts.registers_per_multiprocessor, 65536);
  EXPECT_EQ(facts.shared_bytes_per_block, 228 << 10);
  EXPECT_EQ(facts.shared_bytes_per_multiprocessor, 229 << 10);
  EXPECT_EQ(facts.l2_bytes, 50 << 20);
  EXPECT_EQ(facts.memory_bytes, 1 << 30);
}

TEST_F(CudaDevice, RunsAKernelAndGivesEverythingBack) {
  auto device = open().value();
  std::vector<float> numbers(512), results(512);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  {
    const DeviceFunction saxpy = module_of(*device).function("saxpy_p0").value();
    EXPECT_EQ(saxpy.facts().arguments, 3);
    EXPECT_EQ(saxpy.facts().registers, 42);
    EXPECT_EQ(saxpy.facts().local_bytes, 16);
    EXPECT_EQ(saxpy.facts().shared_bytes, 1024);
    EXPECT_EQ(saxpy.facts().max_threads, 512);
    const DeviceBuffer x = buffer_of(*device, numbers), y = device->allocate(2048).value();
    ASSERT_TRUE(y.fill(0));
    const std::vector<DeviceAddress> arguments = {x.address(), y.address(), nullptr};
    const std::vector<Launch> launches = {
        {saxpy, 4, 128, 0, arguments}, {saxpy, 0, 128, 0, arguments}, {saxpy, 1, 64, 0, arguments}};
    ASSERT_TRUE(device->launch(launches));
    device.reset();  // the remaining objects keep the device open
    ASSERT_TRUE(y.read(results.data(), 2048));
  }
  for (size_t i = 0; i < 512; ++i) EXPECT_EQ(results[i], (i < 64 ? 4 : 2) * numbers[i]) << i;
  EXPECT_EQ(fake_->launches.size(), 2);
  EXPECT_EQ(fake_->live, 0);
  EXPECT_EQ(fake_->current, 0);
}

/// Returns a map of 20 rows of 44 floats that begin at byte 64, with boxes of 8 rows of 16 floats.
TensorMap small_map() {
  return {.argument = 1, .offset = 64, .extents = {44, 20}, .strides = {176}, .box = {16, 8}};
}

TEST_F(CudaDevice, TensorMapsAreDescribedToTheDriver) {
  std::vector<FakeTensorMap> seen;
  const auto see = [&](void* const* arguments) {
    seen.push_back(*static_cast<const FakeTensorMap*>(arguments[2]));
  };
  fake_->kernels["boxes_p0"] = {2, see, 1};
  const auto device = open().value();
  const DeviceFunction boxes = module_of(*device).function("boxes_p0").value();
  EXPECT_EQ(boxes.facts().arguments, 3);
  const DeviceBuffer x = device->allocate(8192).value();
  Launch launch{boxes, 1, 128, 0, {nullptr, x.address()}, {small_map()}};
  ASSERT_TRUE(device->launch({&launch, 1}));
  launch.maps[0].type = Float16;
  launch.maps[0].swizzle = 32;
  ASSERT_TRUE(device->time_ns({&launch, 1}, {.graph = true}));
  ASSERT_GE(seen.size(), 2U);
  const FakeTensorMap& first = seen.front();
  EXPECT_EQ(first.address, reinterpret_cast<uint64_t>(x.address()) + 64);
  EXPECT_EQ(first.type, cuda::Bits32);
  EXPECT_EQ(first.rank, 2);
  EXPECT_EQ(first.swizzle, cuda::NoSwizzle);
  EXPECT_EQ(first.promotion, cuda::promote_to_128_bytes);
  EXPECT_THAT(first.extents, ElementsAre(44, 20, 0, 0, 0));
  EXPECT_THAT(first.strides, ElementsAre(176, 0, 0, 0));
  EXPECT_THAT(first.box, ElementsAre(16, 8, 0, 0, 0));
  EXPECT_EQ(seen.back().type, cuda::Bits16);
  EXPECT_EQ(seen.back().swizzle, cuda::Swizzle32);
}

TEST_F(CudaDevice, OfPersistentKernelsAsManyBlocksAreLaunchedAsRunAtOnce) {
  fake_->kernels["tiles_p0"] = {1, [](void* const*) {}, 0};
  const auto device = open().value();
  const DeviceFunction tiles = module_of(*device).function("tiles_p0").value();
  const auto launched = [&](int64_t blocks, bool persistent) -> unsigned {
    Launch launch{tiles, blocks, 128, 0, {nullptr}, {}, persistent};
    EXPECT_TRUE(device->launch({&launch, 1}));
    EXPECT_TRUE(device->synchronize());
    return fake_->launches.back().blocks;
  };
  fake_->resident_blocks = 2;
  EXPECT_EQ(launched(1000, true), 2U * 132);
  EXPECT_EQ(launched(1000, false), 1000U);
  EXPECT_EQ(launched(3, true), 3U);
  fake_->resident_blocks = 0;
  Launch launch{tiles, 4, 128, 0, {nullptr}, {}, true};
  const Status refused = device->launch({&launch, 1});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no block of tiles_p0 fits"));
}

TEST_F(CudaDevice, TensorMapsThatAreWrongAreRefusedBeforeTheLaunch) {
  fake_->kernels["boxes_p0"] = {2, [](void* const*) { FAIL(); }, 1};
  const auto device = open().value();
  const DeviceFunction boxes = module_of(*device).function("boxes_p0").value();
  const DeviceBuffer x = device->allocate(8192).value();
  const auto error_of = [&](const std::function<void(Launch&)>& change) {
    Launch launch{boxes, 1, 128, 0, {nullptr, x.address()}, {small_map()}};
    change(launch);
    const Status status = device->launch({&launch, 1});
    return status ? std::string() : status.error().message;
  };
  EXPECT_THAT(error_of([](Launch& l) { l.maps.clear(); }), HasSubstr("2 arguments, expected 3"));
  EXPECT_THAT(error_of([](Launch& l) { l.maps[0].argument = 2; }),
              HasSubstr("a tensor map of argument 2, expected one of 2"));
  EXPECT_THAT(error_of([](Launch& l) { l.maps[0].box[0] = 6; }), HasSubstr("rows of 24 bytes"));
  // The address is in memory of the caller, so only the driver can see that it is not aligned.
  EXPECT_THAT(error_of([&](Launch& l) { l.arguments[1] = static_cast<char*>(x.address()) + 4; }),
              HasSubstr("cannot describe argument 1 of boxes_p0 to its copy engine"));
}

TEST_F(CudaDevice, Fault51_ADriverWithoutTensorMapsSaysSo) {
  void* library = dlopen(TW_FAKE_OLD_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  FakeCuda* old = reinterpret_cast<FakeCudaControl*>(dlsym(library, "fake_cuda"))();
  old->kernels["boxes_p0"] = {2, [](void* const*) { FAIL(); }, 1};
  const auto device = open_cuda_device({.library = TW_FAKE_OLD_CUDA}).value();
  const DeviceFunction boxes = module_of(*device).function("boxes_p0").value();
  const DeviceBuffer x = device->allocate(8192).value();
  const Launch launch{boxes, 1, 128, 0, {nullptr, x.address()}, {small_map()}};
  const Status status = device->launch({&launch, 1});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Environment);
  EXPECT_EQ(status.error().message,
            "[cuda] the driver of Fake GPU has no cuTensorMapEncodeTiled, which boxes_p0 needs to "
            "copy in bulk: update the driver");
}

TEST_F(CudaDevice, TimesWorkOfOtherLibraries) {
  auto device = open().value();
  const auto put = reinterpret_cast<FakeCudaSubmit*>(
      dlsym(dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD), "fake_cuda_submit"));
  int ran = 0;
  const DeviceWork work = [&](void* queue) -> Status {
    EXPECT_NE(queue, nullptr);
    EXPECT_EQ(fake_->current, 1);
    put(queue, 7, [&ran] { ++ran; });
    return {};
  };
  ASSERT_TRUE(device->submit(work));
  EXPECT_EQ(ran, 1);
  DeviceBuffer evicting = buffer_of(*device, {1.0F, 2.0F});
  EXPECT_THAT(device->time_work_ns(work, {.repeats = 3, .evicting = &evicting}).value(),
              AllOf(SizeIs(3), Each(DoubleNear(7000, 1))));
  EXPECT_EQ(ran, 4);
  std::vector<float> left(2);
  ASSERT_TRUE(evicting.read(left.data(), 8));
  EXPECT_THAT(left, Each(0.0F));
  EXPECT_THAT(device->time_work_ns(work, {.repeats = 2, .graph = true}).value(),
              AllOf(SizeIs(2), Each(DoubleNear(7000, 1))));
  EXPECT_EQ(ran, 4 + 1 + 2);  // one more call keeps the queue busy
  EXPECT_EQ(fake_->graphs, 1);
  const auto refused =
      device->time_work_ns([](void*) { return fail(ErrorCode::Unsupported, "[it] cannot"); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "[it] cannot");
  EXPECT_FALSE(device->lost());
  evicting = {};
  device.reset();
  EXPECT_EQ(fake_->live, 0);
}

TEST_F(CudaDevice, LaunchesGoToTheCallersStreamWhereOneIsGiven) {
  const auto device = open().value();
  const DeviceBuffer x = buffer_of(*device, {1.0F});
  const Launch launch{module_of(*device).function("saxpy_p0").value(),
                      1,
                      1,
                      0,
                      {x.address(), x.address(), nullptr}};
  ASSERT_TRUE(device->launch({&launch, 1}));
  ASSERT_TRUE(device->launch({&launch, 1}, nullptr));
  EXPECT_NE(fake_->launches[0].stream, nullptr);
  EXPECT_EQ(fake_->launches[1].stream, nullptr);
}

TEST_F(CudaDevice, WorksOnMemoryOfTheCallers) {
  const auto device = open().value();
  const DeviceBuffer owner = buffer_of(*device, {1.0F, 2.0F});
  const DeviceBuffer borrowed = DeviceBuffer::borrow(device, owner.address(), 8, 0).value();
  float second = 0;
  ASSERT_TRUE(borrowed.read(&second, 4, 4));
  EXPECT_EQ(second, 2.0F);
  EXPECT_EQ(borrowed.read(&second, 4, 8).error().code, ErrorCode::Usage);
}

TEST_F(CudaDevice, SharedMemoryAbove48KibIsAllowedBeforeTheLaunch) {
  const auto device = open().value();
  const DeviceBuffer x = buffer_of(*device, {1.0F});
  Launch launch{module_of(*device).function("saxpy_p0").value(),
                1,
                1,
                227 << 10,
                {x.address(), x.address(), nullptr}};
  ASSERT_TRUE(device->launch({&launch, 1}));
  EXPECT_EQ(fake_->launches[0].shared_bytes, 227 << 10);

  launch.shared_bytes = (227 << 10) + 1;
  const Status status = device->launch({&launch, 1});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Usage);
  EXPECT_THAT(status.error().message, HasSubstr("expected at most 232448"));
  EXPECT_EQ(fake_->launches.size(), 1);
}

TEST_F(CudaDevice, SamplesAreTheDevicesTimeOfTheLaunchesAlone) {
  const auto device = open().value();
  const DeviceBuffer x = buffer_of(*device, std::vector<float>(8));
  const Launch launch{module_of(*device).function("saxpy_p0").value(),
                      3,
                      1,
                      0,
                      {x.address(), x.address(), nullptr}};
  const Launch before{launch.function, 8, 1, 0, launch.arguments};
  const std::vector<Launch> launches = {launch, launch};
  EXPECT_THAT(device->time_ns(launches, {.repeats = 3, .before = {&before, 1}}).value(),
              Each(DoubleNear(6000, 0.01)));
  EXPECT_EQ(fake_->launches.size(), 9);
  EXPECT_EQ(fake_->graphs, 0);

  fake_->launches.clear();
  EXPECT_THAT(
      device->time_ns(launches, {.repeats = 2, .before = {&before, 1}, .graph = true}).value(),
      ElementsAre(DoubleNear(6000, 0.01), DoubleNear(6000, 0.01)));
  EXPECT_EQ(fake_->launches.size(), 2 + 2 * 3);  // one more round keeps the queue busy
  EXPECT_EQ(fake_->graphs, 1);
}

TEST_F(CudaDevice, MoreMemoryThanThereIsLeavesTheDeviceAlive) {
  const auto device = open().value();
  const auto buffer = device->allocate(int64_t{1} << 40);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::Environment);
  EXPECT_THAT(buffer.error().message,
              AllOf(HasSubstr("cannot allocate 1099511627776 bytes"), HasSubstr("OUT_OF_MEMORY")));
  EXPECT_FALSE(device->lost());
  EXPECT_TRUE(device->allocate(64));
}

TEST_F(CudaDevice, AMissingKernelAndPtxThatDoesNotCompileAreInvalid) {
  const auto device = open().value();
  EXPECT_EQ(module_of(*device).function("saxpy_p1").error().code, ErrorCode::Invalid);
  fake_->load = cuda::InvalidPtx;
  fake_->jit_log = "ptxas application ptx input, line 23; error\nfatal\n";
  const auto module = device->load({.text = ptx});
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, ErrorCode::Invalid);
  EXPECT_THAT(module.error().message,
              AllOf(HasSubstr("INVALID_PTX"), HasSubstr("line 23; error; fatal")));
}

TEST_F(CudaDevice, Fault50_WithoutADriverTheMessageSaysSo) {
  fake_->init = cuda::StubLibrary;
  const auto absent = open_cuda_device({.library = "/nonexistent/libcuda.so.1"});
  ASSERT_FALSE(absent);
  for (const Error& error : {absent.error(), open_error()}) {
    EXPECT_EQ(error.code, ErrorCode::Environment);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr("no NVIDIA driver"), Not(HasSubstr("old")), Not(HasSubstr("\n"))));
  }
}

TEST_F(CudaDevice, Fault51_AnOldDriverAMissingAndABusyDeviceAreToldApart) {
  const TemporaryDirectory directory;
  write_bytes(directory / "libcuda.so.1", compile_c("int cuInit(unsigned f) { return (int)f; }"));
  const auto old = open_cuda_device({.library = directory / "libcuda.so.1"});
  ASSERT_FALSE(old);
  EXPECT_THAT(old.error().message, HasSubstr("is too old"));

  fake_->init = cuda::NoDevice;
  EXPECT_THAT(open_error().message, HasSubstr("finds no NVIDIA GPU"));
  fake_->init = cuda::SystemDriverMismatch;
  EXPECT_THAT(open_error().message, HasSubstr("different versions"));
  fake_->init = 999;
  EXPECT_THAT(open_error().message, HasSubstr("does not start: an error (CUDA_ERROR_UNKNOWN)"));
  fake_->init = 0;
  fake_->devices = 0;
  EXPECT_THAT(open_error().message, HasSubstr("finds no NVIDIA GPU"));
  fake_->devices = 1;
  EXPECT_EQ(open(1).error().code, ErrorCode::Usage);

  fake_->retain = cuda::DeviceUnavailable;
  const Error busy = open_error();
  EXPECT_EQ(busy.code, ErrorCode::TryLater);
  EXPECT_THAT(busy.message, HasSubstr("Fake GPU is busy: another process"));
  fake_->compute_mode = cuda::compute_mode_prohibited;
  EXPECT_THAT(open_error().message, HasSubstr("closed to computing"));
}

TEST_F(CudaDevice, Fault51_CodeOfANewerToolkitThanTheDriverKnowsIsNotTried) {
  fake_->driver_version = 12040;
  const auto device = open().value();
  const std::vector<DeviceCode> newer = {
      {.architecture = "sm_90", .binary = cubin(90), .toolkit = 13000},
      {.text = ptx, .toolkit = 12080}};
  for (const DeviceCode& code : newer) {
    const auto module = device->load(code);
    ASSERT_FALSE(module);
    EXPECT_EQ(module.error().code, ErrorCode::Environment);
    EXPECT_THAT(module.error().message,
                AllOf(HasSubstr("knows CUDA 12.4, which is older than the toolkit"),
                      HasSubstr("update the driver")));
  }
  EXPECT_EQ(fake_->loaded, "");
  EXPECT_TRUE(device->load(
      {.architecture = "sm_90", .binary = cubin(90, false), .text = ptx, .toolkit = 12080}));

  fake_->load = cuda::UnsupportedPtxVersion;
  EXPECT_THAT(device->load({.text = ptx}).error().message, HasSubstr("older than the toolkit"));
}

TEST_F(CudaDevice, Fault52_CodeForAnotherArchitectureIsRefusedBeforeTheDriverSeesIt) {
  const auto device = open().value();
  const std::vector<DeviceCode> wrong = {{.architecture = "sm_80", .binary = cubin(80)},
                                         {.architecture = "sm_120", .binary = cubin(120)},
                                         {.architecture = "sm_90", .binary = cubin(80)},
                                         {.architecture = "sm_90", .binary = "\177ELF"},
                                         {.text = ".version 9.0\n.target sm_100\n"},
                                         {.text = ".version 9.0\n.target sm_80a, debug\n"},
                                         {.text = "__kernel void f() {}"},
                                         {}};
  for (const DeviceCode& code : wrong) {
    const auto module = device->load(code);
    ASSERT_FALSE(module) << code.architecture << code.text;
    EXPECT_EQ(module.error().code, ErrorCode::Invalid);
    EXPECT_THAT(module.error().message, HasSubstr("compile it again"));
  }
  EXPECT_EQ(fake_->loaded, "");
  EXPECT_THAT(device->load(wrong[0]).error().message,
              HasSubstr("code for sm_80 does not run on Fake GPU, which is sm_90"));
}

TEST_F(CudaDevice, Fault52_PtxTakesThePlaceOfABinaryThatDoesNotFit) {
  const auto device = open().value();
  EXPECT_TRUE(device->load({.architecture = "sm_80", .binary = cubin(80), .text = ptx}));
  EXPECT_EQ(fake_->loaded, ".ver");
  EXPECT_TRUE(device->load({.architecture = "sm_90a", .binary = cubin(90), .text = ptx}));
  EXPECT_EQ(fake_->loaded, "\177ELF");
}

TEST_F(CudaDevice, Fault67_AfterAStickyErrorTheDeviceIsLostAndEveryCallFailsAtOnce) {
  auto device = open().value();
  const DeviceModule module = module_of(*device);
  const DeviceBuffer x = buffer_of(*device, {1.0F});
  const Launch fault{module.function("fault_p0").value(), 1, 1, 0, {x.address()}};
  ASSERT_TRUE(device->launch({&fault, 1}));
  EXPECT_FALSE(device->lost());
  const Status first = device->synchronize();
  ASSERT_FALSE(first);
  EXPECT_TRUE(device->lost());
  EXPECT_EQ(first.error().code, ErrorCode::Environment);
  EXPECT_THAT(first.error().message,
              AllOf(HasSubstr("Fake GPU is lost: an illegal memory access"),
                    HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"), Not(HasSubstr("\n"))));

  const int calls = fake_->calls;
  float number = 0;
  const std::vector<Status> later = {device->synchronize(),
                                     device->launch({&fault, 1}),
                                     device->allocate(4).map([](auto&&) {}),
                                     device->load({.text = ptx}).map([](auto&&) {}),
                                     device->time_ns({&fault, 1}).map([](auto&&) {}),
                                     module.function("fault_p0").map([](auto&&) {}),
                                     x.read(&number, 4),
                                     x.write(&number, 4),
                                     x.fill(0)};
  for (const Status& status : later) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error(), first.error());
  }
  EXPECT_EQ(fake_->calls, calls);
}

TEST_F(CudaDevice, Fault67_ALostDeviceLeavesTheProcessAndItsOtherDevicesUsable) {
  {
    const auto device = open().value();
    const Launch fault{module_of(*device).function("fault_p0").value(), 1, 1, 0, {nullptr}};
    ASSERT_TRUE(device->launch({&fault, 1}));
    ASSERT_FALSE(device->synchronize());
  }
  EXPECT_EQ(fake_->live, 0);
  fake_->sticky = 0;  // as after a reset of the GPU
  const auto device = open().value();
  EXPECT_FALSE(device->lost());
  EXPECT_TRUE(buffer_of(*device, {1.0F}).fill(0));
}

}  // namespace
}  // namespace tw::runtime

// SPDX-License-Identifier: Apache-2.0
// Tests models on the driver of tests/runtime/fake_cuda.h, and on any OpenCL device that the
// machine has.
#include "runtime/devices/device_model.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "runtime/model.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/opencl_library.h"
#include "tests/runtime/tiny_kernels.h"
#include "tests/runtime/tiny_model.h"

namespace tw::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<Buffer> arrays_of(std::vector<float>& x, std::vector<float>& y) {
  return {{x.data(), Float32, {4}}, {y.data(), Float32, {4}}};
}

DeviceBuffer memory_with(Device& device, const std::vector<float>& values) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  DeviceBuffer buffer = device.allocate(bytes).value();
  EXPECT_TRUE(buffer.write(values.data(), bytes));
  return buffer;
}

std::vector<float> content_of(const DeviceBuffer& buffer) {
  std::vector<float> values(static_cast<size_t>(buffer.bytes()) / sizeof(float));
  EXPECT_TRUE(buffer.read(values.data(), buffer.bytes()));
  return values;
}

class ModelOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    fake_ = reinterpret_cast<FakeCudaControl*>(dlsym(library, "fake_cuda"))();
    *fake_ = {};
    fake_->kernels = tiny_kernels_for_fake_cuda();
    device_ = open_cuda_device({.library = TW_FAKE_CUDA}).value();
  }
  void TearDown() override { *fake_ = {}; }

  Model load(const ModelFile& file = tiny_model_for("cuda:sm_90a")) {
    auto model = Model::load(file, {.device = device_});
    EXPECT_TRUE(model) << model.error().message;
    return *model;
  }
  std::string refused(const ModelFile& file, ErrorCode code, const ModelOptions& options) {
    const auto model = Model::load(file, options);
    EXPECT_TRUE(!model && model.error().code == code);
    return model ? std::string() : model.error().message;
  }

  FakeCuda* fake_ = nullptr;
  std::shared_ptr<Device> device_;
  std::vector<float> x_ = {1, -2, 3, 0.5F}, y_ = std::vector<float>(4);
};

TEST_F(ModelOnCuda, OneGraphACallAndOneWait) {
  const Model model = load();
  for (int call = 1; call <= 3; ++call) {
    x_[0] = static_cast<float>(call);
    fake_->synchronizations = 0;
    ASSERT_TRUE(model.call(arrays_of(x_, y_)));
    EXPECT_EQ(y_, tiny_result(x_));
    EXPECT_EQ(fake_->graphs, 1);
    EXPECT_THAT(fake_->graph_streams, SizeIs(call));
    EXPECT_EQ(fake_->synchronizations, 1);
  }
  std::vector<std::string> functions;
  for (size_t i = 0; i < 4; ++i) functions.push_back(fake_->launches[i].function);
  EXPECT_THAT(functions, ElementsAre("multiply", "twice", "sum", "store"));
  EXPECT_EQ(fake_->current, 0);
}

TEST_F(ModelOnCuda, TripsOfALoopAreQueuedOneAfterAnother) {
  constexpr int64_t trips = 3;
  fake_->kernels = loop_kernels_for_fake_cuda(trips);
  const Model model = load(loop_model_for_cuda(trips));
  std::vector<float> s, x, y(16 * trips), expected;
  for (int i = 0; i < 16; ++i) s.push_back(static_cast<float>(i));
  for (int i = 0; i < 16 * trips; ++i) x.push_back(static_cast<float>(i % 3 + 1));
  for (size_t i = 0; i < x.size(); ++i) {
    const float first = s[i % 16] * static_cast<float>(i % 4 + 1);
    expected.push_back((i < 16 ? first : expected[i - 16]) * x[i]);
  }
  const std::vector<Buffer> arrays = {{s.data(), Float32, {16}},
                                      {x.data(), Float32, {trips, 16}},
                                      {y.data(), Float32, {trips, 16}}};
  const Status called = model.call(arrays);
  ASSERT_TRUE(called) << called.error().message;
  EXPECT_EQ(y, expected);
  EXPECT_EQ(fake_->graphs, 1);
  const std::vector<DeviceBuffer> memory = {memory_with(*device_, s), memory_with(*device_, x),
                                            memory_with(*device_, std::vector<float>(y.size()))};
  const std::vector<DeviceArray> on_device = {{memory[0].address(), Float32, {16}},
                                              {memory[1].address(), Float32, {trips, 16}},
                                              {memory[2].address(), Float32, {trips, 16}}};
  ASSERT_TRUE(model.call_on(on_device));
  EXPECT_EQ(content_of(memory[2]), expected);
  ThreadPool pool({.threads = 1});
  const auto profile = model.profile(arrays, pool);
  ASSERT_TRUE(profile) << profile.error().message;
  std::vector<int> steps;
  for (const StepTime& time : profile->steps) steps.push_back(time.step);
  EXPECT_THAT(steps, ElementsAre(0, 1, 1, 1, 2));
}

TEST_F(ModelOnCuda, AWarmCallAllocatesNothingAndAllIsFreed) {
  const int64_t before = fake_->live;
  {
    const Model model = load();
    ASSERT_TRUE(model.call(arrays_of(x_, y_)));
    const int64_t live = fake_->live;
    ASSERT_TRUE(model.call(arrays_of(x_, y_)));
    EXPECT_EQ(fake_->live, live);
    EXPECT_EQ(model.constant_bytes(), 16);
    EXPECT_EQ(model.call_bytes(), device_tensor_alignment + 16 + 16 + 32);
    EXPECT_EQ(model.device(), device_);
  }
  EXPECT_EQ(fake_->live, before);
}

TEST_F(ModelOnCuda, IsOpenedFromAFileWhichMayGo) {
  const TemporaryDirectory directory;
  const std::string path = directory / "net.twart";
  ASSERT_TRUE(write_model(path, tiny_model_for("cuda:sm_90a")));
  const auto model = Model::open(path, {.device = device_});
  ASSERT_TRUE(model) << model.error().message;
  std::filesystem::remove(path);
  ThreadPool pool;
  ASSERT_TRUE(model->call(arrays_of(x_, y_), pool));
  EXPECT_EQ(y_, tiny_result(x_));
}

TEST_F(ModelOnCuda, StridedArraysAreCopied) {
  std::vector<float> gaps(8, -1);
  const std::vector<Buffer> arrays = {{&x_[3], Float32, {4}, {-1}},
                                      {gaps.data(), Float32, {4}, {2}}};
  ASSERT_TRUE(load().call(arrays));
  const std::vector<float> expected = tiny_result({x_.rbegin(), x_.rend()});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(gaps[2 * i], expected[i]);
    EXPECT_EQ(gaps[2 * i + 1], -1);
  }
}

TEST_F(ModelOnCuda, ArraysOnTheDeviceAreUsedInPlaceOnTheCallersStream) {
  const Model model = load();
  const DeviceBuffer x = memory_with(*device_, x_), y = memory_with(*device_, y_);
  const std::vector<DeviceArray> arrays = {{x.address(), Float32, {4}},
                                           {y.address(), Float32, {4}}};
  fake_->synchronizations = 0;
  ASSERT_TRUE(model.call_on(arrays, cuda_legacy_stream));
  const int calls = fake_->calls;
  ASSERT_TRUE(model.call_on(arrays, cuda_legacy_stream));
  EXPECT_EQ(fake_->calls, calls + 1) << "more than the launch of a graph";
  EXPECT_EQ(fake_->synchronizations, 0);
  EXPECT_THAT(fake_->graph_streams, ElementsAre(cuda_legacy_stream, cuda_legacy_stream));
  EXPECT_EQ(content_of(y), tiny_result(x_));
}

TEST_F(ModelOnCuda, ArraysThatAlwaysChangeAreRecordedForAWhileOnly) {
  const Model model = load();
  const DeviceBuffer x = memory_with(*device_, x_);
  std::vector<DeviceBuffer> results;
  for (int call = 0; call < 20; ++call) {
    results.push_back(memory_with(*device_, y_));
    const std::vector<DeviceArray> arrays = {{x.address(), Float32, {4}},
                                             {results.back().address(), Float32, {4}}};
    ASSERT_TRUE(model.call_on(arrays));
    EXPECT_EQ(content_of(results.back()), tiny_result(x_));
  }
  EXPECT_EQ(fake_->graphs, 8);
}

TEST_F(ModelOnCuda, EachStreamHasMemoryOfItsOwn) {
  std::set<void*> arenas;
  const auto plain = fake_->kernels["multiply"];
  fake_->kernels["multiply"].run = [&](void* const* arguments) {
    arenas.insert(arguments[2]);
    plain.run(arguments);
  };
  const Model model = load();
  const DeviceBuffer x = memory_with(*device_, x_), y = memory_with(*device_, y_);
  const std::vector<DeviceArray> arrays = {{x.address(), Float32, {4}},
                                           {y.address(), Float32, {4}}};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(model.call_on(arrays));
    ASSERT_TRUE(model.call_on(arrays, nullptr));
    ASSERT_TRUE(model.call_on(arrays, cuda_legacy_stream));  // the same queue as nullptr
  }
  EXPECT_THAT(arenas, SizeIs(2));
}

TEST_F(ModelOnCuda, MemoryAndGraphsOfThreadsThatHaveEndedAreFreed) {
  const Model model = load();
  const DeviceBuffer x = memory_with(*device_, x_), y = memory_with(*device_, y_);
  const std::vector<DeviceArray> arrays = {{x.address(), Float32, {4}},
                                           {y.address(), Float32, {4}}};
  const auto call_in_thread = [&] {
    std::thread([&] { EXPECT_TRUE(model.call_on(arrays, cuda_per_thread_stream)); }).join();
  };
  call_in_thread();
  const int64_t live = fake_->live;
  for (int i = 0; i < 3; ++i) call_in_thread();
  EXPECT_EQ(fake_->live, live);
  EXPECT_EQ(fake_->graphs, 4);
  EXPECT_EQ(content_of(y), tiny_result(x_));
}

TEST_F(ModelOnCuda, ProfilesItsStepsByTheDevicesClock) {
  ThreadPool pool;
  const auto times = load().profile(arrays_of(x_, y_), pool);
  ASSERT_TRUE(times) << times.error().message;
  ASSERT_THAT(times->steps, SizeIs(3));
  // The clock advances by 1 us for each block.
  EXPECT_EQ(times->steps[0].end_ns, 2000);
  EXPECT_EQ(times->steps[1].begin_ns, 2000);
  EXPECT_EQ(times->steps[2].end_ns - times->steps[2].begin_ns, 4000) << "two phases";
  EXPECT_EQ(y_, tiny_result(x_));
}

TEST_F(ModelOnCuda, VariantsShareKernelsAndConstantsAndAreChosenByShapes) {
  int64_t before = fake_->live;
  const Model one = load();
  const int64_t of_one = fake_->live - before;
  before = fake_->live;
  const Model both = load(two_variants_model_for("cuda:sm_90a"));
  EXPECT_EQ(fake_->live - before, of_one) << "a second copy of something";
  EXPECT_EQ(both.call_bytes(0), one.call_bytes());
  EXPECT_EQ(both.call_bytes(1), 32);

  const std::vector<Buffer> square = {{x_.data(), Float32, {2, 2}}, {y_.data(), Float32, {2, 2}}};
  const std::vector<float> twice = {2, -4, 6, 1};
  ASSERT_TRUE(both.call(arrays_of(x_, y_)));
  EXPECT_EQ(y_, tiny_result(x_));
  ASSERT_TRUE(both.call(square));
  EXPECT_EQ(y_, twice);
  ThreadPool pool;
  const auto profile = both.profile(square, pool);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->variant, 1u);
  EXPECT_THAT(profile->steps, SizeIs(1));

  const DeviceBuffer x = memory_with(*device_, x_), y = memory_with(*device_, x_);
  const auto on_device = [&](const std::vector<int64_t>& shape) {
    return std::vector<DeviceArray>{{x.address(), Float32, shape}, {y.address(), Float32, shape}};
  };
  ASSERT_TRUE(both.call_on(on_device({2, 2})));
  EXPECT_EQ(content_of(y), twice);
  ASSERT_TRUE(both.call_on(on_device({4})));
  EXPECT_EQ(content_of(y), tiny_result(x_));
  const Status other = both.call_on(on_device({1, 4}));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::Usage);
  EXPECT_THAT(other.error().message, HasSubstr("x [1, 4] given, expected x [4]; or x [2, 2]"));
}

TEST_F(ModelOnCuda, WrongArraysNameTheArgument) {
  const Model model = load();
  const auto said = [](const Status& status) {
    EXPECT_TRUE(!status && status.error().code == ErrorCode::Usage);
    return status ? std::string() : status.error().message;
  };
  std::vector<Buffer> arrays = arrays_of(x_, y_);
  arrays[1].data = x_.data();
  EXPECT_THAT(said(model.call(arrays)), HasSubstr("output 'y': shares memory"));
  arrays.pop_back();
  EXPECT_THAT(said(model.call(arrays)), HasSubstr("2"));
  const DeviceBuffer x = memory_with(*device_, x_);
  EXPECT_THAT(said(model.call_on(std::vector<DeviceArray>{{x.address(), Float32, {4}},
                                                          {x.address(), Float32, {4}}})),
              HasSubstr("output 'y': shares memory"));
  EXPECT_THAT(said(model.call_on(std::vector<DeviceArray>{{x.address(), Float32, {4}, {2}},
                                                          {x.address(), Float32, {4}}})),
              HasSubstr("'x': strides"));
}

TEST_F(ModelOnCuda, AModelAndItsDeviceAreOfOneKind) {
  EXPECT_THAT(refused(tiny_model_for("cuda:sm_90a"), ErrorCode::Usage, {}),
              HasSubstr("give a device to load it on"));
  EXPECT_THAT(refused(tiny_model(), ErrorCode::Usage, {.device = device_}),
              HasSubstr("load it without a device"));
  EXPECT_THAT(refused(tiny_model_for("opencl"), ErrorCode::Invalid, {.device = device_}),
              HasSubstr("code for opencl does not run on Fake GPU, which is sm_90"));
  const Model model = Model::load(tiny_model()).value();
  EXPECT_EQ(model.device(), nullptr);
  const Status called = model.call(arrays_of(x_, y_));
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().code, ErrorCode::Usage);
  EXPECT_THAT(called.error().message,
              HasSubstr("call it with a thread pool, or by tw_model_call()"));
  EXPECT_EQ(model.call_on({}).error().code, ErrorCode::Usage);
}

TEST_F(ModelOnCuda, Fault13_MemoryThatTheDeviceHasNotIsNamed) {
  ModelFile model = tiny_model_for("cuda:sm_90a");
  model.variants[0].arena_bytes = int64_t{1} << 40;
  const auto loaded = Model::load(model, {.device = device_});
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Status called = loaded->call(arrays_of(x_, y_));
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().code, ErrorCode::Environment);
  EXPECT_THAT(
      called.error().message,
      HasSubstr("no memory for the arena of 'tiny', 1099511627776 bytes: [device] Fake GPU"));
}

TEST_F(ModelOnCuda, Fault52_AnotherGpusCodeIsRefused) {
  fake_->major = 8;
  device_ = open_cuda_device({.library = TW_FAKE_CUDA}).value();
  EXPECT_THAT(refused(tiny_model_for("cuda:sm_90a"), ErrorCode::Invalid, {.device = device_}),
              HasSubstr("does not run on Fake GPU"));
}

TEST_F(ModelOnCuda, Fault67_OnALostDeviceEveryCallSaysSo) {
  const Model model = load();
  fake_->kernels["twice"].run = [&](void* const*) { fake_->sticky = 700; };
  const Status first = model.call(arrays_of(x_, y_)), second = model.call(arrays_of(x_, y_));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::Environment);
  EXPECT_THAT(first.error().message, HasSubstr("Fake GPU is lost"));
  EXPECT_EQ(second.error(), first.error());
}

class ModelOnOpenCl : public testing::Test {
 protected:
  void SetUp() override {
    keep_pocl_cache_apart();
    auto device = open_device("opencl");
    if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
    device_ = *device;
    auto model = Model::load(tiny_model_for("opencl"), {.device = device_});
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::make_unique<Model>(*model);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Model> model_;
};

TEST_F(ModelOnOpenCl, RunsOnArraysOfBothKinds) {
  std::vector<float> x = {1, 2, -3, 4}, y(4);
  for (int call = 0; call < 2; ++call) {
    x[1] += 1;
    ASSERT_TRUE(model_->call(arrays_of(x, y)));
    EXPECT_EQ(y, tiny_result(x));
  }
  const DeviceBuffer input = memory_with(*device_, x), output = memory_with(*device_, y);
  ASSERT_TRUE(model_->call_on(
      std::vector<DeviceArray>{{input.address(), Float32, {4}}, {output.address(), Float32, {4}}}));
  EXPECT_EQ(content_of(output), tiny_result(x));
}

TEST_F(ModelOnOpenCl, RetainsNoMemoryOfTheCallers) {
  void* queue = nullptr;
  ASSERT_TRUE(device_->submit([&](void* own) -> Status {
    queue = own;
    return {};
  }));
  OpenClLibrary library(queue);
  const std::vector<float> numbers = {1, 2, -3, 4};
  const auto x = library.make_memory(numbers), y = library.make_memory(std::vector<float>(4));
  for (int call = 0; call < 2; ++call)
    ASSERT_TRUE(model_->call_on(
        std::vector<DeviceArray>{{x.get(), Float32, {4}}, {y.get(), Float32, {4}}}));
  EXPECT_EQ(library.read(queue, y.get(), 4), tiny_result(numbers));
  // A driver may release the memory a moment after the work on the memory has ended.
  for (int i = 0; i < 1000 && library.references(x.get()) > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(library.references(x.get()), 1);
  EXPECT_EQ(library.references(y.get()), 1);
}

TEST_F(ModelOnOpenCl, ProfilesItsSteps) {
  std::vector<float> x = {1, 2, -3, 4}, y(4);
  ThreadPool pool;
  const auto times = model_->profile(arrays_of(x, y), pool);
  ASSERT_TRUE(times) << times.error().message;
  ASSERT_THAT(times->steps, SizeIs(3));
  EXPECT_GE(times->steps[2].end_ns, times->steps[2].begin_ns);
  EXPECT_EQ(y, tiny_result(x));
}

TEST_F(ModelOnOpenCl, TensorsBeginWhereTheDeviceAllows) {
  ModelFile file = tiny_model_for("opencl");
  for (ModelTensor& tensor : file.variants[0].tensors)
    if (tensor.place == Place::Arena && tensor.at > 0) tensor.at = 64;
  const Model model = Model::load(file, {.device = device_}).value();
  std::vector<float> x(4), y(4);
  const Status called = model.call(arrays_of(x, y));
  if (called) GTEST_SKIP() << "[SKIP] the device takes any multiple of 64";
  EXPECT_EQ(called.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(called.error().message, HasSubstr("tensor 'h' of 'tiny': an offset of 64 bytes"));
}

TEST_F(ModelOnOpenCl, Fault64_ManyThreadsCallOneModel) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      for (int call = 0; call < 10; ++call) {
        std::vector<float> x(4, static_cast<float>(10 * number + call)), y(4);
        ASSERT_TRUE(model_->call(arrays_of(x, y)));
        ASSERT_EQ(y, tiny_result(x));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tw::runtime

// SPDX-License-Identifier: Apache-2.0
// Tests networks on GPU targets, from schemes to results. They run on OpenCL and on a CUDA GPU if
// the machine has them. They also run on the fake driver of tests/runtime/fake_cuda.h if NVRTC is
// installed: NVRTC compiles the kernels, and the emulator of CUDA runs them.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "codegen/gpu/host_emulator.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/devices/device_target.h"
#include "schedules/schedule.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/tuner/networks.h"
#include "tuner/network/join_models.h"

namespace tw::tuner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

Result<std::shared_ptr<runtime::Device>> opencl_device() {
  static const Folder cache;  // for the kernels that PoCL compiles
  ::setenv("POCL_CACHE_DIR", cache.path().c_str(), 0);
  return runtime::open_device("opencl");
}

class GpuNetwork : public testing::Test {
 protected:
  Result<runtime::ModelFile> built(const Times& times = {}) {
    NetworkOptions options;
    options.tuning.effort = Effort::None;
    options.plans = 1;
    TW_TRY(const TunedNetwork tuned, tune_network(graph_, target_, options, store_, environment_,
                                                  {}, predicting(target_, times)));
    BuiltKernels kernels;
    TW_TRY(BuiltModel model,
           build_model(graph_, tuned, 0, {"test", target_}, environment_, kernels));
    return std::move(model.file);
  }

  /// Expects that the model of the cheapest plan computes the same on the device as the
  /// interpreter.
  void expect_as_interpreted(const std::shared_ptr<runtime::Device>& device,
                             const Times& times = {}) {
    const auto file = built(times);
    ASSERT_TRUE(file) << file.error().message;
    file_ = *file;
    before_loading_(file_);
    const auto model = runtime::Model::load(file_, {.device = device});
    ASSERT_TRUE(model) << model.error().message;
    expect_as_interpreted_by(graph_, *model);
  }

  std::vector<std::string> steps() const {
    std::vector<std::string> names;
    for (const runtime::ModelStep& step : file_.variants[0].steps) names.push_back(step.name);
    return names;
  }

  Folder folder_;
  db::Store store_ = open_store(folder_ / "t.db");
  graph::Graph graph_ = two_convolutions();
  Target target_;
  Environment environment_ = test_environment();
  runtime::ModelFile file_;
  std::function<void(const runtime::ModelFile&)> before_loading_ = [](const auto&) {};
};

/// Returns times by which convolutions have the channels last and the sum is row-major, so that the
/// plan has copies between these layouts.
Times with_copies() {
  Times times{.otherwise = 1e6};
  times.ns["conv2d in=NHWC out=NHWC"] = 1e3;
  times.ns["add_relu a=NCHW b=NCHW out=NCHW"] = 1e3;
  times.ns["expr in0=ABCD out=ACDB"] = times.ns["expr in0=ACDB out=ABCD"] = 1e3;
  return times;
}

TEST_F(GpuNetwork, OnOpenClAModelComputesWhatTheInterpreterDoes) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  target_ = with_facts(parse_target("opencl").value(), (*device)->facts());
  expect_as_interpreted(*device);
  expect_as_interpreted(*device, with_copies());
  EXPECT_THAT(steps(), Contains("x: NCHW -> NHWC"));
}

TEST_F(GpuNetwork, ReshapesKeepChannelsLast) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  target_ = with_facts(parse_target("opencl").value(), (*device)->facts());
  graph_ = grouped_between_others();
  Times times{.otherwise = 1e6};
  for (const char* layouts : {"NCHW out=NHWC", "NHWC out=NCHW", "NHWGC out=NHWGC"})
    times.ns[std::string("conv2d in=") + layouts] = 1e3;
  expect_as_interpreted(*device, times);
  EXPECT_THAT(steps(), ElementsAre("c", "h", "y"));
}

TEST_F(GpuNetwork, PiecesOfAConcatenationAreWrittenWhereTheyBelong) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  target_ = with_facts(parse_target("opencl").value(), (*device)->facts());
  graph_ = dense_block();
  expect_as_interpreted(*device);
  EXPECT_THAT(steps(), ElementsAre("c0", "c1", "c2", "c3", "pooled"));
  graph_ = awkward_concatenations();
  Times times{.otherwise = 1000};
  times.ns["expr in0=ABCD out=ABCD"] = 1;
  expect_as_interpreted(*device, times);
  EXPECT_THAT(steps(), Contains("x: NCHW -> NCHW"));
}

TEST_F(GpuNetwork, VariantsThatAreJoinedComputeOnTheDevice) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  target_ = with_facts(parse_target("opencl").value(), (*device)->facts());
  std::vector<graph::Graph> graphs;
  std::vector<runtime::ModelFile> files;
  for (const int64_t batch : {1, 8}) {
    graph_ = {};
    graph_.inputs = {{"x", {Float32, {batch, 32}}}};
    graph_.constants["w"] = graph::make_constant(graph::normal_array({32, 5}, 1));
    graph_.constants["b"] = graph::make_constant(graph::normal_array({5, 7}, 2));
    const std::string m = "dense m=" + std::to_string(batch);
    graph_.operators = {graph::named(m + " n=5 k=32 f32 fast", {"x", "w"}, "h"),
                        graph::named(m + " n=7 k=5 f32 fast", {"h", "b"}, "y")};
    graph_.outputs = {"y"};
    const auto file = built();
    ASSERT_TRUE(file) << file.error().message;
    graphs.push_back(graph_);
    files.push_back(*file);
  }
  const runtime::ModelFile joined =
      join_models(std::vector<const runtime::ModelFile*>{&files[0], &files[1]});
  EXPECT_EQ(joined.constants.size(), files[0].constants.size());
  const auto model = runtime::Model::load(joined, {.device = *device});
  ASSERT_TRUE(model) << model.error().message;
  for (size_t variant : {0, 1}) expect_as_interpreted_by(graphs[variant], *model, variant);
}

TEST_F(GpuNetwork, OnAGpuAModelComputesWhatTheInterpreterDoes) {
  const auto device = runtime::open_cuda_device();
  if (!device) GTEST_SKIP() << "[SKIP] " << device.error().message;
  if (const auto nvrtc = codegen::Nvrtc::open(); !nvrtc)
    GTEST_SKIP() << "[SKIP] " << nvrtc.error().message;
  target_ = with_facts(runtime::targets_of((*device)->facts()).front(), (*device)->facts());
  expect_as_interpreted(*device);
  expect_as_interpreted(*device, with_copies());
}

/// Gives the fake driver the kernels of a model. The emulator runs each of them.
void give_kernels(runtime::FakeCuda& fake, const runtime::ModelFile& file) {
  for (const runtime::Artifact& artifact : file.kernels) {
    const runtime::KernelInfo& info = artifact.info;
    const dsl::Workload workload = workload_of(info.workload);
    const auto schedule = schedules::parse_schedule(workload.compute, info.schedule);
    ASSERT_TRUE(schedule) << schedule.error().message;
    const Target target = parse_target(info.target).value();
    const auto program = schedule->program(schedules::limits_of(target));
    ASSERT_TRUE(program) << program.error().message;
    const std::string& symbol = info.phases.front().symbol;
    const auto code = codegen::emit_gpu(*program, symbol.substr(0, symbol.rfind("_p")),
                                        codegen::GpuDialect::Cuda);
    ASSERT_TRUE(code) << code.error().message;
    std::vector<std::string> names;
    for (const codegen::GpuKernel& kernel : code->kernels) names.push_back(kernel.name);
    const auto emulator = codegen::HostEmulator::compile(code->text, names);
    ASSERT_TRUE(emulator) << emulator.error().message;
    const auto pointers = info.arguments.size() + 1;  // the last pointer is the scratch memory
    for (const codegen::GpuKernel& kernel : code->kernels)
      fake.kernels[kernel.name] = {
          static_cast<int>(pointers), [emulator = *emulator, kernel, pointers](void* const* given) {
            const Status ran = emulator.launch(kernel, {given, given + pointers});
            EXPECT_TRUE(ran) << ran.error().message;
          }};
  }
}

TEST_F(GpuNetwork, CudaKernelsInAGraphComputeWhatTheInterpreterDoes) {
  if (const auto nvrtc = codegen::Nvrtc::open(); !nvrtc)
    GTEST_SKIP() << "[SKIP] " << nvrtc.error().message;
  void* const library = dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  runtime::FakeCuda& fake =
      *reinterpret_cast<runtime::FakeCudaControl*>(dlsym(library, "fake_cuda"))();
  fake = {};
  fake.major = 8;  // has no TMA, which the emulator and the driver describe differently
  fake.max_threads = 1024;
  const auto device = runtime::open_cuda_device({.library = TW_FAKE_CUDA});
  ASSERT_TRUE(device) << device.error().message;
  target_ = with_facts(parse_target("cuda:sm_80").value(), (*device)->facts());
  before_loading_ = [&](const runtime::ModelFile& file) { give_kernels(fake, file); };
  expect_as_interpreted(*device);
  EXPECT_EQ(fake.graphs, 1);
  expect_as_interpreted(*device, with_copies());
  EXPECT_EQ(fake.graphs, 2);
  fake = {};
}

TEST_F(GpuNetwork, TensorsLieWherePartsOfADevicesMemoryMayBegin) {
  target_ = parse_target("opencl").value();
  const auto file = built();
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->target, "opencl");
  for (const runtime::ModelTensor& tensor : file->variants[0].tensors) {
    if (tensor.place != runtime::Place::Arena && tensor.place != runtime::Place::Constant) continue;
    EXPECT_EQ(tensor.at % runtime::device_tensor_alignment, 0) << tensor.name;
  }
}

}  // namespace
}  // namespace tw::tuner

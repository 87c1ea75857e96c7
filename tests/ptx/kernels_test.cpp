// SPDX-License-Identifier: Apache-2.0
// Kernels as NVRTC compiles them, on the interpreter of PTX, under a driver of our own: what they
// compute is what the declared expression means, and nothing that they do is undefined.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/abi.h"
#include "schedules/legality.h"
#include "tests/codegen/gpu_runs.h"
#include "tests/nightly.h"
#include "tests/ptx/run.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/schedules/mn_major_products.h"
#include "tests/schedules/property.h"
#include "tests/schedules/random_bulk_product.h"
#include "tests/schedules/random_tensor_product.h"

namespace tw::ptx {
namespace {

using codegen::GpuCase;
using codegen::GpuKernel;
using schedules::Program;
using schedules::Schedule;

runtime::FakeCuda& fake_driver() {
  static runtime::FakeCuda* const fake = [] {
    void* library = dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    TW_CHECK(library != nullptr, "the build makes it");
    return reinterpret_cast<runtime::FakeCudaControl*>(dlsym(library, "fake_cuda"))();
  }();
  return *fake;
}

/// What the driver copies of a launch's arguments: pointers, and tensor maps as it encoded them.
std::vector<std::byte> parameters_of(const Kernel& kernel, size_t pointers, void* const* given) {
  std::vector<std::byte> bytes(static_cast<size_t>(kernel.parameter_bytes));
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Variable& parameter = kernel.parameters[i];
    const void* from = i < pointers ? static_cast<const void*>(&given[i]) : given[i];
    std::memcpy(&bytes[static_cast<size_t>(parameter.offset)], from,
                static_cast<size_t>(parameter.bytes));
  }
  return bytes;
}

/// Runs the cases' text, for sm_90a, in each order of threads.
void expect_ptx_agrees(const codegen::Nvrtc& nvrtc, std::span<const GpuCase> cases) {
  const auto code = emit_gpu(codegen::named(cases), codegen::GpuDialect::Cuda);
  ASSERT_TRUE(code) << code.error().message;
  const auto compiled = nvrtc.compile(code->text, "sm_90a", true);
  ASSERT_TRUE(compiled) << compiled.error().message << "\n" << code->text;
  const auto module = parse(compiled->code.text);
  ASSERT_TRUE(module) << module.error().message;
  runtime::FakeCuda& fake = fake_driver();
  fake = {.driver_version = nvrtc.version(), .max_threads = 1024};
  RunOptions options;
  Status status;
  size_t at = 0;
  for (const GpuCase& c : cases)
    for (size_t phase = 0; phase < c.program.phases.size(); ++phase) {
      const GpuKernel& launched = code->kernels[at++];
      const Kernel& kernel = module->kernels.at(launched.name);
      const size_t pointers = c.program.arguments.size() + 1;
      const auto interpret = [&, pointers](void* const* arguments) {
        if (!status) return;
        Launch launch{.blocks = launched.blocks,
                      .threads = launched.threads,
                      .dynamic_shared_bytes = launched.dynamic_shared_bytes,
                      .parameters = parameters_of(kernel, pointers, arguments)};
        const auto add = [&](void* data, int64_t bytes) {
          launch.global.emplace_back(static_cast<std::byte*>(data), static_cast<size_t>(bytes));
        };
        for (size_t i = 0; i + 1 < pointers; ++i)
          add(arguments[i], c.program.arguments[i].buffer.bytes());
        add(arguments[pointers - 1], codegen::scratch_layout(c.program).bytes);
        status = run(kernel, *module, launch, options);
        EXPECT_TRUE(status) << status.error().message << "\n"
                            << c.title << "\n"
                            << to_string(c.program);
      };
      fake.kernels[launched.name] = {static_cast<int>(pointers), interpret,
                                     static_cast<int>(launched.maps.size())};
    }
  const auto device = runtime::open_cuda_device({.library = TW_FAKE_CUDA});
  ASSERT_TRUE(device) << device.error().message;
  const std::pair<const char*, Order> ways[] = {{"forward", Order::Forward},
                                                {"shuffled", Order::Shuffled}};
  for (const auto& [way, order] : ways) {
    options = {.order = order, .seed = cases.size()};
    const auto results = codegen::run_on(**device, *code, compiled->code, cases);
    if (!status) break;
    codegen::expect_equal(cases, results, way);
  }
  fake.kernels.clear();
}

/// A case whose expected outputs are what the declared expression means.
GpuCase case_of(const std::string& title, const dsl::Compute& compute, const Schedule& schedule,
                uint64_t seed, double tolerance) {
  GpuCase c{.title = fmt::format("seed {}\n{}\n{}", seed, title, schedule.to_string()),
            .program = schedule.program(schedules::limits_of(*parse_target("cuda:sm_90a"))).value(),
            .slack = std::max(tolerance, 4e-6)};
  const dsl::Arrays inputs = schedules::exact_inputs(compute, seed);
  const auto outputs = dsl::interpret(compute, inputs);
  EXPECT_TRUE(outputs) << c.title << outputs.error().message;
  for (const auto& argument : c.program.arguments) {
    const std::string& name = argument.buffer.name;
    if (argument.is_output)
      c.expected[name] = schedules::packed(argument, outputs->at(name), 0);
    else
      c.inputs[name] = schedules::packed(argument, inputs.at(name));
  }
  return c;
}

GpuCase plain_case(uint64_t seed) {
  Random random(seed);
  const auto [compute, tolerance] = schedules::random_compute(random);
  schedules::Tally tally;
  const Schedule schedule =
      schedules::random_schedule(random, compute, tally, schedules::Favour::Threads);
  return case_of(dsl::to_text(compute), compute, schedule, seed, tolerance);
}
GpuCase tensor_core_case(uint64_t seed) {
  Random random(seed);
  const auto [workload, schedule] = schedules::random_tensor_product(random);
  return case_of(workload.key(), workload.compute, schedule, seed, 1e-3);
}
GpuCase tma_case(uint64_t seed) {
  Random random(seed);
  const auto [compute, schedule] = schedules::random_bulk_product(random);
  return case_of(dsl::to_text(compute), compute, schedule, seed, 0);
}
GpuCase warpgroup_case(uint64_t seed) {
  Random random(seed);
  const auto [workload, schedule] = schedules::random_warpgroup_product(random);
  return case_of(workload.key(), workload.compute, schedule, seed, 1e-3);
}

class PtxKernels : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = codegen::open_nvrtc();
    if (!opened) GTEST_SKIP() << "[SKIP] " << opened.error().message;
    nvrtc_.emplace(*opened);
  }

  /// Several kernels in a text, which compiles faster than one by one.
  void run(GpuCase (*make)(uint64_t), uint64_t first_seed, int count) {
    std::vector<GpuCase> cases;
    for (int i = 0; i < count; ++i) cases.push_back(make(first_seed + static_cast<uint64_t>(i)));
    if (!HasFailure()) expect_ptx_agrees(*nvrtc_, cases);
  }

  std::optional<codegen::Nvrtc> nvrtc_;
};

TEST_F(PtxKernels, OfRandomComputesAgree) {
  run(plain_case, 1, 25);
  run(plain_case, 101, 25);
}
TEST_F(PtxKernels, OfTensorCoresAgree) { run(tensor_core_case, 1, 24); }
TEST_F(PtxKernels, OfTheCopyEngineAgree) { run(tma_case, 1, 24); }
TEST_F(PtxKernels, OfWarpgroupsAgree) { run(warpgroup_case, 1, 6); }
TEST_F(PtxKernels, OfMnMajorFactorsAgree) {
  std::vector<GpuCase> cases;
  for (const schedules::MnMajorProduct& p : due(schedules::mn_major_products(), 2))
    cases.push_back(case_of(title_of(p), compute_of(p), schedule_of(p), 5, 0));
  expect_ptx_agrees(*nvrtc_, cases);
}

}  // namespace
}  // namespace tw::ptx

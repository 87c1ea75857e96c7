// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/launches.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/abi.h"
#include "tests/runtime/fake_cuda.h"

namespace tw::ptx {
namespace {

using codegen::GpuCase;
using codegen::GpuKernel;
using schedules::Storage;

runtime::FakeCuda& fake_driver() {
  static runtime::FakeCuda* const fake = [] {
    void* library = dlopen(TW_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    TW_CHECK(library != nullptr, "the build makes it");
    return reinterpret_cast<runtime::FakeCudaControl*>(dlsym(library, "fake_cuda"))();
  }();
  return *fake;
}

/// Returns the parameter bytes of a launch as a driver copies them from the arguments: first
/// `pointers` pointers, then tensor maps in the encoding of the fake driver.
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

/// Interprets one launch of a case's kernel, in place of the driver. An error has the title and the
/// program of the case.
Status interpret(const Module& module, const GpuCase& c, const GpuKernel& launched,
                 void* const* arguments, const RunOptions& options) {
  const Kernel& kernel = module.kernels.at(launched.name);
  const size_t pointers = c.program.arguments.size() + 1;
  // A persistent kernel is launched with fewer blocks than tasks.
  Launch launch{
      .blocks = launched.persistent ? std::min<int64_t>(launched.blocks, 2) : launched.blocks,
      .threads = launched.threads,
      .dynamic_shared_bytes = launched.dynamic_shared_bytes,
      .parameters = parameters_of(kernel, pointers, arguments)};
  const auto add = [&](void* data, int64_t bytes) {
    launch.global.emplace_back(static_cast<std::byte*>(data), static_cast<size_t>(bytes));
  };
  for (size_t i = 0; i + 1 < pointers; ++i)
    add(arguments[i], c.program.arguments[i].buffer.bytes());
  add(arguments[pointers - 1], codegen::scratch_layout(c.program).bytes);
  const Status status = run(kernel, module, launch, options);
  if (status) return {};
  return fail(status.error().code,
              fmt::format("{}\n{}\n{}", status.error().message, c.title, to_string(c.program)));
}

}  // namespace

Result<Compiled> compile(const codegen::Nvrtc& nvrtc, std::span<const GpuCase> cases) {
  TW_TRY(codegen::GpuCode code, emit_gpu(codegen::named(cases), codegen::GpuDialect::Cuda));
  TW_TRY(codegen::CudaCode compiled, nvrtc.compile(code.text, "sm_90a", true));
  const std::string ptx = compiled.code.text;
  return Compiled{std::move(code), std::move(compiled.code), ptx};
}

Result<std::vector<Storage>> outputs_of(const Compiled& compiled, std::span<const GpuCase> cases,
                                        const RunOptions& options) {
  TW_TRY(const Module module, parse(compiled.ptx));
  runtime::FakeCuda& fake = fake_driver();
  fake = {.driver_version = 13000, .max_threads = 1024};
  Status status;
  size_t at = 0;
  for (const GpuCase& c : cases)
    for (size_t phase = 0; phase < c.program.phases.size(); ++phase) {
      const GpuKernel& launched = compiled.code.kernels[at++];
      const auto run_kernel = [&](void* const* arguments) {
        if (status) status = interpret(module, c, launched, arguments, options);
      };
      fake.kernels[launched.name] = {static_cast<int>(c.program.arguments.size() + 1), run_kernel,
                                     static_cast<int>(launched.maps.size())};
    }
  TW_TRY(const auto device, runtime::open_cuda_device({.library = TW_FAKE_CUDA}));
  const auto outputs = codegen::run_on(*device, compiled.code, compiled.loaded, cases);
  fake.kernels.clear();
  TW_RETURN_IF_ERROR(status);
  return outputs;
}

void expect_ptx_agrees(const codegen::Nvrtc& nvrtc, std::span<const GpuCase> cases) {
  const auto compiled = compile(nvrtc, cases);
  ASSERT_TRUE(compiled) << compiled.error().message;
  const std::pair<const char*, Order> ways[] = {{"forward", Order::Forward},
                                                {"shuffled", Order::Shuffled}};
  for (const auto& [way, order] : ways)
    codegen::expect_equal(cases, outputs_of(*compiled, cases, {order, cases.size()}), way);
}

}  // namespace tw::ptx

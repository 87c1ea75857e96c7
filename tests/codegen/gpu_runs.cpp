// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/gpu_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "codegen/abi.h"
#include "codegen/gpu/emitter.h"
#include "dsl/interpret.h"
#include "schedules/program/legality.h"
#include "tests/nightly.h"
#include "tests/schedules/agreement.h"
#include "tuner/processes/guarded_buffer.h"

namespace tw::codegen {
namespace {

using schedules::Argument;

std::vector<std::string> names_of(const GpuCode& code) {
  std::vector<std::string> names;
  for (const GpuKernel& kernel : code.kernels) names.push_back(kernel.name);
  return names;
}

/// Fills an argument before the first launch. Inputs get their data. Outputs get a pattern that is
/// no result, or zeros if they are not row-major: their layout may add elements that need not be
/// written.
void fill(const Argument& argument, const Storage& inputs, std::byte* data) {
  const auto bytes = static_cast<size_t>(argument.buffer.bytes());
  if (!argument.is_output) {
    std::copy_n(inputs.at(argument.buffer.name).data(), bytes, data);
  } else {
    std::fill_n(data, bytes, std::byte(argument.layout.is_row_major() ? 0x7f : 0));
  }
}

Result<Storage> launch_emulated(const HostEmulator& emulator, std::span<const GpuKernel> kernels,
                                const GpuCase& c, const EmulatorOptions& options) {
  std::vector<tuner::GuardedBuffer> buffers;
  std::vector<void*> pointers;
  const auto add = [&](int64_t bytes) -> Status {
    TW_TRY(auto buffer, tuner::GuardedBuffer::make(static_cast<size_t>(bytes), {.alignment = 16}));
    pointers.push_back(buffer.data());
    buffers.push_back(std::move(buffer));
    return {};
  };
  for (const Argument& argument : c.program.arguments) {
    TW_RETURN_IF_ERROR(add(argument.buffer.bytes()));
    fill(argument, c.inputs, buffers.back().data());
  }
  TW_RETURN_IF_ERROR(add(scratch_layout(c.program).bytes));
  buffers.back().poison(tuner::Poison::First);
  for (const GpuKernel& kernel : kernels)
    TW_RETURN_IF_ERROR(emulator.launch(kernel, pointers, options));
  Storage outputs;
  for (size_t i = 0; i < c.program.arguments.size(); ++i) {
    if (!c.program.arguments[i].is_output) continue;
    if (buffers[i].check() != tuner::Slack::Intact)
      return fail(ErrorCode::Invalid, "a kernel wrote past an output");
    outputs[c.program.arguments[i].buffer.name].assign(buffers[i].data(),
                                                       buffers[i].data() + buffers[i].size());
  }
  return outputs;
}

Result<Storage> launch_on(runtime::Device& device, const runtime::DeviceModule& module,
                          std::span<const GpuKernel> kernels, const GpuCase& c) {
  std::vector<runtime::DeviceBuffer> buffers;
  std::vector<runtime::DeviceAddress> addresses;
  for (const Argument& argument : c.program.arguments) {
    TW_TRY(const auto buffer, device.allocate(argument.buffer.bytes()));
    std::vector<std::byte> bytes(static_cast<size_t>(argument.buffer.bytes()));
    fill(argument, c.inputs, bytes.data());
    TW_RETURN_IF_ERROR(buffer.write(bytes.data(), argument.buffer.bytes()));
    buffers.push_back(buffer);
  }
  TW_TRY(const auto scratch, device.allocate(scratch_layout(c.program).bytes));
  TW_RETURN_IF_ERROR(scratch.fill(0xff));
  buffers.push_back(scratch);
  for (const auto& buffer : buffers) addresses.push_back(buffer.address());
  std::vector<runtime::Launch> launches;
  for (const GpuKernel& kernel : kernels) {
    TW_TRY(const auto function, module.function(kernel.name));
    launches.push_back({function, kernel.blocks, kernel.threads, kernel.dynamic_shared_bytes,
                        addresses, kernel.maps});
  }
  TW_RETURN_IF_ERROR(device.launch(launches));
  Storage outputs;
  for (size_t i = 0; i < c.program.arguments.size(); ++i) {
    const Argument& argument = c.program.arguments[i];
    if (!argument.is_output) continue;
    auto& bytes = outputs[argument.buffer.name];
    bytes.resize(static_cast<size_t>(argument.buffer.bytes()));
    TW_RETURN_IF_ERROR(buffers[i].read(bytes.data(), argument.buffer.bytes()));
  }
  return outputs;
}

/// Calls `run` with each case and with the kernels of the case.
template <typename F>
Status for_each_case(std::span<const GpuCase> cases, const GpuCode& code, F&& run) {
  size_t at = 0;
  for (const GpuCase& c : cases) {
    const size_t phases = c.program.phases.size();
    TW_RETURN_IF_ERROR(run(c, std::span(code.kernels).subspan(at, phases)));
    at += phases;
  }
  return {};
}

}  // namespace

std::vector<NamedProgram> named(std::span<const GpuCase> cases) {
  std::vector<NamedProgram> programs;
  for (size_t i = 0; i < cases.size(); ++i)
    programs.push_back({fmt::format("k{}", i), &cases[i].program});
  return programs;
}

void expect_equal(std::span<const GpuCase> cases, const Result<std::vector<Storage>>& results,
                  const char* way) {
  ASSERT_TRUE(results) << way << ": " << results.error().message;
  for (size_t i = 0; i < cases.size(); ++i) {
    const GpuCase& c = cases[i];
    EXPECT_EQ(difference(c.program, c.expected, (*results)[i], c.slack, c.slack), "")
        << way << "\n"
        << c.title << "\n"
        << to_string(c.program);
  }
}

GpuCase interpreted_case(const std::string& title, const dsl::Compute& compute,
                         const schedules::Schedule& schedule, uint64_t seed, double slack) {
  GpuCase c{.title = fmt::format("seed {}\n{}\n{}", seed, title, schedule.to_string()),
            .program = schedule.program(schedules::limits_of(*parse_target("cuda:sm_90a"))).value(),
            .slack = slack};
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

GpuCase gpu_case(std::string title, const Program& program, const Storage& inputs, double slack) {
  GpuCase c{std::move(title), program, inputs, inputs, slack};
  const Status evaluated = schedules::evaluate(program, c.expected);
  EXPECT_TRUE(evaluated) << c.title << "\n" << evaluated.error().message;
  // Prepared arguments are inputs of the kernels. The preparation is tested as another case.
  for (const Argument& argument : program.arguments)
    if (argument.prepared) c.inputs[argument.buffer.name] = c.expected[argument.buffer.name];
  return c;
}

Result<std::vector<Storage>> run_on(runtime::Device& device, const GpuCode& code,
                                    const runtime::DeviceCode& loaded,
                                    std::span<const GpuCase> cases) {
  TW_TRY(const auto module, device.load(loaded));
  std::vector<Storage> results;
  TW_RETURN_IF_ERROR(for_each_case(cases, code, [&](const GpuCase& c, auto kernels) -> Status {
    TW_TRY(Storage outputs, launch_on(device, module, kernels, c));
    results.push_back(std::move(outputs));
    return {};
  }));
  return results;
}

Result<std::vector<Storage>> run_opencl(runtime::Device& device, std::span<const GpuCase> cases) {
  TW_TRY(const GpuCode code, emit_gpu(named(cases), GpuDialect::OpenCl));
  return run_on(device, code, {.text = code.text}, cases);
}

Result<std::vector<Storage>> run_cuda(runtime::Device& device, const Nvrtc& nvrtc,
                                      std::span<const GpuCase> cases) {
  TW_TRY(const GpuCode code, emit_gpu(named(cases), GpuDialect::Cuda));
  // If there is a variant of the architecture with features of this chip only, such as sm_90a, the
  // text is compiled for it.
  const std::string plain = device.facts().architecture, own = plain + "a";
  const bool has_own = std::ranges::count(nvrtc.architectures(), own) > 0;
  TW_TRY(const CudaCode compiled, nvrtc.compile(code.text, has_own ? own : plain));
  return run_on(device, code, compiled.code, cases);
}

void expect_emulation_agrees(std::span<const GpuCase> cases) {
  const auto code = emit_gpu(named(cases), GpuDialect::Cuda);
  ASSERT_TRUE(code) << code.error().message;
  const auto emulator = HostEmulator::compile(code->text, names_of(*code));
  ASSERT_TRUE(emulator) << emulator.error().message << "\n" << code->text;
  const std::pair<const char*, EmulatorOptions> ways[] = {
      {"forward", {ThreadOrder::Forward, 0, 0xff}},
      {"backward", {ThreadOrder::Backward, 0, 0xaa}},
      {"shuffled", {ThreadOrder::Shuffled, cases.size(), 0x7f}}};
  for (const auto& [way, options] : ways) {
    std::vector<Storage> results;
    const Status ran = for_each_case(cases, *code, [&](const GpuCase& c, auto kernels) -> Status {
      auto outputs = launch_emulated(*emulator, kernels, c, options);
      if (!outputs)
        return fail(outputs.error().code, fmt::format("{}\n{}\n{}", outputs.error().message,
                                                      c.title, to_string(c.program)));
      results.push_back(std::move(*outputs));
      return {};
    });
    ASSERT_TRUE(ran) << way << ": " << ran.error().message;
    expect_equal(cases, results, way);
  }
}

void expect_opencl_agrees(runtime::Device& device, std::span<const GpuCase> cases) {
  expect_equal(cases, run_opencl(device, cases), "OpenCL");
}

void expect_cuda_agrees(runtime::Device& device, const Nvrtc& nvrtc,
                        std::span<const GpuCase> cases) {
  expect_equal(cases, run_cuda(device, nvrtc, cases), "CUDA");
}

void expect_nvrtc_compiles(const Nvrtc& nvrtc, std::span<const GpuCase> cases) {
  const auto code = emit_gpu(named(cases), GpuDialect::Cuda);
  ASSERT_TRUE(code) << code.error().message;
  // Without TW_NIGHTLY, each text is compiled for one of the architectures. Successive texts take
  // turns, and the length of the first text decides which architecture is first.
  const std::vector<const char*> all = {"sm_80", "sm_90a", "sm_120"};
  static size_t turn = code->text.size();
  const auto architectures = is_nightly() ? all : std::vector{all[turn++ % all.size()]};
  for (const char* architecture : architectures) {
    const auto compiled = nvrtc.compile(code->text, architecture);
    ASSERT_TRUE(compiled) << compiled.error().message << "\n" << code->text;
    EXPECT_EQ(compiled->functions.size(), code->kernels.size()) << architecture;
  }
}

Result<Nvrtc> open_nvrtc() {
  NvrtcOptions options;
  if (const char* home = getenv("CUDA_HOME")) options.directories = {std::string(home) + "/lib64"};
  return Nvrtc::open(options);
}

Result<std::shared_ptr<runtime::Device>> opencl_device() {
  // PoCL reads POCL_CACHE_DIR when it is first used.
  struct Cache {
    std::string path = (std::filesystem::temp_directory_path() / "tw_pocl_XXXXXX").string();
    Cache() { setenv("POCL_CACHE_DIR", mkdtemp(path.data()), 1); }
    ~Cache() { std::filesystem::remove_all(path); }
  };
  static const Cache cache;
  // When it optimizes, PoCL 3.1 treats loops of a kernel as parallel. Then iterations lose the
  // results of earlier iterations.
  setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable", 0);
  return runtime::open_opencl_device();
}

}  // namespace tw::codegen

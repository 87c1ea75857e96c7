// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways to run Programs as GPU text: without a GPU, CUDA C++ on its host emulator between guard
// pages and OpenCL C on whatever device the machine has; and CUDA C++ on a GPU. Many programs share
// a text, as compilers have fixed costs.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/gpu/host_emulator.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/device.h"
#include "schedules/schedule.h"
#include "tests/codegen/runs.h"

namespace tw::codegen {

struct GpuCase {
  std::string title;  ///< shown if the case fails
  Program program;
  Storage inputs = {};
  Storage expected = {};  ///< inputs may be among them
  double slack = 0;       ///< relative and absolute
};

/// A case whose expected outputs are those of the interpreter of programs; its error fails the
/// test.
GpuCase gpu_case(std::string title, const Program& program, const Storage& inputs,
                 double slack = 0);

/// A case of sm_90a whose expected outputs are what the compute means, on inputs that are exact
/// (schedules::exact_inputs): large programs take the interpreter of programs minutes.
GpuCase interpreted_case(const std::string& title, const dsl::Compute& compute,
                         const schedules::Schedule& schedule, uint64_t seed, double slack);

/// The cases' programs, k0, k1 and so on, which emit_gpu() makes one text of.
std::vector<NamedProgram> named(std::span<const GpuCase> cases);
/// The outputs of each case on a device that has loaded `loaded`, the compiled text.
Result<std::vector<Storage>> run_on(runtime::Device& device, const GpuCode& code,
                                    const runtime::DeviceCode& loaded,
                                    std::span<const GpuCase> cases);
/// The outputs are the expected ones; `way` is for the message.
void expect_equal(std::span<const GpuCase> cases, const Result<std::vector<Storage>>& results,
                  const char* way);

/// Forwards, backwards and shuffled, threads compute what is expected.
void expect_emulation_agrees(std::span<const GpuCase> cases);
void expect_opencl_agrees(runtime::Device& device, std::span<const GpuCase> cases);
void expect_cuda_agrees(runtime::Device& device, const Nvrtc& nvrtc,
                        std::span<const GpuCase> cases);

/// The text of all cases compiles for sm_80, sm_90a and sm_120.
void expect_nvrtc_compiles(const Nvrtc& nvrtc, std::span<const GpuCase> cases);

/// The device of these tests, or why there is none. PoCL's cache is a folder of this process.
Result<std::shared_ptr<runtime::Device>> opencl_device();

/// Looked for in $CUDA_HOME first.
Result<Nvrtc> open_nvrtc();

}  // namespace tw::codegen

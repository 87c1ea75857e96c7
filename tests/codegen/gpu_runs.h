// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways to run Programs as text for GPUs. Without a GPU, CUDA C++ runs on its host emulator with
// guard pages, and OpenCL C on any device of the machine. With a GPU, CUDA C++ runs there. Many
// programs share one text, since compilers have fixed costs.

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

/// Returns a case with the outputs of the interpreter of programs as the expected ones. An error of
/// the interpreter fails the test.
GpuCase gpu_case(std::string title, const Program& program, const Storage& inputs,
                 double slack = 0);

/// Returns a case for sm_90a with the meaning of the compute on exact_inputs() as the expected
/// outputs. It is for large programs, for which the interpreter of programs takes minutes.
GpuCase interpreted_case(const std::string& title, const dsl::Compute& compute,
                         const schedules::Schedule& schedule, uint64_t seed, double slack);

/// Returns the cases' programs with the names k0, k1 and so on. emit_gpu() makes one text of them.
std::vector<NamedProgram> named(std::span<const GpuCase> cases);
/// Runs the cases on a device. `code` is their text and `loaded` is the compiled text. Returns the
/// outputs of each case.
Result<std::vector<Storage>> run_on(runtime::Device& device, const GpuCode& code,
                                    const runtime::DeviceCode& loaded,
                                    std::span<const GpuCase> cases);
/// Expects the outputs of each case in `results`. `way` names the way of running in messages.
void expect_equal(std::span<const GpuCase> cases, const Result<std::vector<Storage>>& results,
                  const char* way);

/// These functions run the cases and expect their outputs. The first one runs CUDA text on the host
/// emulator, with threads in forward, backward and shuffled order. The others use a device.
void expect_emulation_agrees(std::span<const GpuCase> cases);
void expect_opencl_agrees(runtime::Device& device, std::span<const GpuCase> cases);
void expect_cuda_agrees(runtime::Device& device, const Nvrtc& nvrtc,
                        std::span<const GpuCase> cases);

/// Expects that the text of all cases compiles for sm_80, sm_90a and sm_120; without TW_NIGHTLY,
/// for one of these.
void expect_nvrtc_compiles(const Nvrtc& nvrtc, std::span<const GpuCase> cases);

/// Returns the OpenCL device of these tests, or the reason why there is none. PoCL's cache is a
/// folder of this process.
Result<std::shared_ptr<runtime::Device>> opencl_device();

/// Opens NVRTC. Looks for it in $CUDA_HOME first.
Result<Nvrtc> open_nvrtc();

}  // namespace tw::codegen

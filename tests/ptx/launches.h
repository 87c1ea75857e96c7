// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs test cases of GPU kernels without a GPU: NVRTC compiles their text to PTX, and the
// interpreter (run.h) executes their launches in place of the driver. Not thread-safe, because a
// process has one fake driver.

#include <span>
#include <string>
#include <vector>

#include "codegen/gpu/emitter.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/device.h"
#include "tests/codegen/gpu_runs.h"
#include "tests/ptx/run.h"

namespace tw::ptx {

/// Several cases as one text, compiled for sm_90a.
struct Compiled {
  codegen::GpuCode code;
  runtime::DeviceCode loaded;
  std::string ptx;
};

Result<Compiled> compile(const codegen::Nvrtc& nvrtc, std::span<const codegen::GpuCase> cases);

/// Runs the compiled cases on a CUDA device whose fake driver interprets their kernels. Returns the
/// outputs.
Result<std::vector<schedules::Storage>> outputs_of(const Compiled& compiled,
                                                   std::span<const codegen::GpuCase> cases,
                                                   const RunOptions& options);

/// Runs each case with two orders of threads, and expects the right results both times.
void expect_ptx_agrees(const codegen::Nvrtc& nvrtc, std::span<const codegen::GpuCase> cases);

}  // namespace tw::ptx

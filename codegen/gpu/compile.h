// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs -> code for GPUs: what compile() does for such targets. CUDA C++ goes through NVRTC and
// comes out as a cubin; OpenCL C is compiled by the driver that loads it, and goes out as text.
// Thread-safe; NVRTC is opened once a process.

#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/artifact.h"
#include "schedules/program/program.h"

namespace tw::codegen {

struct GpuCompiled {
  std::string object;  ///< a cubin, or OpenCL C
  std::string ptx;  ///< PTX beside a cubin, for newer GPUs; empty for architectures with a letter
  int spills = 0;   ///< 4-byte stores and loads of registers that were too few
  /// Launch parameters of each phase; symbols are phase_symbol(prefix, i).
  std::vector<runtime::PhaseInfo> phases;
  std::vector<runtime::PhaseInfo> preparation_phases = {};  ///< the same of Program::preparation
  std::vector<CudaFunctionFacts>
      functions;                         ///< ptxas's report on each of `phases`; empty for OpenCL
  std::vector<std::string> advice = {};  ///< ptxas's, where it is no loss (codegen/gpu/nvrtc.h)
};

/// Environment: there is no NVRTC, in one line that names the package that brings it. Invalid: the
/// text does not compile, or loses in the compiler what the schedule is fast by. Requires: a legal
/// program, a GPU.
Result<GpuCompiled> compile_for_gpu(const schedules::Program& program, const std::string& prefix,
                                    const Target& target, const NvrtcOptions& options);

/// compile_for_gpu() for the targets of one back end (codegen/backend.h).
Result<GpuCompiled> cuda_code(const schedules::Program& program, const std::string& prefix,
                              const Target& target, const NvrtcOptions& options);
Result<GpuCompiled> opencl_code(const schedules::Program& program, const std::string& prefix,
                                const Target& target, const NvrtcOptions& options);

/// Invalid if the compiler spilled registers of the kernel, which is for a GPU. For kernels that
/// are chosen by prediction and not measured: in a search, a kernel that is slow because of its
/// spills loses by its time, and some are fast in spite of them.
Status check_spills(const runtime::Artifact& artifact);

/// The compiler for CUDA and its version: "nvrtc-13.0". Environment: as above.
Result<std::string> cuda_toolchain(const NvrtcOptions& options);

}  // namespace tw::codegen

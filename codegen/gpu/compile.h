// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles programs to code for GPUs, for compile(). NVRTC compiles CUDA C++ to a cubin. OpenCL C
// stays text, which the driver compiles when it loads the kernel. Thread-safe; NVRTC is opened once
// per process.

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
  /// PTX that accompanies a cubin, for newer GPUs; empty for architectures with a letter
  /// ("sm_90a").
  std::string ptx;
  int spills = 0;  ///< number of 4-byte stores and loads of spilled registers
  /// Launch parameters of each phase; symbols are phase_symbol(prefix, i).
  std::vector<runtime::PhaseInfo> phases;
  /// Launch parameters of Program::preparation.
  std::vector<runtime::PhaseInfo> preparation_phases = {};
  std::vector<CudaFunctionFacts>
      functions;  ///< ptxas's report on each of `phases`; empty for OpenCL
  /// Advisory messages of ptxas without those of is_loss() (codegen/gpu/nvrtc.h).
  std::vector<std::string> advice = {};
};

/// Compiles a program for a GPU. Environment: there is no NVRTC; the message is one line that names
/// the package to install. Invalid: the text does not compile, or the compiler drops what makes the
/// schedule fast (is_loss()). Requires: a legal program, a GPU.
Result<GpuCompiled> compile_for_gpu(const schedules::Program& program, const std::string& prefix,
                                    const Target& target, const NvrtcOptions& options);

/// As compile_for_gpu(), for the targets of one back end (codegen/backend.h).
Result<GpuCompiled> cuda_code(const schedules::Program& program, const std::string& prefix,
                              const Target& target, const NvrtcOptions& options);
Result<GpuCompiled> opencl_code(const schedules::Program& program, const std::string& prefix,
                                const Target& target, const NvrtcOptions& options);

/// Checks that the compiler spilled no registers of a GPU's kernel. Invalid if it did. Use it for
/// kernels that are chosen by prediction and not measured. A search does not need it: there the
/// spills show in the measured time, and some kernels are fast in spite of them.
Status check_spills(const runtime::Artifact& artifact);

/// Returns the compiler for CUDA and its version: "nvrtc-13.0". Environment as compile_for_gpu().
Result<std::string> cuda_toolchain(const NvrtcOptions& options);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles programs to code for GPUs. CUDA C++ is compiled to a cubin by NVRTC. OpenCL C stays
// text, which the driver compiles when it loads the kernel. compile() (codegen/compile.h) makes
// artifacts of the results. Thread-safe; NVRTC is opened once per process.

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
  /// PTX of the same kernel, which drivers compile for GPUs newer than the cubin's. Empty for
  /// OpenCL, and for architectures with a letter ("sm_90a"), because newer GPUs do not accept their
  /// PTX.
  std::string ptx;
  int spills = 0;  ///< number of 4-byte stores and loads of spilled registers
  /// Launch parameters of each phase. Phase i has the symbol phase_symbol(prefix, i).
  std::vector<runtime::PhaseInfo> phases;
  /// Launch parameters of Program::preparation.
  std::vector<runtime::PhaseInfo> preparation_phases = {};
  std::vector<CudaFunctionFacts>
      functions;  ///< ptxas's report on each of `phases`; empty for OpenCL
  /// Advisory messages of ptxas, except those that make the compilation fail (is_loss() in
  /// codegen/gpu/nvrtc.h).
  std::vector<std::string> advice = {};
};

/// Compiles a program for a GPU. Fails with Environment if there is no NVRTC; the message is one
/// line that names the package to install. Fails with Invalid if the text does not compile, or if
/// the compiler reports that the kernel lacks the property that makes its schedule fast
/// (is_loss()). Fails with Unsupported as emit_gpu() and Nvrtc::compile() do. Requires: a legal
/// program, and a target that is a GPU.
Result<GpuCompiled> compile_for_gpu(const schedules::Program& program, const std::string& prefix,
                                    const Target& target, const NvrtcOptions& options);

/// Each of these functions does what compile_for_gpu() does, but only for the targets of one back
/// end (codegen/backend.h).
Result<GpuCompiled> cuda_code(const schedules::Program& program, const std::string& prefix,
                              const Target& target, const NvrtcOptions& options);
Result<GpuCompiled> opencl_code(const schedules::Program& program, const std::string& prefix,
                                const Target& target, const NvrtcOptions& options);

/// Checks that the compiler spilled no registers of a GPU's kernel, and fails with Invalid if it
/// did. Use the check for kernels that are chosen by prediction and never measured. A search does
/// not need the check, because spills show in the measured time, and some kernels are fast in spite
/// of spills.
Status check_spills(const runtime::Artifact& artifact);

/// Returns the name and version of the compiler for CUDA: "nvrtc-13.0". Fails with Environment if
/// there is no NVRTC.
Result<std::string> cuda_toolchain(const NvrtcOptions& options);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The back ends: how kernels for a family of targets are compiled, and what they run on. One row
// each for processors, CUDA and OpenCL; code that has to tell them apart reads their row, so that
// another back end is a row and the functions that it names. parse_target() (base/target.h) knows
// the names of targets.
//
//   const Backend& backend = backend_of(target);
//   if (backend.open) { TW_TRY(const auto device, backend.open({.index = index})); ... }
//
// Constant data; thread-safe.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/target.h"
#include "codegen/compare_kernels.h"
#include "codegen/gpu/compile.h"
#include "codegen/gpu/emitter.h"
#include "codegen/peak_kernel.h"
#include "runtime/device.h"

namespace tw::codegen {

struct CompileOptions;  // codegen/compile.h

struct Backend {
  std::string_view name;  ///< "cpu", "cuda", "opencl"
  /// Name and version of the compiler, as records store them.
  Result<std::string> (*toolchain)(const CompileOptions& options);
  /// Code for a device; null for processors, whose kernels are compiled several at a time.
  Result<GpuCompiled> (*gpu_code)(const schedules::Program& program, const std::string& prefix,
                                  const Target& target, const NvrtcOptions& options);
  /// Opens a device; null where kernels run in the calling process.
  Result<std::shared_ptr<runtime::Device>> (*open)(const runtime::DeviceOptions& options);
  /// A kernel that reaches the device's peak of f32; null as `open`.
  PeakKernel (*peak_kernel)();
  /// Kernels that compare arrays; null as `open`.
  CompareKernels (*compare_kernels)();
  /// The language of its kernels. Requires: gpu_code.
  GpuDialect dialect = GpuDialect::Cuda;
  /// Artifact::object is source text, which the driver compiles.
  bool is_text = false;
  /// Kernels run on hardware of their own, so that builders on the processor do not disturb them.
  bool leaves_processor_idle = false;
  /// The driver starts programs when it compiles.
  bool driver_starts_programs = false;
};

std::span<const Backend> backends();
const Backend& backend_of(Architecture architecture);
inline const Backend& backend_of(const Target& target) { return backend_of(target.architecture); }
/// The back end of an open device.
const Backend& backend_of(const runtime::DeviceFacts& facts);

}  // namespace tw::codegen

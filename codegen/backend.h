// SPDX-License-Identifier: Apache-2.0
#pragma once
// The back ends: the ways to compile kernels for a family of targets, and the devices that run
// them. The table has one row each for processors, CUDA and OpenCL. Code that must distinguish back
// ends reads their row, so a new back end is a new row and the functions that it names.
// parse_target() (base/target.h) parses the names of targets.
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
  /// Returns the name and version of the compiler, as records store them.
  Result<std::string> (*toolchain)(const CompileOptions& options);
  /// Compiles a program for a device. Null for processors, where compile() compiles several kernels
  /// at a time.
  Result<GpuCompiled> (*gpu_code)(const schedules::Program& program, const std::string& prefix,
                                  const Target& target, const NvrtcOptions& options);
  /// Opens a device. Null for processors, where kernels run in the calling process.
  Result<std::shared_ptr<runtime::Device>> (*open)(const runtime::DeviceOptions& options);
  /// Returns a kernel that reaches the device's peak of f32. Null if `open` is null.
  PeakKernel (*peak_kernel)();
  /// Returns kernels that compare arrays on the device. Null if `open` is null.
  CompareKernels (*compare_kernels)();
  /// The language of the back end's kernels. Valid only if `gpu_code` is not null.
  GpuDialect dialect = GpuDialect::Cuda;
  /// The name of that language for people; empty for processors.
  std::string_view language = {};
  /// True if Artifact::object is source text that the driver compiles.
  bool is_text = false;
  /// True if kernels run on separate hardware, so that builders on the processor do not disturb
  /// them.
  bool leaves_processor_idle = false;
  /// True if the driver starts other programs when it compiles.
  bool driver_starts_programs = false;
};

std::span<const Backend> backends();
const Backend& backend_of(Architecture architecture);
inline const Backend& backend_of(const Target& target) { return backend_of(target.architecture); }
/// The back end of an open device.
const Backend& backend_of(const runtime::DeviceFacts& facts);

}  // namespace tw::codegen

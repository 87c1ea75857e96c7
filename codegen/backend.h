// SPDX-License-Identifier: Apache-2.0
#pragma once
// A back end is a way to compile kernels for a family of targets, and the kind of device that runs
// them. The table of back ends has one row each for processors, CUDA and OpenCL. Code whose
// behaviour depends on the back end reads that behaviour from the row. So a new back end needs only
// a new row and the functions that the row points to. The names of targets are parsed elsewhere, by
// parse_target() (base/target.h).
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
  /// Compiles one program for a device. Null for processors: compile() (codegen/compile.h) compiles
  /// several of their kernels at a time.
  Result<GpuCompiled> (*gpu_code)(const schedules::Program& program, const std::string& prefix,
                                  const Target& target, const NvrtcOptions& options);
  /// Opens a device. Null for processors, where kernels run in the calling process.
  Result<std::shared_ptr<runtime::Device>> (*open)(const runtime::DeviceOptions& options);
  /// Returns a kernel that reaches the device's peak speed in f32. Null if `open` is null.
  PeakKernel (*peak_kernel)();
  /// Returns kernels that compare arrays on the device. Null if `open` is null.
  CompareKernels (*compare_kernels)();
  /// The language of the back end's kernels. Valid only if `gpu_code` is not null.
  GpuDialect dialect = GpuDialect::Cuda;
  /// The name of `dialect` as messages show it; empty for processors.
  std::string_view language = {};
  /// True if Artifact::object is source text, which the driver compiles when the kernel is loaded.
  bool is_text = false;
  /// True if kernels run on hardware of their own. Then compiling other kernels on the processor
  /// does not disturb a timing.
  bool leaves_processor_idle = false;
  /// True if the driver starts other programs, such as a linker, when it compiles.
  bool driver_starts_programs = false;
};

std::span<const Backend> backends();
const Backend& backend_of(Architecture architecture);
inline const Backend& backend_of(const Target& target) { return backend_of(target.architecture); }
/// Returns the back end of an open device.
const Backend& backend_of(const runtime::DeviceFacts& facts);

}  // namespace tw::codegen

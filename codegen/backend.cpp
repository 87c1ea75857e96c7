// SPDX-License-Identifier: Apache-2.0
#include "codegen/backend.h"

#include "base/result.h"
#include "codegen/compile.h"

namespace tw::codegen {
namespace {

constexpr size_t cpu_row = 0, cuda_row = 1, opencl_row = 2;

/// The rows stand in the order of cpu_row, cuda_row and opencl_row.
const Backend table[] = {
    {.name = "cpu",
     .toolchain = [](const CompileOptions& options) { return cpu_toolchain(options.cpu); },
     .gpu_code = nullptr,
     .open = nullptr,
     .peak_kernel = nullptr,
     .compare_kernels = nullptr},
    {.name = "cuda",
     .toolchain = [](const CompileOptions& options) { return cuda_toolchain(options.nvrtc); },
     .gpu_code = cuda_code,
     .open = runtime::open_cuda_device,
     .peak_kernel = cuda_peak_kernel,
     .compare_kernels = cuda_compare_kernels,
     .dialect = GpuDialect::Cuda,
     .language = "CUDA C++",
     .leaves_processor_idle = true},
    // OpenCL's device may be the processor (as with PoCL), so the processor need not be idle while
    // kernels run. PoCL starts a linker.
    {.name = "opencl",
     .toolchain = [](const CompileOptions&) { return Result<std::string>("opencl"); },
     .gpu_code = opencl_code,
     .open = runtime::open_opencl_device,
     .peak_kernel = opencl_peak_kernel,
     .compare_kernels = opencl_compare_kernels,
     .dialect = GpuDialect::OpenCl,
     .language = "OpenCL C",
     .is_text = true,
     .driver_starts_programs = true},
};

}  // namespace

std::span<const Backend> backends() { return table; }

const Backend& backend_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::X86_64:
    case Architecture::Arm64:
      return table[cpu_row];
    case Architecture::Cuda:
      return table[cuda_row];
    case Architecture::OpenCl:
      return table[opencl_row];
  }
  TW_CHECK(false, "an architecture has a back end");
}

const Backend& backend_of(const runtime::DeviceFacts& facts) {
  return table[facts.is_cuda() ? cuda_row : opencl_row];
}

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Emits programs as kernels of a GPU. The text is CUDA C++ for NVRTC, which needs no header, or
// OpenCL C 1.2.
//
//     const GpuCode code = emit_gpu(program, "gemm", GpuDialect::Cuda).value();
//     for (const GpuKernel& kernel : code.kernels)  // one for each phase, in order
//       launch(kernel.name, kernel.blocks, kernel.threads, kernel.dynamic_shared_bytes, arguments);
//
// A task becomes a block of threads, and the iterations of a thread loop become the block's
// threads. Grid and blocks are one-dimensional. Each phase is a kernel, and phases run one after
// another. A kernel has these parameters:
// - for each argument of the program, in order, a pointer to an array in storage layout that is
//   aligned to 16 bytes; the pointer may be null if the kernel does not access the array;
// - a pointer to scratch memory of scratch_layout(program).bytes (codegen/abi.h);
// - in CUDA, by value, the tensor maps of the kernel's TMA copies (GpuKernel::maps).
//
// The CUDA text uses the language itself and a short list of functions. codegen/gpu/host_emulator.h
// defines these functions for the CPU too, so that tests can run the same text there.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/cpu_codegen.h"
#include "runtime/devices/tensor_map.h"
#include "schedules/program/program.h"

namespace tw::codegen {

enum class GpuDialect { Cuda, OpenCl };

/// Launch parameters of the kernel of a phase.
struct GpuKernel {
  std::string name;    ///< phase_symbol(prefix, i) for phase i
  int64_t blocks = 0;  ///< number of tasks of the phase
  /// True if the kernel may be launched with fewer blocks. Each block then runs several tasks.
  bool persistent = false;
  int threads = 1;
  int64_t shared_bytes = 0;  ///< shared memory of a block, static and dynamic
  /// Bytes of dynamic shared memory, which the launch must request. In CUDA, if the buffers and
  /// mbarriers exceed 48 KiB, all buffers are dynamic. Else the value is 0.
  int64_t dynamic_shared_bytes = 0;
  std::vector<runtime::TensorMap> maps = {};  ///< passed by value after the scratch pointer
};

struct GpuCode {
  std::string text;
  std::vector<GpuKernel> kernels;
};

/// Emits one kernel for each phase of the program. Fails with Unsupported if a phase has more tasks
/// than the largest i32, or if the program uses f64. Requires: a legal program. Pure and
/// thread-safe.
Result<GpuCode> emit_gpu(const schedules::Program& program, const std::string& prefix,
                         GpuDialect dialect);

/// Emits the kernels of several programs, in order, as one text. Compiling one text is faster than
/// compiling a text for each program. Fails as emit_gpu() above does, and has the same
/// requirements.
Result<GpuCode> emit_gpu(std::span<const NamedProgram> programs, GpuDialect dialect);

}  // namespace tw::codegen

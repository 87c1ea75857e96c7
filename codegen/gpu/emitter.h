// SPDX-License-Identifier: Apache-2.0
#pragma once
// Emits programs as kernels of a GPU: as CUDA C++ for NVRTC, which needs no header, or as OpenCL C
// 1.2.
//
//     const GpuCode code = emit_gpu(program, "gemm", GpuDialect::Cuda).value();
//     for (const GpuKernel& kernel : code.kernels)  // one a phase, in order
//       launch(kernel.name, kernel.blocks, kernel.threads, kernel.dynamic_shared_bytes, arguments);
//
// A task becomes a block, and the iterations of a thread loop become the block's threads. Grid and
// blocks are one-dimensional. Phases run one after another. Each kernel has these parameters:
// - a pointer for each argument of the program, in order, to an array in storage layout that is
//   aligned to 16 bytes; null for arrays that the kernel does not access;
// - a pointer to scratch memory of scratch_layout(program).bytes (codegen/abi.h);
// - in CUDA, by value, the tensor maps of the kernel's TMA copies (GpuKernel::maps).
//
// The CUDA text uses the language itself and a short list of functions. codegen/gpu/host_emulator.h
// defines these functions for the CPU too, so the same text runs there.

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
  std::string name;    ///< phase_symbol(prefix, i)
  int64_t blocks = 0;  ///< tasks
  /// True if fewer blocks may be launched, each of which runs several tasks.
  bool persistent = false;
  int threads = 1;
  int64_t shared_bytes = 0;  ///< shared memory of a block, static and dynamic
  /// Dynamic shared memory, which the launch must request: all buffers if they exceed 48 KiB in
  /// CUDA, else 0.
  int64_t dynamic_shared_bytes = 0;
  std::vector<runtime::TensorMap> maps = {};  ///< parameters after scratch
};

struct GpuCode {
  std::string text;
  std::vector<GpuKernel> kernels;
};

/// Emits the kernels of a program. Unsupported: a phase has more tasks than can be numbered.
/// Requires: a legal program. Pure and thread-safe.
Result<GpuCode> emit_gpu(const schedules::Program& program, const std::string& prefix,
                         GpuDialect dialect);

/// Emits the kernels of several programs, in order, as one text, which compiles faster than one
/// text each.
Result<GpuCode> emit_gpu(std::span<const NamedProgram> programs, GpuDialect dialect);

}  // namespace tw::codegen

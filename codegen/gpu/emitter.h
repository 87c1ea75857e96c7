// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs -> kernels of a GPU, as CUDA C++ for NVRTC, which needs no header, or as OpenCL C 1.2.
//
//     const GpuCode code = emit_gpu(program, "gemm", GpuDialect::Cuda).value();
//     for (const GpuKernel& kernel : code.kernels)  // one a phase, in order
//       launch(kernel.name, kernel.blocks, kernel.threads, kernel.dynamic_shared_bytes, arguments);
//
// A task is a block, and the iterations of a thread loop are its threads; the grid and the blocks
// have one dimension. Each kernel takes the arguments of the program in order, each in storage
// layout and aligned to 16 bytes, and then one pointer to scratch memory of
// scratch_layout(program).bytes (codegen/abi.h); arrays that it does not access may be null. After
// these a CUDA kernel takes, by value, the tensor maps of its TMA copies (GpuKernel::maps). Phases
// run one after the other.
//
// Apart from the language itself the CUDA text calls a short list of functions, which
// codegen/gpu/host_emulator.h also defines for the CPU: the same text runs there.

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
  std::string name;         ///< phase_symbol(prefix, i)
  int64_t blocks = 0;       ///< tasks
  bool persistent = false;  ///< fewer blocks may be launched, each of which runs several tasks
  int threads = 1;
  int64_t shared_bytes = 0;  ///< shared memory of a block, dynamic included
  int64_t dynamic_shared_bytes =
      0;  ///< part that the launch must request: buffers, if above 48 KiB in CUDA
  std::vector<runtime::TensorMap> maps = {};  ///< parameters after scratch
};

struct GpuCode {
  std::string text;
  std::vector<GpuKernel> kernels;
};

/// Unsupported: more tasks than can be numbered. Requires: a legal program. Pure and thread-safe.
Result<GpuCode> emit_gpu(const schedules::Program& program, const std::string& prefix,
                         GpuDialect dialect);

/// Several in one text, which compiles faster than one by one; kernels in the order of programs.
Result<GpuCode> emit_gpu(std::span<const NamedProgram> programs, GpuDialect dialect);

}  // namespace tw::codegen

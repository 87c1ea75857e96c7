// SPDX-License-Identifier: Apache-2.0
#pragma once
// CUDA text on the CPU: the text that NVRTC compiles for a GPU, compiled by this machine's C++
// compiler against a prelude that defines CUDA's words, and run thread by thread. What it computes,
// and whether its threads meet where they should, is so known without a GPU.
//
//     TW_TRY(const HostTwin twin, HostTwin::compile(code.text, {"gemm_p0"}));
//     TW_RETURN_IF_ERROR(twin.launch(code.kernels[0], pointers, {.order = ThreadOrder::Backward}));
//
// Each thread of a block is a fiber that runs up to the next barrier before another has its turn,
// so that a barrier that is missing shows in one order or another. Instructions of a warp are
// barriers of its 32 threads, which exchange what the hardware's layout of tensor tiles says that
// each has. Shared memory holds a pattern when a block begins, and where an asynchronous copy is on
// its way: it arrives when its thread waits for it, no sooner. Boxes that are copied in bulk arrive
// when a thread waits at their barrier, which counts its phases and bytes as the hardware does. Not
// thread-safe: launches of one
// twin share their blocks' memory.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/gpu_emitter.h"

namespace tw::codegen {

/// In which order blocks run, and threads between two barriers. Shuffled: anew after each barrier.
enum class ThreadOrder { Forward, Backward, Shuffled };

struct TwinOptions {
  ThreadOrder order = ThreadOrder::Forward;
  uint64_t seed = 0;      ///< of what is shuffled
  uint8_t poison = 0xff;  ///< each byte of shared memory; 0xff: NaN, and -1
};

class HostTwin {
 public:
  /// Environment: no compiler `c++`, or it refuses the text, with its message.
  static Result<HostTwin> compile(const std::string& text, const std::vector<std::string>& kernels);

  /// Runs the kernel to its end; `arguments` are all of its pointers, scratch last. Invalid: some
  /// threads reach a barrier, or an instruction of their warp, that others do not, or wait for
  /// boxes that never arrive, or a block writes past the shared memory of the launch. Unaligned
  /// vectors and indices outside of arrays end the process with a message.
  Status launch(const GpuKernel& kernel, const std::vector<void*>& arguments,
                const TwinOptions& options = {}) const;

 private:
  struct Module;
  explicit HostTwin(std::shared_ptr<const Module> module) : module_(std::move(module)) {}

  std::shared_ptr<const Module> module_;
};

/// What the text is compiled against. It defines TW_HOST_TWIN.
std::string_view host_twin_prelude();

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// An emulator of CUDA for tests: the text that NVRTC compiles for a GPU is compiled by this
// machine's C++ compiler against a prelude that defines CUDA's words, and runs thread by thread on
// the CPU. It checks results and synchronization without a GPU.
//
//     TW_TRY(const HostEmulator emulator, HostEmulator::compile(code.text, {"gemm_p0"}));
//     const EmulatorOptions options = {.order = ThreadOrder::Backward};
//     TW_RETURN_IF_ERROR(emulator.launch(code.kernels[0], pointers, options));
//
// Each thread of a block is a fiber that runs up to the next barrier before another one runs, so
// that a missing barrier shows in one order of the threads or another. A warp's instruction is a
// barrier of its 32 threads, which exchange their elements of the tensor tile by the hardware's
// layout. Shared memory holds a pattern when a block begins, and so does the destination of an
// asynchronous copy until its thread waits for the copy. TMA copies arrive when a thread waits at
// their mbarrier, which counts its phases and bytes as the hardware does. Not thread-safe: launches
// of one emulator share the memory of their blocks.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/gpu/emitter.h"

namespace tw::codegen {

/// Order in which blocks run, and threads between two barriers. Shuffled: a new random order after
/// each barrier.
enum class ThreadOrder { Forward, Backward, Shuffled };

struct EmulatorOptions {
  ThreadOrder order = ThreadOrder::Forward;
  uint64_t seed = 0;              ///< seed of the shuffled order
  int64_t persistent_blocks = 2;  ///< blocks of a persistent kernel, at most its tasks
  uint8_t poison = 0xff;  ///< initial value of each byte of shared memory; 0xff makes NaN, and -1
};

class HostEmulator {
 public:
  /// Environment: no compiler `c++`, or it refuses the text, with its message.
  static Result<HostEmulator> compile(const std::string& text,
                                      const std::vector<std::string>& kernels);

  /// Runs the kernel to its end; `arguments` are all of its pointers, scratch last. Fails with
  /// Invalid if some threads, but not all, reach a barrier or an instruction of their warp, if they
  /// wait for TMA copies that never arrive, or if a block writes past the shared memory of the
  /// launch. Unaligned vectors and indices outside of arrays end the process with a message.
  Status launch(const GpuKernel& kernel, const std::vector<void*>& arguments,
                const EmulatorOptions& options = {}) const;

 private:
  struct Module;
  explicit HostEmulator(std::shared_ptr<const Module> module) : module_(std::move(module)) {}

  std::shared_ptr<const Module> module_;
};

/// The definitions of CUDA's words that the text is compiled against. They define TW_HOST_TWIN.
std::string_view host_emulator_prelude();

}  // namespace tw::codegen

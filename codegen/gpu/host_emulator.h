// SPDX-License-Identifier: Apache-2.0
#pragma once
// An emulator of CUDA for tests, which checks results and synchronization without a GPU. It takes
// the text that NVRTC compiles for a GPU, compiles it with this machine's C++ compiler against a
// prelude that defines CUDA's words, and runs it thread by thread on the CPU.
//
//     TW_TRY(const HostEmulator emulator, HostEmulator::compile(code.text, {"gemm_p0"}));
//     const EmulatorOptions options = {.order = ThreadOrder::Backward};
//     TW_RETURN_IF_ERROR(emulator.launch(code.kernels[0], pointers, options));
//
// Each thread of a block is a fiber, which runs up to the next barrier before another thread runs.
// So a missing barrier changes the result in some order of the threads. An instruction of a warp is
// a barrier of its 32 threads, which exchange their elements of the tensor tile by the hardware's
// layout. Shared memory holds a pattern when a block begins, and so does the destination of an
// asynchronous copy until its thread waits for the copy. TMA copies arrive when a thread waits at
// their mbarrier, which counts phases and bytes as the hardware does. Not thread-safe: launches of
// one emulator share the memory of their blocks.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/gpu/emitter.h"

namespace tw::codegen {

/// The order in which blocks run, and threads between two barriers. Shuffled takes a new random
/// order after each barrier.
enum class ThreadOrder { Forward, Backward, Shuffled };

struct EmulatorOptions {
  ThreadOrder order = ThreadOrder::Forward;
  uint64_t seed = 0;              ///< seed of the shuffled order
  int64_t persistent_blocks = 2;  ///< number of blocks of a persistent kernel, limited by its tasks
  /// Initial value of each byte of shared memory; 0xff makes floats NaN and integers -1.
  uint8_t poison = 0xff;
};

class HostEmulator {
 public:
  /// Compiles the text, whose kernels have these names. Environment: there is no compiler `c++`, or
  /// it refuses the text; the message is the compiler's.
  static Result<HostEmulator> compile(const std::string& text,
                                      const std::vector<std::string>& kernels);

  /// Runs the kernel to its end. `arguments` are all pointers of the kernel, scratch last. Invalid:
  /// some threads, but not all, reach a barrier or an instruction of their warp; threads wait for
  /// TMA copies that never arrive; or a block writes beyond the shared memory of the launch.
  /// Unaligned vectors and indices outside of arrays end the process with a message.
  Status launch(const GpuKernel& kernel, const std::vector<void*>& arguments,
                const EmulatorOptions& options = {}) const;

 private:
  struct Module;
  explicit HostEmulator(std::shared_ptr<const Module> module) : module_(std::move(module)) {}

  std::shared_ptr<const Module> module_;
};

/// Returns the definitions of CUDA's words against which the text is compiled. They define
/// TW_HOST_TWIN.
std::string_view host_emulator_prelude();

}  // namespace tw::codegen

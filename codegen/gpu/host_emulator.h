// SPDX-License-Identifier: Apache-2.0
#pragma once
// An emulator of CUDA for tests, which checks results and synchronization without a GPU. It
// compiles the text that NVRTC would compile, with this machine's C++ compiler and a prelude that
// defines CUDA's words. Then it runs the text on the CPU, thread by thread.
//
//     TW_TRY(const HostEmulator emulator, HostEmulator::compile(code.text, {"gemm_p0"}));
//     const EmulatorOptions options = {.order = ThreadOrder::Backward};
//     TW_RETURN_IF_ERROR(emulator.launch(code.kernels[0], pointers, options));
//
// The emulation is made to show errors:
// - Each thread of a block is a fiber, which runs up to the next barrier before another thread
//   runs. So if a barrier is missing, there is an order of the threads for which the result is
//   wrong.
// - An instruction of a warp is a barrier of its 32 threads. They exchange their elements of the
//   tensor tile, which are distributed over the threads as on the hardware.
// - Shared memory holds a fixed pattern when a block begins. The destination of an asynchronous
//   copy holds the pattern too, until the thread that issued the copy waits for it.
// - TMA copies arrive when a thread waits at their mbarrier. The mbarrier counts phases and bytes
//   as the hardware does.
//
// Not thread-safe: launches of one emulator share the memory of their blocks.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/gpu/emitter.h"

namespace tw::codegen {

/// The order in which blocks run, and in which threads run between two barriers. With Shuffled, the
/// order of the threads is random and changes at each barrier.
enum class ThreadOrder { Forward, Backward, Shuffled };

struct EmulatorOptions {
  ThreadOrder order = ThreadOrder::Forward;
  uint64_t seed = 0;              ///< seed of the shuffled order
  int64_t persistent_blocks = 2;  ///< number of blocks of a persistent kernel, limited by its tasks
  /// Value of each byte of shared memory when a block begins. 0xff makes floats NaN and integers
  /// -1.
  uint8_t poison = 0xff;
};

class HostEmulator {
 public:
  /// Compiles a text of emit_gpu(). `kernels` are the names of the kernels in the text. Fails with
  /// Environment if there is no compiler `c++`, or if it rejects the text; the message has the
  /// compiler's errors.
  static Result<HostEmulator> compile(const std::string& text,
                                      const std::vector<std::string>& kernels);

  /// Runs the kernel to its end. `arguments` are the kernel's pointers, scratch memory last. Fails
  /// with Invalid if
  /// - only some threads reach a barrier, or an instruction that all threads of a warp must execute
  ///   together (such as mma),
  /// - an instruction of a warpgroup, or a TMA copy, has invalid operands or lacks its fence,
  /// - threads wait for TMA copies that never arrive, or a block ends before its copies arrive, or
  /// - a block writes beyond the shared memory of the launch.
  ///
  /// An unaligned vector access, or an index outside of an array, ends the process with a message.
  Status launch(const GpuKernel& kernel, const std::vector<void*>& arguments,
                const EmulatorOptions& options = {}) const;

 private:
  struct Module;
  explicit HostEmulator(std::shared_ptr<const Module> module) : module_(std::move(module)) {}

  std::shared_ptr<const Module> module_;
};

/// Returns the prelude: the definitions of CUDA's words against which the text is compiled. It
/// defines the macro TW_HOST_TWIN, which hides definitions that only GPUs can compile
/// (codegen/gpu/prelude.h).
std::string_view host_emulator_prelude();

}  // namespace tw::codegen

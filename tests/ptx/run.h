// SPDX-License-Identifier: Apache-2.0
#pragma once
// An interpreter of PTX. It runs the PTX that a compiler made from a kernel on the processor, block
// after block and thread after thread, so that inline assembler is tested without a GPU.
//
//     TW_TRY(const Module module, parse(code.text));
//     TW_RETURN_IF_ERROR(run(module.kernels.at("gemm_p0"), module, launch, {}));
//
// A thread runs until it has to wait. Then another thread runs, in an order that the caller
// chooses. Asynchronous copies complete as late as they may: cp.async when its thread waits for it,
// a TMA copy when no thread can continue. Tensor cores truncate when they add. If PTX leaves the
// effect of an instruction undefined, or if threads wait forever, run() returns an error that names
// the thread and the line. Not modelled are caches, other blocks that run at the same time, and the
// register allocation of ptxas.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "tests/ptx/module.h"

namespace tw::ptx {

enum class Order { Forward, Backward, Shuffled };

struct Launch {
  int64_t blocks = 1;
  int threads = 1;
  int64_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters = {};  ///< as the kernel's declaration lays them out
  /// Arrays in global memory that the kernel may access.
  std::vector<std::span<std::byte>> global = {};
};

struct RunOptions {
  Order order = Order::Forward;
  uint64_t seed = 0;                        ///< of the shuffled order
  int64_t most_instructions = 400'000'000;  ///< of all threads; more count as an endless loop
};

/// Runs a launch. Fails with Invalid if the kernel does something undefined or never ends.
Status run(const Kernel& kernel, const Module& module, const Launch& launch,
           const RunOptions& options = {});

}  // namespace tw::ptx

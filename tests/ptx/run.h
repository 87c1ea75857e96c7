// SPDX-License-Identifier: Apache-2.0
#pragma once
// An interpreter of PTX: what a compiler made of a kernel runs on the processor, block after block
// and thread after thread, so the text in inline assembler is tested without a GPU.
//
//     TW_TRY(const Module module, parse(code.text));
//     TW_RETURN_IF_ERROR(run(module.kernels.at("gemm_p0"), module, launch, {}));
//
// A thread runs until it has to wait, then another one does, in an order of the caller's choice.
// Asynchronous copies arrive as late as they may: cp.async when its thread waits, boxes of the copy
// engine when no thread can go on. Tensor cores cut off when they add. Where PTX leaves undefined
// what happens, and where threads wait forever, the launch is an error that names the thread and
// the line. Not modelled: caches, other blocks that run at the same time, registers of ptxas.

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
  int64_t most_instructions = 400'000'000;  ///< of all threads; more are an endless loop
};

/// Invalid: the kernel does something undefined or never ends.
Status run(const Kernel& kernel, const Module& module, const Launch& launch,
           const RunOptions& options = {});

}  // namespace tw::ptx

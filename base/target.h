// SPDX-License-Identifier: Apache-2.0
#pragma once
// A target is the machine that a kernel is generated for: architecture, instruction set features
// and the sizes that schedules are fitted to. GPUs are targets by their architecture alone. A plain
// value: prints, parses back, thread-safe to share.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw {

enum class Architecture { X86_64, Arm64, Cuda, OpenCl };

/// What a block of threads may use.
struct BlockLimits {
  int threads = 1024;
  int64_t shared_bytes = 48 << 10;
  int registers_per_thread = 255;  ///< of 32 bits
};

struct Target {
  Architecture architecture = Architecture::X86_64;
  std::string cpu;  ///< or GPU: informative, e.g. "AMD EPYC"; no part of the identity
  std::vector<std::string> features;  ///< sorted, e.g. {"avx", "avx2", "avx512f", "fma"}
  std::string gpu;                    ///< of Cuda: "sm_90a"
  BlockLimits block;                  ///< of Cuda and OpenCl
  int cores = 1;          ///< usable by this process: affinity and cgroup quota respected; a GPU's
                          ///< multiprocessors
  int vector_bytes = 16;  ///< of the widest register that the features allow
  int vector_registers = 16;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 512 << 10;
  int64_t l3_bytes = 8 << 20;
  int64_t memory_bytes = 0;  ///< of a GPU; 0: unknown

  bool has(std::string_view feature) const;
  bool is_gpu() const {
    return architecture == Architecture::Cuda || architecture == Architecture::OpenCl;
  }
  /// Canonical text, e.g. "x86-64-linux-avx-avx2-fma": parse_target gives back an equal identity.
  std::string to_string() const;
};

/// This machine, as the process may use it: affinity and quota bound `cores`, isa.h the features.
Target host_target();

/// "host", or "<arch>-linux[-feature...]" with arch x86-64 or arm-64, or a short name: "x86-64-v3"
/// (AVX2, FMA), "x86-64-v4" (AVX-512), or "cuda:sm_90a" and the like, or "opencl". Unknown names
/// are a Usage error that names the nearest one; of GPUs that are too old, or unknown, it is
/// Unsupported and lists the others.
Result<Target> parse_target(std::string_view text);

/// Features of `kernel_target` that `machine` lacks; empty when its kernels can run there.
std::vector<std::string> missing_features(const Target& kernel_target, const Target& machine);

}  // namespace tw

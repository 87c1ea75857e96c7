// SPDX-License-Identifier: Apache-2.0
#pragma once
// A target says what a kernel is generated for, architecture and instruction set features, and is
// an identity. Its machine says what the kernel is tuned for, and is no part of it, as with -march
// and -mtune. GPUs are targets by their architecture alone. A plain value: prints, parses back,
// thread-safe to share.

#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/result.h"

namespace tw {

enum class Architecture { X86_64, Arm64, Cuda, OpenCl };

struct Target {
  Architecture architecture = Architecture::X86_64;
  std::string cpu;  ///< name of the CPU or GPU, e.g. "AMD EPYC"; no part of the identity
  std::vector<std::string> features;  ///< sorted, e.g. {"avx", "avx2", "avx512f", "fma"}
  std::string gpu;                    ///< architecture of a CUDA target: "sm_90a"
  Machine machine;  ///< device that kernels are tuned for; no part of the identity
  /// Name of the device in records, if the machine was measured and is not as the system reports it
  /// (tuner/workers/device.h); else empty. No part of the identity.
  std::string device;

  bool has(std::string_view feature) const;
  bool is_gpu() const {
    return architecture == Architecture::Cuda || architecture == Architecture::OpenCl;
  }
  /// Canonical text, e.g. "x86-64-linux-avx-avx2-fma": parse_target gives back an equal identity.
  std::string to_string() const;
};

/// The machine at hand, as the process may use it: affinity and quota bound the cores, isa.h the
/// features and with them the vectors.
Target host_target();

/// "host", or "<arch>-linux[-feature...]" with arch x86-64 or arm-64, or a short name: "x86-64-v3"
/// (AVX2, FMA), "x86-64-v4" (AVX-512), or "cuda:sm_90a" and the like, or "opencl". But for "host"
/// the machine is a generic one of that instruction set, or the GPU's of the table. Unknown names
/// are a Usage error that names the nearest one; of GPUs that are too old, or unknown, it is
/// Unsupported and lists the others.
Result<Target> parse_target(std::string_view text);

/// The machine at hand, executing vectors as the target's features allow. Requires: kernels for the
/// target run here.
Machine machine_at_hand(const Target& target);

/// The vectors that the target's features allow.
VectorSizes vector_sizes(const Target& target);

/// Features of `kernel_target` that `machine` lacks; empty when its kernels can run there.
std::vector<std::string> missing_features(const Target& kernel_target, const Target& machine);

}  // namespace tw

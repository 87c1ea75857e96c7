// SPDX-License-Identifier: Apache-2.0
#pragma once
// A target is what a kernel is generated for: an architecture and instruction set features, by
// which targets are compared. Its machine is what the kernel is tuned for, and is not part of the
// comparison; compilers separate -march and -mtune in this way. A GPU target is its architecture
// alone. A plain value: prints, parses back, thread-safe to share.

#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/result.h"

namespace tw {

enum class Architecture { X86_64, Arm64, Cuda, OpenCl };

struct Target {
  Architecture architecture = Architecture::X86_64;
  std::string cpu;  ///< name of the CPU or GPU, e.g. "AMD EPYC"; not part of the identity
  std::vector<std::string> features;  ///< sorted, e.g. {"avx", "avx2", "avx512f", "fma"}
  std::string gpu;                    ///< architecture of a CUDA target: "sm_90a"
  Machine machine;  ///< device that kernels are tuned for; not part of the identity
  /// Name of the device in records if the machine was measured and differs from what the system
  /// reports (tuner/workers/device.h); else empty. Not part of the identity.
  std::string device;

  bool has(std::string_view feature) const;
  bool is_gpu() const {
    return architecture == Architecture::Cuda || architecture == Architecture::OpenCl;
  }
  /// Canonical text of the identity, e.g. "x86-64-linux-avx-avx2-fma". parse_target() of it gives a
  /// target with the same identity.
  std::string to_string() const;
};

/// The target of the machine that this process runs on, as far as the process may use it: affinity
/// and quota limit the cores, and TILEWRIGHT_MAX_ISA (isa.h) limits the features and so the
/// vectors.
Target host_target();

/// Parses the name of a target: "host"; "<arch>-linux[-feature...]", in which arch is x86-64 or
/// arm-64; "x86-64-v3" (AVX2, FMA) or "x86-64-v4" (AVX-512); "cuda:" with an architecture, such as
/// "cuda:sm_90a"; or "opencl". The machine of "host" is the one at hand, the machine of a GPU is in
/// the table, and all other targets have a generic machine. An unknown name is a Usage error that
/// names the nearest one. A GPU architecture that is too old or unknown is an Unsupported error
/// that lists the supported ones.
Result<Target> parse_target(std::string_view text);

/// The machine that this process runs on, with the vectors that the target's features allow.
/// Requires: this machine can run kernels for the target.
Machine machine_at_hand(const Target& target);

/// The vector registers that the target's features allow.
VectorSizes vector_sizes(const Target& target);

/// Features of `kernel_target` that `machine` lacks; empty if `machine` can run its kernels.
std::vector<std::string> missing_features(const Target& kernel_target, const Target& machine);

}  // namespace tw

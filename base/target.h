// SPDX-License-Identifier: Apache-2.0
#pragma once
// A target says for which instructions a kernel is generated (an architecture and its instruction
// set features) and for which machine it is tuned, like -march and -mtune of compilers.
// Architecture and features are the target's identity: to_string() prints them, parse_target()
// reads them back, and targets are compared by them. The identity of a GPU target is its
// architecture alone. A plain value; thread-safe to share.

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
  /// The text that names the device in records. If it is empty, device_text()
  /// (tuner/workers/device.h) makes the text from `cpu` and `machine`. A calibration replaces
  /// `machine`, and may have found other cache sizes than the system reports. The text must have
  /// the sizes that the system reports, so it is set before the calibration's numbers are. Not part
  /// of the identity.
  std::string device;

  bool has(std::string_view feature) const;
  bool is_gpu() const {
    return architecture == Architecture::Cuda || architecture == Architecture::OpenCl;
  }
  /// Returns the canonical text of the identity, e.g. "x86-64-linux-avx-avx2-fma". parse_target()
  /// reads this text and returns a target with the same identity.
  std::string to_string() const;
};

/// Returns the target of the machine that this process runs on. It describes only the part of the
/// machine that the process may use: affinity and quota limit the cores, and TILEWRIGHT_MAX_ISA
/// (isa.h) limits the features and thereby the width of vectors.
Target host_target();

/// Parses the name of a target:
///
///   "host"                            the machine that this process runs on
///   "x86-64-linux-avx2-fma"           an architecture (x86-64 or arm-64) and its features
///   "x86-64-v3", "x86-64-v4"          x86-64 with AVX2 and FMA, or with AVX-512
///   "cuda:sm_90a", "opencl"           a GPU
///
/// The machine of "host" is described by host_target(), the machine of a GPU is its row in the
/// table, and all other targets have a generic machine. Fails with Usage for an unknown name or
/// feature; the message lists the known ones, and suggests the nearest name if one is similar.
/// Fails with Unsupported for a GPU architecture that is too old or unknown; the message lists the
/// supported architectures.
Result<Target> parse_target(std::string_view text);

/// Returns `target` with `cpu` and `machine` set to the processor that this process runs on.
/// Architecture and features stay. The width and number of the machine's vector registers are those
/// that the features allow. Requires: a processor target whose kernels this machine can run.
Target on_this_machine(Target target);

/// Returns the vector registers that the target's features allow.
VectorSizes vector_sizes(const Target& target);

/// Returns the features of `kernel_target` that the target `machine` lacks; empty if `machine` can
/// run kernels for `kernel_target`. If the architectures differ, the result is the name of the
/// missing architecture. The name of a GPU is that of its target, such as "cuda:sm_90a".
std::vector<std::string> missing_features(const Target& kernel_target, const Target& machine);

}  // namespace tw

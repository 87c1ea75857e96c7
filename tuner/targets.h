// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses targets as a person names them, and says what this machine lacks to compile for them and
// to run their kernels. Thread-safe.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "runtime/device.h"
#include "tuner/tune.h"
#include "tuner/workers/environment.h"

namespace tw::tuner {

struct ChosenTarget {
  Target target;
  /// Features of the processor that this machine lacks to run kernels of the target. For a GPU
  /// target, the reasons why this machine cannot compile or run them. Empty if it can.
  std::vector<std::string> missing;
  int device = 0;  ///< index of the GPU among those of its driver

  bool runs_here() const { return missing.empty(); }
};

/// The target that the text names. Its caches and cores are those of this machine if its kernels
/// can run here. "cuda" is the architecture of this machine's first GPU, "cuda:1" that of the
/// second; if the driver or NVRTC is missing for these two forms, an Environment error names
/// everything that is missing in one line. For an architecture ("cuda:sm_90a") and for OpenCL,
/// `missing` lists what is missing instead. Errors as parse_target(); Usage if the driver lists no
/// such device; TryLater if the device is in use.
Result<ChosenTarget> chosen_target(const std::string& text, const Environment& environment);

/// The missing features or reasons as a clause for people. It names the variable TILEWRIGHT_MAX_ISA
/// if that limit is the cause.
std::string missing_text(const ChosenTarget& chosen);

/// Fails if kernels for the target cannot be measured on this machine with options.threads threads.
/// `instead` is the command-line option that the message advises. Always passes for Effort::None,
/// which measures nothing. Errors: Environment for a GPU target whose kernels cannot run here;
/// Unsupported if the processor lacks features; Usage if it has fewer cores than threads.
Status check_measurable(const ChosenTarget& chosen, const TuneOptions& options,
                        std::string_view instead = "--effort none");

/// True if the text names a GPU target: "cuda", "cuda:1", "cuda:sm_90a", "opencl" or "opencl:1".
bool names_gpu(const std::string& text);

/// Opens the device of a GPU target. Errors as codegen::Backend::open(). Requires: a GPU target.
Result<std::shared_ptr<runtime::Device>> open_device(const ChosenTarget& chosen);

/// Opens the device that the text `named` means, such as "opencl:1", to run kernels of a GPU
/// target. Without a number it is the first device of that kind. Usage if `named` is of another
/// kind than the target.
Result<std::shared_ptr<runtime::Device>> device_for(const Target& target, const std::string& named);

}  // namespace tw::tuner

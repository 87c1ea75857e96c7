// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses the names of targets that users write, such as "cuda:1", and says what this machine lacks
// to compile for a target and to run its kernels. Thread-safe.

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
  /// The things that this machine lacks to run kernels of the target: names of processor features;
  /// for a GPU target, the reasons why kernels cannot be compiled or run here. Empty if nothing is
  /// missing.
  std::vector<std::string> missing;
  int device = 0;  ///< index of the GPU among those of its driver

  bool runs_here() const { return missing.empty(); }
};

/// The target that `text` names:
/// - "cuda" is the architecture of this machine's first GPU, and "cuda:1" that of the second. An
///   Environment error names everything that is missing, such as the driver or NVRTC.
/// - "cuda:sm_90a", OpenCL's devices and processors are returned even if this machine cannot run
///   their kernels; `missing` then says why.
///
/// If kernels of the target can run here, the target has the caches and cores of this machine.
/// Errors: as parse_target(); Usage if the driver lists no such device; TryLater if the device is
/// in use.
Result<ChosenTarget> chosen_target(const std::string& text, const Environment& environment);

/// The missing features or reasons in one line, for messages. It also names the variable
/// TILEWRIGHT_MAX_ISA if features are missing only because that variable excludes them.
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

/// Opens a device to run kernels of a GPU target. `named` is the user's text for the device, such
/// as "opencl:1"; without a number it means the first device of that kind. Usage if the device is
/// of another kind than the target.
Result<std::shared_ptr<runtime::Device>> device_for(const Target& target, const std::string& named);

}  // namespace tw::tuner

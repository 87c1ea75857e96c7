// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parses the names of targets that users write, such as "cuda:1", and says what this machine lacks
// in order to compile for a target and to run its kernels. Thread-safe.

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
  /// Reasons why this machine cannot run kernels of the target. For a processor they are the names
  /// of missing features; for a GPU they say why kernels cannot be compiled or run here. Empty if
  /// the machine can run them.
  std::vector<std::string> missing;
  int device = 0;  ///< index of the GPU among those of its driver

  bool runs_here() const { return missing.empty(); }
};

/// Returns the target that `text` names:
/// - "cuda" is the architecture of this machine's first GPU, and "cuda:1" that of the second. Fails
///   with Environment if anything is missing, such as the driver or NVRTC; the message names all of
///   it.
/// - "cuda:sm_90a", OpenCL's devices and processors are returned even if this machine cannot run
///   their kernels; `missing` then says why.
///
/// If kernels of the target can run here, the returned target has the caches and cores of this
/// machine. Fails with the errors of parse_target(), with Usage if the driver lists no such device,
/// and with TryLater if the device is in use.
Result<ChosenTarget> chosen_target(const std::string& text, const Environment& environment);

/// Returns the missing features or reasons in one line, for messages. The line also names the
/// variable TILEWRIGHT_MAX_ISA if features are missing only because that variable excludes them.
std::string missing_text(const ChosenTarget& chosen);

/// Fails if kernels for the target cannot be measured on this machine with options.threads threads:
/// with Environment for a GPU target whose kernels cannot run here, with Unsupported if the
/// processor lacks features, and with Usage if it has fewer cores than threads. `instead` is the
/// command-line option that the message advises. Always passes for Effort::None, which measures
/// nothing.
Status check_measurable(const ChosenTarget& chosen, const TuneOptions& options,
                        std::string_view instead = "--effort none");

/// True if the text names a GPU target: "cuda", "cuda:1", "cuda:sm_90a", "opencl" or "opencl:1".
bool names_gpu(const std::string& text);

/// Opens the device of a GPU target. Fails with the errors of codegen::Backend::open(). Requires: a
/// GPU target.
Result<std::shared_ptr<runtime::Device>> open_device(const ChosenTarget& chosen);

/// Opens a device to run kernels of a GPU target. `named` is the user's text for the device, such
/// as "opencl:1"; without an index it means the first device of that kind. Fails with Usage if the
/// device is of another kind than the target, and with the errors of codegen::Backend::open().
Result<std::shared_ptr<runtime::Device>> device_for(const Target& target, const std::string& named);

}  // namespace tw::tuner

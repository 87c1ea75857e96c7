// SPDX-License-Identifier: Apache-2.0
#pragma once
// Targets as a person names them, with what this machine lacks to compile for them and to run their
// kernels. Thread-safe.

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
  /// Features that this machine lacks to run kernels of the target; for a GPU, reasons why it
  /// cannot compile or run them. Empty if it can.
  std::vector<std::string> missing;
  int device = 0;  ///< index of a GPU among those of its driver

  bool runs_here() const { return missing.empty(); }
};

/// The target that the text names; caches and cores are this machine's where its kernels can run
/// here. "cuda" is the architecture of this machine's first GPU, "cuda:1" that of its second. If
/// the driver or NVRTC is missing for these two forms, an Environment error names in one line all
/// that is missing. For an architecture ("cuda:sm_90a") and for OpenCL, `missing` lists it instead.
/// Errors as parse_target(); Usage: the driver lists no such device. TryLater: the device is in
/// use.
Result<ChosenTarget> chosen_target(const std::string& text, const Environment& environment);

/// The missing features or reasons as a clause for people. It names TILEWRIGHT_MAX_ISA if that is
/// the cause.
std::string missing_text(const ChosenTarget& chosen);

/// Fails if kernels for the target, on this number of threads, cannot be measured on this machine;
/// `instead` is what the message advises. Effort::None measures nothing and always passes.
/// Environment: a GPU is missing; Unsupported: features of the processor are; Usage: it has fewer
/// cores.
Status check_measurable(const ChosenTarget& chosen, const TuneOptions& options,
                        std::string_view instead = "--effort none");

/// True if the text names a GPU target: "cuda", "cuda:1", "cuda:sm_90a", "opencl" or "opencl:1".
bool names_gpu(const std::string& text);

/// Opens the device of a GPU's target. Errors as codegen::Backend::open(). Requires: a GPU.
Result<std::shared_ptr<runtime::Device>> open_device(const ChosenTarget& chosen);

/// Opens the device that `named` means, "opencl:1", for kernels of a GPU's target; the first of its
/// kind where no number is named. Usage: it names another kind.
Result<std::shared_ptr<runtime::Device>> device_for(const Target& target, const std::string& named);

}  // namespace tw::tuner

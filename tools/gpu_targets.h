// SPDX-License-Identifier: Apache-2.0
#pragma once
// GPU targets as a person names them, and whether this machine can run and compile for them.

#include <memory>
#include <string>

#include "base/result.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/device.h"
#include "tools/flags/workload_flags.h"
#include "tuner/processes/clock.h"
#include "tuner/workers/device_lock.h"

namespace tw::tools {

/// True if the text names a GPU target: "cuda", "cuda:1", "cuda:sm_90a", "opencl" or "opencl:1".
bool names_gpu(const std::string& text);

/// The target that the text names. "cuda" is the architecture of this machine's first GPU, "cuda:1"
/// that of its second. If the driver or NVRTC is missing for these two forms, an Environment error
/// names in one line all that is missing. For an architecture ("cuda:sm_90a") and for OpenCL,
/// `missing` lists it instead. Usage: the driver lists no such device. TryLater: the device is in
/// use.
Result<ChosenTarget> chosen_gpu(const std::string& text, const codegen::NvrtcOptions& nvrtc);

/// Opens the device that `named` means, "opencl:1", for kernels of a GPU's target; the first of its
/// kind where no number is named. Usage: it names another kind.
Result<std::shared_ptr<runtime::Device>> device_for(const Target& target, const std::string& named);

/// The turn of this process on a device, where one program measures at a time; it ends with the
/// value. TryLater: another program has had the device for a minute.
Result<tuner::DeviceTurn> turn_on(const runtime::Device& device, const tuner::Clock& clock);

}  // namespace tw::tools

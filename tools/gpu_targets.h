// SPDX-License-Identifier: Apache-2.0
#pragma once
// GPU targets as a person names them, and whether this machine can run and compile for them.

#include <string>

#include "base/result.h"
#include "codegen/nvrtc.h"
#include "tools/workload_flags.h"

namespace tw::tools {

/// Whether the text names a GPU target: "cuda", "cuda:1", "cuda:sm_90a", "opencl", "opencl:1".
bool names_gpu(const std::string& text);

/// "cuda" is the architecture of this machine's first GPU, "cuda:1" that of its second: an
/// Environment error says in one line what is missing, the driver, NVRTC or both. Of the others it
/// is in `missing`. Usage: the driver lists no such device.
Result<ChosenTarget> chosen_gpu(const std::string& text, const codegen::NvrtcOptions& nvrtc);

}  // namespace tw::tools

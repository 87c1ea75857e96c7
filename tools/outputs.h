// SPDX-License-Identifier: Apache-2.0
#pragma once
// Outputs of verbs: checks before the work, kernels in the cache, and command lines that repeat a
// run. Not thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "tools/places.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Usage if the output is the file `input`, under this or another name.
Status check_keeps(const std::string& input, const std::string& output);

/// The error (Unsupported) for a flag that names a file to write, --output say, with a workload
/// without elements, which has no kernel.
tl::unexpected<Error> nothing_to_write(std::string_view verb, const std::string& path,
                                       const dsl::Workload& workload,
                                       std::string_view flag = "--output");

/// Path in the cache at which a Session of the runtime looks for the kernel.
std::string cached_artifact(const PlaceFlags& flags, const Surroundings& here,
                            const runtime::KernelInfo& info);
Result<std::string> store_in_cache(const PlaceFlags& flags, const Surroundings& here,
                                   const runtime::Artifact& artifact);

/// "tilewright replay --db PATH HASH" as a person can paste it.
std::string replay_line(const PlaceFlags& flags, const Surroundings& here, const std::string& hash);

}  // namespace tw::tools

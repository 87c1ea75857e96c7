// SPDX-License-Identifier: Apache-2.0
#pragma once
// Helps verbs with their outputs: checks output paths before the work begins, stores kernels in the
// cache, and prints the command line that measures a record again. Not thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "tools/places.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Checks that each of `outputs` is a file of its own, which is none of `inputs`, even where paths
/// differ. Usage otherwise. An empty path is no file, and neither is "-" among the inputs.
Status check_separate(const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs);

/// The error (Unsupported) for a workload without elements, which needs no kernel, if `flag` (such
/// as --output) asks for the kernel to be written to the file `path`.
tl::unexpected<Error> nothing_to_write(std::string_view verb, const std::string& path,
                                       const dsl::Workload& workload,
                                       std::string_view flag = "--output");

/// The path in the cache at which a Session of the runtime looks for the kernel.
std::string cached_artifact(const PlaceFlags& flags, const Surroundings& here,
                            const runtime::KernelInfo& info);
Result<std::string> store_in_cache(const PlaceFlags& flags, const Surroundings& here,
                                   const runtime::Artifact& artifact);

/// The command line that measures a record again: "tilewright replay --db PATH HASH", quoted so
/// that a person can paste it into a shell.
std::string replay_line(const PlaceFlags& flags, const Surroundings& here, const std::string& hash);

}  // namespace tw::tools

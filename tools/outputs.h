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

/// Fails with Usage if two of `outputs` are the same file, or if an output is also one of `inputs`.
/// Different paths to one file, such as "a" and "./a", count as the same. Empty paths are ignored,
/// and so is "-" (standard input) among the inputs.
Status check_separate(const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs);

/// Returns the error for a workload that has no elements and so needs no kernel, although `flag`
/// (such as --output) asks to write the kernel to the file `path`. Its code is Unsupported.
tl::unexpected<Error> nothing_to_write(std::string_view verb, const std::string& path,
                                       const dsl::Workload& workload,
                                       std::string_view flag = "--output");

/// Returns the path in the cache at which a Session of the runtime looks for the kernel.
std::string cached_artifact(const PlaceFlags& flags, const Surroundings& here,
                            const runtime::KernelInfo& info);
Result<std::string> store_in_cache(const PlaceFlags& flags, const Surroundings& here,
                                   const runtime::Artifact& artifact);

/// Returns the command line that measures a record again, quoted for a shell: "tilewright replay
/// --db PATH HASH". The flags --team, --team-key and --shipped are repeated if they were given.
std::string replay_line(const PlaceFlags& flags, const Surroundings& here, const std::string& hash);

}  // namespace tw::tools

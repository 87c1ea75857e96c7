// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags by which a run is made on a farm, and by which this machine becomes a member of one.
// Not thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"
#include "tools/verb.h"
#include "tuner/workers/farm.h"

namespace tw::tools {

struct FarmFlags {
  std::string workers;  ///< address of the scheduler; empty: this machine measures
  std::string label;
  double patience_s = 60;
};
std::vector<Flag> flags_of(FarmFlags& flags);
/// The command that runs the package's module for farms, by an interpreter that has the package and
/// Dask.
std::vector<std::string> farm_program(const std::string& python);

/// The farm of --workers, for kernels of the target (its text; empty: that of the farm's device).
/// None: the flag is not given.
Result<std::optional<tuner::Farm>> chosen_farm(const FarmFlags& flags, const std::string& python,
                                               const std::string& target,
                                               const tuner::Environment& environment,
                                               double timeout_s);

}  // namespace tw::tools

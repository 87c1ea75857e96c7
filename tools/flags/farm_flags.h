// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of a run that measures on a farm (tuner/workers/farm.h), and the command that starts
// the client of the farm. Not thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"
#include "tools/verb.h"
#include "tuner/workers/farm.h"

namespace tw::tools {

struct FarmFlags {
  std::string workers;  ///< address of the farm's Dask scheduler; empty: this machine measures
  std::string label;
  double patience_s = 60;
};
std::vector<Flag> flags_of(FarmFlags& flags);
/// Returns the command that runs the module tilewright.farm of the Python package. `python` is the
/// path or name of an interpreter that has the package and Dask.
std::vector<std::string> farm_program(const std::string& python);

/// Opens the farm of --workers for kernels of `target`. `target` is a target's text; "host" stands
/// for the target of the members' own devices. A candidate may take at most `timeout_s` seconds to
/// be verified and measured. Returns nullopt if --workers is not given. Fails with the errors of
/// tuner::open_farm().
Result<std::optional<tuner::Farm>> chosen_farm(const FarmFlags& flags, const std::string& python,
                                               const std::string& target,
                                               const tuner::Environment& environment,
                                               double timeout_s);

}  // namespace tw::tools

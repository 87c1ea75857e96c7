// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Problem describes the kernel that is wanted: a compute, the layouts in which the caller keeps
// inputs and outputs, and the accuracy class of the result. A Problem and a Target determine a
// search space (space.h). A plain value; thread-safe to share.

#include <map>
#include <string>

#include "dsl/compute.h"
#include "dsl/workload.h"

namespace tw::schedules {

struct Problem {
  dsl::Compute compute;
  /// Layouts of inputs and outputs by tensor, as set_layout spells them ("NCHW16c"). The schedule
  /// is free to choose the layout of a tensor that is not named here.
  std::map<std::string, std::string> layouts = {};
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;
};

}  // namespace tw::schedules

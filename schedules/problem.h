// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Problem is what a schedule is asked for: a compute, the layouts in which its caller keeps
// inputs and outputs, and how exact the result must be. Together with a Target it decides a search
// space (space.h). A plain value; thread-safe to share.

#include "dsl/compute.h"
#include "dsl/layout.h"
#include "dsl/workload.h"

namespace tw::schedules {

struct Problem {
  dsl::Compute compute;
  /// Layouts of inputs and outputs, as set_layout spells them ("NCHW16c"). The schedule is free to
  /// choose the layout of a tensor that is not named here.
  dsl::Layouts layouts = {};
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;
};

inline Problem problem_of(const dsl::Workload& workload) {
  return {workload.compute, workload.layouts, workload.accuracy};
}

}  // namespace tw::schedules

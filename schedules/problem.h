// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Problem is what a schedule is asked for: a compute, the layouts in which its caller keeps
// inputs and outputs, and the state of the caches when it is called. Together with a Target it
// decides a search space (space/space.h). The accuracy class is no part of it: no order of a sum is
// known to be too inexact for a class before it is tried, and a candidate that is has the status
// `wrong`. A plain value; thread-safe to share.

#include <limits>

#include "base/result.h"
#include "dsl/compute.h"
#include "dsl/layout.h"
#include "dsl/workload.h"
#include "schedules/schedule.h"

namespace tw::schedules {

struct Problem {
  dsl::Compute compute;
  /// Layouts of inputs and outputs, as set_layout spells them ("NCHW16c"). The schedule is free to
  /// choose the layout of a tensor that is not named here.
  dsl::Layouts layouts = {};
  dsl::CacheState state = dsl::CacheState::Hot;
  /// Other algorithms than the declared sums may be used (algorithms.h).
  bool algorithms = false;
  /// Algorithms of which a larger error is to be expected are left out (Rewritten::expected_error).
  double most_error = std::numeric_limits<double>::infinity();
  /// Callers have row-major arrays, except for those in `layouts`: each call packs inputs that are
  /// not constant and unpacks outputs (dsl::keeps_arrays()).
  bool converts = false;
};

inline Problem problem_of(const dsl::Workload& workload,
                          double most_error = std::numeric_limits<double>::infinity()) {
  return {workload.compute, workload.layouts,
          workload.state,   workload.accuracy == dsl::Accuracy::Fast,
          most_error,       dsl::keeps_arrays(workload)};
}

/// Invalid if the schedule keeps a tensor in another layout than the problem asks for. Requires:
/// the schedule has no error.
Status check_layouts(const Schedule& schedule, const Problem& problem);

/// Invalid if the schedule computes by another algorithm than the declared one, and the problem
/// allows none.
Status check_algorithms(const Schedule& schedule, const Problem& problem);

}  // namespace tw::schedules

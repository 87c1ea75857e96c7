// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Problem is the input of scheduling: a compute, the layouts in which the caller keeps inputs and
// outputs, and the state of the caches when the kernel is called. A Problem and a Target determine
// a search space (space/space.h). The accuracy class is not part of a Problem. Only a run of a
// kernel shows whether its order of summation is accurate enough; if it is not, the kernel gets the
// status `wrong`. A plain value; thread-safe to share.

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
  /// choose the layout of a tensor that is not listed.
  dsl::Layouts layouts = {};
  dsl::CacheState state = dsl::CacheState::Hot;
  /// True if other algorithms than the declared sums may be used (space/algorithms.h).
  bool algorithms = false;
  /// Search spaces leave out algorithms with a larger expected error (Rewritten::expected_error).
  double most_error = std::numeric_limits<double>::infinity();
  /// True if callers keep all tensors as row-major arrays, except for those in `layouts`. If a
  /// schedule chooses another layout, each call packs the input (unless it is constant) or unpacks
  /// the output (dsl::keeps_arrays()).
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

/// Invalid if the schedule uses another algorithm than the declared one, such as Winograd's, and
/// Problem::algorithms is false.
Status check_algorithms(const Schedule& schedule, const Problem& problem);

}  // namespace tw::schedules

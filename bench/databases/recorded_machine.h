// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workers that build and run nothing: a kernel takes the time that a recording has of it
// (tuner/search/replay.h), and a trial waits as long as building and measuring one would take. So
// many runs at once can be watched on a machine of two cores. Not thread-safe.
//
// The latency of a schedule that the recording lacks is that of the recorded one with the most
// similar features, times a factor of up to 1.05 that follows from the text of the schedule: no
// two kernels are equally fast, and the best of more trials is faster.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/workload.h"
#include "tuner/search/replay.h"
#include "tuner/workers/workers.h"

namespace tw::bench {

/// The latencies of all schedules of a workload, by a recording.
class RecordedLatencies {
 public:
  /// The recording must outlive it. Requires: it has trials.
  RecordedLatencies(const tuner::Recording& recording, dsl::Workload workload);
  const dsl::Workload& workload() const { return workload_; }
  /// In ns. Invalid for a schedule that does not apply.
  Result<double> latency_ns(const std::string& schedule) const;

 private:
  const tuner::Recording& recording_;
  dsl::Workload workload_;
  std::vector<double> scales_;  ///< 1 / standard deviation of each feature, 0 for constant ones
};

/// Workers of a machine with these latencies, which must outlive them. Each trial takes `trial_s`
/// seconds. Kernels lie in `folder`.
tuner::Workers recorded_workers(const RecordedLatencies& latencies, const Target& target,
                                const std::string& folder, double trial_s);

}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Provides simulated workers, which build and run nothing. The time of a kernel comes from a
// recording (tuner/search/replay.h), and each trial waits as long as building and measuring would
// take. Waiting needs no processor, so a machine with two cores can simulate many simultaneous
// runs. Not thread-safe.
//
// The latency of a schedule is the latency of the recorded trial with the most similar features
// (its own trial, if the schedule was recorded), multiplied by a factor from 1 to 1.05 that is
// computed from the schedule's text. So hardly any two kernels are equally fast, and a search with
// more trials finds a faster kernel.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/workload.h"
#include "tuner/search/replay.h"
#include "tuner/workers/workers.h"

namespace tw::bench {

/// Computes a latency for each schedule of a workload from a recording of the workload.
class RecordedLatencies {
 public:
  /// Keeps a reference to the recording, which must outlive this object. Requires: the recording
  /// has trials.
  RecordedLatencies(const tuner::Recording& recording, dsl::Workload workload);
  const dsl::Workload& workload() const { return workload_; }
  /// Returns the latency of a schedule in ns. Fails with Invalid if the schedule does not apply to
  /// the workload.
  Result<double> latency_ns(const std::string& schedule) const;

 private:
  const tuner::Recording& recording_;
  dsl::Workload workload_;
  /// For each feature, 1 / standard deviation, or 0 if the feature is constant.
  std::vector<double> scales_;
};

/// Returns simulated workers of a machine on which kernels have the given latencies. Each trial
/// takes `trial_s` seconds. Files of kernels are written to `folder`. `latencies` must outlive the
/// workers.
tuner::Workers recorded_workers(const RecordedLatencies& latencies, const Target& target,
                                const std::string& folder, double trial_s);

}  // namespace tw::bench

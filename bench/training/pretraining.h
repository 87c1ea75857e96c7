// SPDX-License-Identifier: Apache-2.0
#pragma once
// Judges the pretrained model (cost_model/pretrained.h) on recordings that it was not trained on. A
// part of the corpus is left out, and a model is trained on the rest. The schedules that it picks
// from the recordings that were left out are compared with those that the analytic model picks.
// Pure functions; thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cost_model/pretrained.h"
#include "tuner/search/replay.h"

namespace tw::bench {

/// Says how the corpus is divided into parts. Each part is left out once: a model is trained on the
/// other parts, and judged on the part that is left out.
/// - Workloads: a part is a fifth of the workloads, on all targets.
/// - Kinds: a part is all workloads of one kind, such as "conv".
/// - Targets: a part is all recordings for one target, on all machines.
/// - Machines: a part is all recordings of one machine, for all targets.
enum class LeftOut { Workloads, Kinds, Targets, Machines };
std::string_view to_string(LeftOut left_out);  ///< "workloads", "kinds", ...

/// A model orders the trials of a recording by predicted time (cost_model::ordering_time_of). These
/// figures say how good the order is. They are geometric means over the recordings, unless the
/// comment says otherwise.
struct Picks {
  /// Speed of the trial that is first in the order, as a share of the fastest trial's.
  double first = 1;
  double least = 1;    ///< the lowest of the speeds of `first` of all recordings
  double four = 1;     ///< relative speed of the best of the four trials that the model puts first
  double diverse = 1;  ///< as `four`, for four trials that differ (tuner/search/diversity.h)
  double factor = 1;   ///< factor by which predicted times differ from measured times
};

struct Judged {
  LeftOut left_out;
  std::string kind;  ///< kind of the recordings; empty: all kinds
  int64_t recordings = 0;
  Picks analytic, pretrained;
};

/// Judges the models. The result has rows for each way of dividing the corpus: one for each kind of
/// workload, and one for all kinds. A division into a single part has no rows, for example Targets
/// if the corpus has only one target. Fails as Pretrained::train() does.
Result<std::vector<Judged>> judge_pretraining(const std::vector<tuner::Recording>& recordings);

/// Trains a model on all recordings.
Result<cost_model::Pretrained> pretrain(const std::vector<tuner::Recording>& recordings);

nlohmann::json as_json(const std::vector<Judged>& rows);
std::string as_table(const std::vector<Judged>& rows);

}  // namespace tw::bench

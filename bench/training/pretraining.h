// SPDX-License-Identifier: Apache-2.0
#pragma once
// Judges the pretrained model (cost_model/pretrained.h) on recordings on which it was not trained.
// A part of the corpus of recordings is left out, and a model is trained on the rest. From the
// recordings that were left out, this model and the analytic model each choose the schedules that
// they predict to be fastest; the choices are compared. Pure functions; thread-safe.

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

/// Says how good the order is in which a model puts the trials of a recording, by predicted time
/// (cost_model::ordering_time_of), fastest first. The figures are geometric means over the
/// recordings, unless the comment says otherwise.
struct Picks {
  /// Speed of the trial that is first in the order, divided by the speed of the fastest trial.
  double first = 1;
  double least = 1;  ///< the lowest of the values of `first` of all recordings, not a mean
  double four = 1;   ///< as `first`, for the fastest of the first four trials
  /// As `four`, for four early trials that differ from each other (tuner/search/diversity.h).
  double diverse = 1;
  double factor = 1;  ///< typical factor by which predicted times differ from measured times
};

struct Judged {
  LeftOut left_out;
  std::string kind;  ///< kind of the recordings; empty: all kinds
  int64_t recordings = 0;
  Picks analytic, pretrained;
};

/// Judges the models. The result has rows for each way of dividing the corpus (LeftOut): one row
/// for each kind of workload, and one for all kinds. If a way gives a single part, it has no rows;
/// this holds for Targets if the corpus has only one target. Fails with the errors of
/// Pretrained::train().
Result<std::vector<Judged>> judge_pretraining(const std::vector<tuner::Recording>& recordings);

/// Trains a model on all recordings.
Result<cost_model::Pretrained> pretrain(const std::vector<tuner::Recording>& recordings);

nlohmann::json as_json(const std::vector<Judged>& rows);
std::string as_table(const std::vector<Judged>& rows);

}  // namespace tw::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Judges the pretrained model (cost_model/pretrained.h) on recordings that it has not seen. Models
// are trained on the rest of the corpus, and the schedules that they pick are compared with those
// that the analytic model picks. Pure functions; thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cost_model/pretrained.h"
#include "tuner/search/replay.h"

namespace tw::bench {

/// The part of a corpus on which a model is judged and was not trained.
/// - Workloads: a fifth of the workloads, on all targets.
/// - Kinds: all workloads of one kind, such as "conv".
/// - Targets: all recordings for one target, on all machines.
/// - Machines: all recordings of one machine, for all targets.
enum class LeftOut { Workloads, Kinds, Targets, Machines };
std::string_view to_string(LeftOut left_out);  ///< "workloads", "kinds", ...

/// Quality of the order in which a model puts the trials of a recording before any of them is
/// measured (cost_model::ordering_time_of). Values are geometric means over the recordings, unless
/// stated otherwise.
struct Picks {
  /// Speed of the trial that the model puts first, relative to the fastest trial.
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

/// Judges the models. For each way of leaving out there is a row for each kind and one for all
/// kinds. Ways that leave nothing to train on have no rows, such as Targets with a corpus for a
/// single target. Errors as Pretrained::train().
Result<std::vector<Judged>> judge_pretraining(const std::vector<tuner::Recording>& recordings);

/// Trains a model on all recordings.
Result<cost_model::Pretrained> pretrain(const std::vector<tuner::Recording>& recordings);

nlohmann::json as_json(const std::vector<Judged>& rows);
std::string as_table(const std::vector<Judged>& rows);

}  // namespace tw::bench

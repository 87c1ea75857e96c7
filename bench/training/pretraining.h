// SPDX-License-Identifier: Apache-2.0
#pragma once
// Judges the pretrained model (cost_model/pretrained.h) on recordings that it has not seen: models
// are trained on the rest of the corpus, and what they pick is compared with what the analytic
// model picks. Pure functions; thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cost_model/pretrained.h"
#include "tuner/search/replay.h"

namespace tw::bench {

/// The part of a corpus that a model has not seen when it is judged.
/// - Workloads: a fifth of the workloads, on all targets.
/// - Kinds: all workloads of a kind, "conv".
/// - Targets: all recordings for a target, on all machines.
/// - Machines: all recordings of a machine, for all targets.
enum class LeftOut { Workloads, Kinds, Targets, Machines };
std::string_view to_string(LeftOut left_out);  ///< "workloads", "kinds", ...

/// The order in which a search by a model puts the trials of recordings before it has measured one
/// (cost_model::ordering_time_of); geometric means over these.
struct Picks {
  double first = 1;    ///< speed of the trial that it puts first, of the fastest one
  double least = 1;    ///< the lowest of these speeds
  double four = 1;     ///< speed of the best of the four that it puts first
  double diverse = 1;  ///< the same of four that differ (tuner/search/diversity.h)
  double factor = 1;   ///< by which its times differ from the measured ones
};

struct Judged {
  LeftOut left_out;
  std::string kind;  ///< of the recordings; empty: all kinds
  int64_t recordings = 0;
  Picks analytic, pretrained;
};

/// A row a kind, and one for all, for each way of leaving out. Ways that leave nothing to learn
/// from, as with one target, have no rows. Errors as Pretrained::train().
Result<std::vector<Judged>> judge_pretraining(const std::vector<tuner::Recording>& recordings);

/// The model of all recordings.
Result<cost_model::Pretrained> pretrain(const std::vector<tuner::Recording>& recordings);

nlohmann::json as_json(const std::vector<Judged>& rows);
std::string as_table(const std::vector<Judged>& rows);

}  // namespace tw::bench

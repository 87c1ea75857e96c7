// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repeats NeoCPU's ablation (Liu et al., ATC 2019, table 3) for one network: it measures how much
// time each way of choosing layouts and kernels saves. Each way is one row of the table. The
// kernels of all rows are tuned in the same rounds, and the plan of each row is built as a model.
// Then the models' outputs are compared, and the models are timed by turns in one process.
//
//   TW_TRY(const Ablation ablation, measure_ablation(name, graph, target, options, store, ...));
//   std::cout << as_table({ablation});
//
// Not thread-safe; only one ablation may run at a time in a process.

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/interleave.h"
#include "db/store.h"
#include "graph/plan.h"
#include "tuner/network/network.h"

namespace tw::bench {

/// The ways of choosing layouts, one for each row, in the paper's order.
inline constexpr std::array<graph::Choice, 5> ablation_choices = {
    graph::Choice::RowMajor, graph::Choice::Blocked, graph::Choice::Uniform,
    graph::Choice::LocalBest, graph::Choice::Global};

struct AblationOptions {
  tuner::TuneOptions tuning;  ///< options and budget of tuning, for all rows together
  int rounds = 10;            ///< number of rounds that time all models by turns
  uint64_t seed = 1;          ///< seed of the inputs
  /// Largest error of an output, relative to the largest value of this output.
  double tolerance = 1e-4;
};

/// The plan that one way of choosing layouts makes, and the times of its model.
struct AblationRow {
  graph::Choice choice = graph::Choice::Global;
  std::string error;  ///< reason why the model was not timed; empty if it was
  /// The sum of the times of the plan's kernels, and the sum of the times of its transforms (copies
  /// into other layouts). Each kernel and transform was timed by itself.
  double kernels_ns = 0, transforms_ns = 0;
  size_t transforms = 0;
  /// Largest difference from the outputs of the first row, relative to the largest output.
  double apart = 0;
  Median call_ns = {0, 0, 0};  ///< time of a call of the whole model
  /// The time of the first timed row divided by this row's time: the median over the rounds.
  Median speed = {1, 1, 1};

  double predicted_ns() const { return kernels_ns + transforms_ns; }
};

struct Ablation {
  std::string network;
  int threads = 1;
  std::vector<AblationRow> rows;  ///< one for each of ablation_choices
  /// Speed of Global divided by that of Uniform; 0: unknown.
  Median global_to_uniform = {0, 0, 0};
  /// Speed of Global divided by that of LocalBest; 0: unknown.
  Median global_to_local_best = {0, 0, 0};
  int rounds = 0;  ///< number of rounds that count
  /// The disturbance of the timing; empty: it was not disturbed.
  std::string disturbed;
  size_t operators = 0, schemes = 0, measured_schemes = 0;
  std::vector<tuner::NetworkRound> tuning;
};

/// Tunes, builds and times the models of all rows. A row is not timed if some of its kernels were
/// not measured or if its outputs differ from those of the first model; the reason is then in its
/// `error`. Fails with the errors of tune_network() and build_model(), and with Interrupted if the
/// user interrupts.
Result<Ablation> measure_ablation(const std::string& name, const graph::Graph& graph,
                                  const Target& target, const AblationOptions& options,
                                  db::Store& store, const tuner::Environment& environment,
                                  const tuner::OnProgress& on_progress);

/// Fills in the times and speeds of the rows that have no error. `laps` has the times of the models
/// of these rows, in the order of the rows.
void take_laps(const Laps& laps, Ablation& ablation);

nlohmann::json as_json(const std::vector<Ablation>& ablations);
std::string as_table(const std::vector<Ablation>& ablations);

}  // namespace tw::bench

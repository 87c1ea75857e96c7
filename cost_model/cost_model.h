// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost model of the tuner: orders candidates by how fast they are likely to be, from their
// features. Three models compete, each of which begins where the one before ends: the prior, which
// needs no measurement of the run (ordering_time_of), the one whose costs of resources are fitted
// to measurements (fit.h), and trees that learn what the better of these two is wrong by.
// Measurements that a model has not seen decide which one gives the scores. Three further forests,
// each of which has not seen a third of the samples, are judged on that third; where they disagree,
// little is known.
//
//   CostModel model;
//   TW_RETURN_IF_ERROR(model.add(batch));        // fits: milliseconds
//   model.learn();                               // learns trees: tenths of a second
//   Scores scores = model.predict(rows, own);    // higher = faster, within one workload
//   if (model.source() == Source::Prior) ...  // says who gave the scores
//
// The const functions may be called by several threads at once; the others by one, alone.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cost_model/booster.h"
#include "cost_model/features.h"
#include "cost_model/fit.h"
#include "cost_model/quality.h"

namespace tw::cost_model {

/// One measured candidate.
struct Sample {
  std::vector<float> features;  ///< of extract_features
  double throughput = 0;        ///< flops a second or the like; only compared within the group
  uint64_t group = 0;           ///< the workload and device
  double weight = 1;            ///< of the group's order, averaged over its samples
  bool valid = true;            ///< false: it failed to build, run or verify; throughput is ignored
  bool same_machine = true;     ///< measured on the machine that candidates are predicted for
};

/// A factor of two in throughput adds this to a score, in log-odds of the ranker. On 1,500 trials
/// of 29 odd convolutions, with a model of other layers, values of 2 to 4 put the first pick at
/// 0.90 to 0.92 of the best, and 0 puts it at 0.84. With trials of the layer itself, 2 is also
/// best.
inline constexpr double score_of_doubling = 2;

/// Scores of the rows: higher = faster, comparable within one call.
struct Scores {
  std::vector<double> mean;
  /// Standard deviation of each score. Fitted: the uncertainty that the samples leave. Learned: the
  /// deviation between the judged forests. Prior: 0.
  std::vector<double> spread;
};

enum class Source { Prior, Fitted, Learned };
std::string_view to_string(Source source);  ///< "prior", "fitted", "learned"

/// Samples that are held out to judge models by. Groups: whole workloads, as for the first pick of
/// a new workload. Samples: candidates of known workloads, as for the next batch. With fewer than 3
/// groups, Samples is used in place of Groups.
enum class HoldOut { Groups, Samples };

struct CostModelOptions {
  BoosterOptions booster;
  HoldOut hold_out = HoldOut::Groups;
  int folds = 3;
  size_t least_samples = 32;  ///< valid ones, before trees can be learned and judged
  size_t least_failures = 8;  ///< before the validity model is learned
};

/// All judged on held-out samples: prior and fitted on the same, `without_trees` and learned on
/// the same.
struct ModelQuality {
  Quality prior, fitted;
  Quality without_trees, learned;  ///< the better of these two, and with trees on top of it
  size_t samples = 0;              ///< valid ones, trained on
  size_t failures = 0;
  std::string note;  ///< why there is no learned model; empty when there is one
  /// The reason for which a part of the samples could not be judged or learned; empty: all were.
  std::string unjudged;

  /// Quality of the model that gives the scores if CostModel::source() is `source`.
  const Quality& of(Source source) const;
};

class CostModel {
 public:
  explicit CostModel(CostModelOptions options = {}) : options_(std::move(options)) {}

  /// Adds the samples and fits the costs of resources anew. Where trees give the scores, they go on
  /// doing so until learn(). A sample with a wrong number of features or a value that is not finite
  /// is refused, and all others are added. Invalid where samples were refused, with their number
  /// and the reason for the first of them.
  Status add(std::span<const Sample> samples);

  /// Learns trees anew from all samples. Where nothing can be learned from them (too few, all
  /// equal), source() is not Learned, and quality().note says why.
  void learn();

  /// Calls add() and learn(). Errors as add(), after which the model has learned the other samples.
  Status update(std::span<const Sample> samples);

  /// Scores of candidates of one workload. Knowledge of the trees from other workloads may not hold
  /// for this one: the fewer trials of the workload itself (`own`) the model has learned from, the
  /// less the trees count. Once validity is learned, a score is that of the throughput times the
  /// probability that the candidate is valid. Requires: rows of extract_features.
  Scores predict(std::span<const std::vector<float>> rows, int64_t own) const;

  /// The probability that each candidate builds, runs and verifies: learned, or before there are
  /// enough failures, the share of valid samples so far (1 without samples).
  std::vector<double> predict_valid(std::span<const std::vector<float>> rows) const;

  Source source() const { return source_; }
  const ModelQuality& quality() const { return quality_; }

  /// The models and their quality, without the samples. The file is replaced as a whole.
  Status save(const std::string& path) const;
  /// Invalid for a file that is truncated, changed, or of another feature version: learn again
  /// then. The file must be one's own: its hash guards against accidents, not against malice.
  static Result<CostModel> load(const std::string& path, CostModelOptions options = {});

 private:
  void fit();
  void learn_order();
  void learn_validity();
  void discount_failures(std::span<const std::vector<float>> rows,
                         std::vector<double>& scores) const;
  std::vector<double> spread(const Matrix& rows) const;

  CostModelOptions options_;
  std::vector<Sample> samples_;
  Fit fit_;                        ///< of all samples
  std::optional<Fit> base_;        ///< where the ranker begins; none: at the prior
  std::optional<Booster> ranker_;  ///< what that is wrong by: its scores are added
  std::vector<Booster> judged_;    ///< of the folds
  std::optional<Booster> validity_;
  Source source_ = Source::Prior;
  bool has_tried_trees_ = false;  ///< quality_.note says what came of it
  ModelQuality quality_;
};

}  // namespace tw::cost_model

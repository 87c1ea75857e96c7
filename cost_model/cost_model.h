// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost model of the tuner: orders candidates by how fast they are likely to be, from their
// features. It learns from measurements, judges itself on measurements that it has not seen, and
// stays with the draft model (cost_model/draft.h) for as long as that one orders better. Its scores
// are the draft's plus what trees learned about the draft's errors. Three further models, each of
// which has not seen a third of the samples, are judged on that third; where they disagree little
// is known.
//
//   CostModel model;
//   TW_RETURN_IF_ERROR(model.update(samples));           // measured so far, of any workloads
//   Scores scores = model.predict(rows, own);            // higher = faster, within one workload
//   if (model.source() == Source::Draft) ...             // says who gave the scores
//
// The const functions may be called by several threads at once; update() by one, alone.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cost_model/booster.h"
#include "cost_model/features.h"
#include "cost_model/quality.h"

namespace tw::cost_model {

/// One measured candidate.
struct Sample {
  std::vector<float> features;  ///< of extract_features
  double throughput = 0;        ///< flops a second or the like; only compared within the group
  uint64_t group = 0;           ///< the workload and device
  double weight = 1;            ///< of the group's order, averaged over its samples
  bool valid = true;            ///< false: it failed to build, run or verify; throughput is ignored
};

/// Of each row, higher = faster; comparable within one call.
struct Scores {
  std::vector<double> mean;
  std::vector<double> spread;  ///< standard deviation between the models judged; 0 from the draft
};

enum class Source { Draft, Learned };
std::string_view to_string(Source source);  ///< "draft", "learned"

/// What is held out to judge by. Groups: whole workloads, as for the first pick of a new one; with
/// fewer than 3 groups, and for Samples: candidates of known workloads, as for the next batch.
enum class HoldOut { Groups, Samples };

struct CostModelOptions {
  BoosterOptions booster;
  HoldOut hold_out = HoldOut::Groups;
  int folds = 3;
  size_t least_samples = 32;  ///< valid ones, before learning starts
  size_t least_failures = 8;  ///< before the validity model is learned
};

/// Both judged on the same held-out samples.
struct ModelQuality {
  Quality learned, draft;
  size_t samples = 0;  ///< valid ones, trained on
  size_t failures = 0;
  std::string note;  ///< why there is no learned model; empty when there is one
};

class CostModel {
 public:
  explicit CostModel(CostModelOptions options = {}) : options_(std::move(options)) {}

  /// Adds the samples and learns anew from all. Samples that nothing can be learned from (too few,
  /// all equal) are no error: source() stays Draft and quality().note says why. Invalid, and
  /// nothing is added, when a sample has a wrong number of features or a value that is not finite.
  Status update(std::span<const Sample> samples);

  /// Of candidates of one workload. What trees learned from other workloads may not hold for it:
  /// the fewer trials of its own, `own`, the model has learned from, the more the draft counts.
  /// What is likely to fail counts for less: scores are of throughput times the probability to be
  /// valid, once that is learned. Requires: rows of extract_features.
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
  void learn_order();
  void learn_validity();
  void discount_failures(std::span<const std::vector<float>> rows,
                         std::vector<double>& scores) const;
  std::vector<double> spread(const Matrix& rows) const;

  CostModelOptions options_;
  std::vector<Sample> samples_;
  std::optional<Booster> ranker_;  ///< what the draft is wrong by: the draft is added to its scores
  std::vector<Booster> judged_;    ///< of the folds
  std::optional<Booster> validity_;
  Source source_ = Source::Draft;
  ModelQuality quality_;
};

}  // namespace tw::cost_model

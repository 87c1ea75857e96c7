// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost model of the tuner: orders candidates by how fast they are likely to be, from their
// features. It begins with the times that are expected before anything is measured
// (ordering_time_of). What was measured corrects them (corrections.h), and trees learn from
// failures how likely a candidate is to work.
//
//   CostModel model;
//   TW_RETURN_IF_ERROR(model.add(batch));
//   TW_RETURN_IF_ERROR(model.learn_failures());
//   const WorkloadModel of_layer = model.for_group(group);       // tens of milliseconds
//   const std::vector<double> scores = of_layer.predict(rows);   // higher = faster
//
// The const functions may be called by several threads at once; the others by one, alone.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cost_model/booster.h"
#include "cost_model/corrections.h"
#include "cost_model/features.h"

namespace tw::cost_model {

/// One measured candidate.
struct Sample {
  std::vector<float> features;  ///< of extract_features
  double throughput = 0;        ///< flops a second or the like; only compared within the group
  uint64_t group = 0;           ///< the workload and device
  bool valid = true;            ///< false: it failed to build, run or verify; throughput is ignored
  bool same_machine = true;     ///< measured on the machine that candidates are predicted for
};

/// The cost model of one workload. A value, which does not change with the model that gave it.
class WorkloadModel {
 public:
  /// Nothing is measured.
  WorkloadModel() = default;
  WorkloadModel(Corrections corrections, std::shared_ptr<const Booster> validity)
      : corrections_(std::move(corrections)), validity_(std::move(validity)) {}

  /// Scores of candidates: log2 of their throughput, up to a constant of the workload. Once
  /// failures are learned, they are of the throughput times the probability that the candidate is
  /// valid. Requires: rows of extract_features.
  std::vector<double> predict(std::span<const std::vector<float>> rows) const;

  /// The order of the trials of the workload, and its rank correlations.
  const LeaveOneOut& leave_one_out() const { return corrections_.leave_one_out(); }

 private:
  Corrections corrections_;
  std::shared_ptr<const Booster> validity_;  ///< null until failures are learned
};

class CostModel {
 public:
  /// Adds the samples. One with a wrong number of features or a value that is not finite is
  /// refused, and all others are added. Invalid where samples were refused, with their number and
  /// the reason for the first of them.
  Status add(std::span<const Sample> samples);

  /// Learns trees of what fails, which takes tenths of a second. Does nothing with fewer than eight
  /// failures or eight successes, nor until the samples have doubled, or are 128 and a quarter
  /// more, since it last did. Errors as Booster::train().
  Status learn_failures();

  /// The model of the workload and device of a group. Trials of other groups correct it too, as far
  /// as their kernels are similar, or the machine is the same.
  WorkloadModel for_group(uint64_t group) const;

  size_t valid_samples() const { return valid_; }
  size_t failures() const { return samples_.size() - valid_; }

 private:
  std::vector<Sample> samples_;
  size_t valid_ = 0;
  size_t failures_learned_at_ = 0;  ///< number of samples
  std::shared_ptr<const Booster> validity_;
};

}  // namespace tw::cost_model

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost model of the tuner orders candidates by their likely speed, which it predicts from their
// features. It starts from the times that are predicted before anything is measured
// (ordering_time_of()). Measured kernels correct these times (corrections.h). Decision trees,
// trained on candidates that succeeded or failed, predict the probability that a candidate builds,
// runs and verifies.
//
//   CostModel model;
//   TW_RETURN_IF_ERROR(model.add(batch));
//   TW_RETURN_IF_ERROR(model.learn_failures());
//   const WorkloadModel of_layer = model.for_group(group);       // tens of milliseconds
//   const std::vector<double> scores = of_layer.predict(rows);   // higher = faster
//
// Several threads may call const functions at once. Other functions must not run at the same time
// as any function.

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
  std::vector<float> features;  ///< row of extract_features()
  /// Speed in any unit, such as flops per second. It is compared only with samples of the same
  /// group.
  double throughput = 0;
  uint64_t group = 0;  ///< identifies the workload and device
  /// False if the candidate failed to build, run or verify; throughput is then ignored.
  bool valid = true;
  bool same_machine = true;  ///< true if measured on the machine for which candidates are predicted
};

/// The cost model of one workload on one device. It is a value: later changes of the CostModel that
/// made it do not affect it.
class WorkloadModel {
 public:
  /// Makes a model without measurements.
  WorkloadModel() = default;
  WorkloadModel(Corrections corrections, std::shared_ptr<const Booster> validity)
      : corrections_(std::move(corrections)), validity_(std::move(validity)) {}

  /// Returns the score of each candidate: log2 of its expected throughput, up to a constant that is
  /// the same for all candidates of the workload. Once failures are learned, the throughput is
  /// first multiplied by the probability that the candidate is valid. Requires: rows of
  /// extract_features().
  std::vector<double> predict(std::span<const std::vector<float>> rows) const;

  /// Returns the quality of the order in which the model puts the trials of the workload
  /// (corrections.h).
  const LeaveOneOut& leave_one_out() const { return corrections_.leave_one_out(); }

 private:
  Corrections corrections_;
  std::shared_ptr<const Booster> validity_;  ///< null until failures are learned
};

class CostModel {
 public:
  /// Adds samples. A sample is refused if it has a wrong number of features, a feature that is not
  /// finite, or, if it is valid, a throughput that is not finite and positive. The other samples
  /// are added all the same. Fails with Invalid if samples were refused: the message has their
  /// number and the reason for the first of them.
  Status add(std::span<const Sample> samples);

  /// Trains the trees that predict failures, which takes tenths of a second. Does nothing if there
  /// are fewer than eight failures or fewer than eight successes. After a training it trains again
  /// only once the number of samples has doubled, or has grown by a quarter plus 128, whichever is
  /// sooner. Fails if Booster::train() fails.
  Status learn_failures();

  /// Returns the model for the workload and device of a group. Trials of other groups also correct
  /// this model, as far as their kernels are similar or were measured on the same machine.
  WorkloadModel for_group(uint64_t group) const;

  size_t valid_samples() const { return valid_; }
  size_t failures() const { return samples_.size() - valid_; }

 private:
  std::vector<Sample> samples_;
  size_t valid_ = 0;
  size_t failures_learned_at_ = 0;  ///< number of samples at the last training
  std::shared_ptr<const Booster> validity_;
};

}  // namespace tw::cost_model

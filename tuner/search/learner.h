// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost model of a run. It notes the samples from which it cannot learn. Not thread-safe.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cost_model/cost_model.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

class Learner {
 public:
  /// Adds samples, and retrains the prediction of failures when that is due. A note is made of
  /// samples that the model refuses, and of failures from which it cannot learn; `notes` may be
  /// null.
  void learn(const std::vector<cost_model::Sample>& samples, Notes* notes);

  /// As CostModel::for_group().
  cost_model::WorkloadModel for_group(uint64_t group) const { return model_.for_group(group); }
  /// Number of samples that the model has.
  size_t samples() const { return model_.valid_samples() + model_.failures(); }

  /// Hashes of the records that the model has learned from.
  std::set<std::string>& records() { return records_; }

 private:
  cost_model::CostModel model_;
  std::set<std::string> records_;
};

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cost model of a run, as an object that adds a note if the model cannot learn from samples.
// Not thread-safe.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cost_model/cost_model.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

class Learner {
 public:
  /// Adds samples to the model, and trains its prediction of failures again when that is due.
  /// `notes`, which may be null, gets a note if the model refuses samples or cannot learn from
  /// failures.
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

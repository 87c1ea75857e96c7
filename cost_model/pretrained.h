// SPDX-License-Identifier: Apache-2.0
#pragma once
// A pretrained model: trees that are trained once, on a corpus of trials of random workloads. They
// predict the factor by which a kernel takes longer than the analytic model says. The trees also
// read the numbers of the machine (caches, ports, clock), so trees that were trained on several
// machines can also predict for other machines.
//
//   TW_TRY(const Pretrained model, Pretrained::train(trials));
//   TW_TRY(const std::vector<double> log2_ns, model.times(rows, target.machine));
//
// Values are immutable; thread-safe.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/result.h"
#include "cost_model/booster.h"

namespace tw::cost_model {

/// A measured kernel of a corpus.
struct CorpusTrial {
  std::span<const float> features;  ///< row of extract_features()
  const Machine* machine;           ///< the machine on which it was measured
  double ns = 0;
  /// The shortest time of all trials of the workload. Trials near this time weigh more in training,
  /// because it matters most to tell the fast schedules apart.
  double best_ns = 0;
};

class Pretrained {
 public:
  /// Trains a model. The same trials give the same model, byte for byte. Fails as Booster::train()
  /// does: with Invalid if nothing can be learned from the trials, and with Environment if XGBoost
  /// is not installed.
  static Result<Pretrained> train(std::span<const CorpusTrial> trials);

  /// Reads a model that to_bytes() wrote. Fails with Invalid if the bytes are truncated or changed,
  /// or if the model is of another version or for another version of the features. Fails with
  /// Environment if XGBoost is not installed. Requires: bytes whose origin the caller trusts,
  /// because the hash guards against accidents, not against malice.
  static Result<Pretrained> from_bytes(std::string_view bytes);
  const std::string& to_bytes() const { return bytes_; }

  /// Returns the name of the model: the first 16 hex digits of the hash of its bytes.
  const std::string& name() const { return name_; }

  /// Predicts the time of each kernel on a machine, as log2(1 + ns). Fails if Booster::predict()
  /// fails. Requires: rows of extract_features() for this machine.
  Result<std::vector<double>> times(std::span<const std::vector<float>* const> rows,
                                    const Machine& machine) const;

 private:
  Pretrained(Booster booster, std::string bytes);

  Booster booster_;
  std::string bytes_;
  std::string name_;
};

}  // namespace tw::cost_model

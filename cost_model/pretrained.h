// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trees that are trained once, on a corpus of trials: by what factor kernels take longer than the
// analytic model says. The numbers of the machine are among what they read. A model that knows
// several machines so speaks of those that it has not seen.
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
  std::span<const float> features;  ///< of extract_features
  const Machine* machine;           ///< that it was measured on
  double ns = 0;
  /// The shortest time of its workload. Trials count the more the closer they are to it: which of
  /// the fast schedules is the fastest matters most.
  double best_ns = 0;
};

class Pretrained {
 public:
  /// The same trials give the same model, byte for byte. Invalid where nothing can be learned;
  /// Environment without XGBoost.
  static Result<Pretrained> train(std::span<const CorpusTrial> trials);

  /// The model that to_bytes() wrote. Invalid for bytes that are truncated, changed, or of another
  /// version of the features. The bytes must be one's own: the hash guards against accidents, not
  /// against malice.
  static Result<Pretrained> from_bytes(std::string_view bytes);
  const std::string& to_bytes() const { return bytes_; }

  /// The first 16 hex digits of the hash of its bytes.
  const std::string& name() const { return name_; }

  /// The expected times, log2 ns, of kernels on the machine. Requires: rows of extract_features.
  Result<std::vector<double>> times(std::span<const std::vector<float>* const> rows,
                                    const Machine& machine) const;

 private:
  Pretrained(Booster booster, std::string bytes);

  Booster booster_;
  std::string bytes_;
  std::string name_;
};

}  // namespace tw::cost_model

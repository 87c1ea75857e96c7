// SPDX-License-Identifier: Apache-2.0
#pragma once
// A cache of predictions (predictor.h) in a file, so that the next run need not repeat them. A
// prediction depends on the workload, the target and its machine, the number of threads and the
// code that predicts. The file is keyed by the workload and names all others; it is replaced if one
// of them differs.
//
//   PredictionCache cache = PredictionCache::open(path, predictor_version(target, threads));
//   const Predict predict = cache.remembering(predict_for(target, threads, stop));
//   ...
//   TW_RETURN_IF_ERROR(cache.write());
//
// Thread-safe.

#include <limits>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "tuner/network/predictor.h"

namespace tw::tuner {

class PredictionCache {
 public:
  /// Empty where the file is absent, damaged, of another version or not private to the user. A file
  /// is not written where `path` is empty.
  static PredictionCache open(std::string path, std::string version);

  /// Answers from the cache, else asks `predict` and remembers its answer, unless it is an error.
  /// The result may outlive the cache. Predictions under different `most_error` (predict_for()) are
  /// kept apart.
  Predict remembering(Predict predict,
                      double most_error = std::numeric_limits<double>::infinity()) const;

  /// Replaces the file, where something was added since it was read. Environment where it cannot be
  /// written.
  Status write() const;

 private:
  struct State;
  explicit PredictionCache(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

/// The version of predictions: a text of everything but the workload that they depend on. Two
/// builds of the code differ.
std::string predictor_version(const Target& target, int threads);

/// The file in a cache directory for predictions of a target and a number of threads.
std::string predictions_file(const std::string& cache, const Target& target, int threads);

}  // namespace tw::tuner

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps predictions (predictor.h) in a file, so that the next run need not repeat them. A
// prediction depends on the workload, the target and its machine, the number of threads, and the
// code that predicts. The key of an entry is the workload. The file has a version, a text of
// everything else. A file with another version counts as empty, and is replaced.
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
  /// Reads the file. The cache is empty if the file is missing or damaged, has another version than
  /// `version`, or is not private to the user. If `path` is empty, no file is read or written.
  static PredictionCache open(std::string path, std::string version);

  /// Returns a function that answers from the cache. If the cache has no prediction for the
  /// workload, or has a rough prediction and a full one is asked for, the function calls `predict`
  /// and remembers the answer. Errors are not remembered. The function may outlive the cache.
  /// Predictions with different values of `most_error` (predict_for()) are kept apart.
  Predict remembering(Predict predict,
                      double most_error = std::numeric_limits<double>::infinity()) const;

  /// Writes the file if predictions were added since it was read or written. Fails with Environment
  /// if the file cannot be written.
  Status write() const;

 private:
  struct State;
  explicit PredictionCache(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

/// Returns the version of predictions: a text of the target, its machine, the number of threads and
/// the build of this code. Two builds of the code have different versions.
std::string predictor_version(const Target& target, int threads);

/// Returns the path of the file in the directory `cache` that keeps the predictions for a target
/// and a number of threads.
std::string predictions_file(const std::string& cache, const Target& target, int threads);

}  // namespace tw::tuner

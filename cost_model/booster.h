// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gradient-boosted trees by XGBoost: training, prediction, and conversion to and from bytes.
// Training uses one thread, and gives the same bytes for the same rows and seed. No exception is
// thrown: an error of XGBoost becomes an Error with its message. A trained Booster is immutable;
// several threads may call predict() at once.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::cost_model {

/// The number that the trees predict for a row. Regression: its label. Probability: the probability
/// that its label is 1, for labels that are 0 or 1.
enum class Objective { Regression, Probability };

struct BoosterOptions {
  Objective objective = Objective::Regression;
  int rounds = 80;
  int depth = 6;
  int bins = 32;
  double learning_rate = 0.15;
  uint64_t seed = 0;
};

/// A matrix, whose rows are consecutive in memory.
class Matrix {
 public:
  explicit Matrix(size_t columns) : columns_(columns) {}
  /// Appends a row. Requires: row.size() == columns().
  void append(std::span<const float> row);
  void reserve(size_t rows) { values_.reserve(rows * columns_); }
  size_t columns() const { return columns_; }
  size_t rows() const { return columns_ == 0 ? 0 : values_.size() / columns_; }
  const std::vector<float>& values() const { return values_; }

 private:
  size_t columns_;
  std::vector<float> values_;
};

struct TrainingSet {
  explicit TrainingSet(size_t columns) : rows(columns) {}
  Matrix rows;
  std::vector<float> labels;   ///< one for each row
  std::vector<float> weights;  ///< one for each row; empty: all rows weigh the same
};

class Booster {
 public:
  /// Trains trees. Fails with Invalid if there are fewer than two rows, if all labels are equal, if
  /// no weight is positive, if a value is not finite, or if the sizes of `data` do not match. Fails
  /// with Environment if XGBoost is not installed, and with Internal if XGBoost reports an error.
  static Result<Booster> train(const TrainingSet& data, const BoosterOptions& options);
  /// Makes a Booster from bytes that to_bytes() returned. Fails with Environment if XGBoost is not
  /// installed. Requires: the bytes are unchanged. The caller has to check a hash of the bytes
  /// first, because XGBoost's parser trusts its input.
  static Result<Booster> from_bytes(std::string_view bytes);

  /// Predicts one finite value for each row: the label or a probability, as the Objective says.
  /// Fails with Internal if rows do not have columns() numbers, or if XGBoost fails or predicts a
  /// value that is not finite.
  Result<std::vector<float>> predict(const Matrix& rows) const;
  Result<std::string> to_bytes() const;
  size_t columns() const { return columns_; }

 private:
  struct Free {
    void operator()(void* handle) const;
  };
  using Handle = std::unique_ptr<void, Free>;
  Booster(Handle handle, size_t columns) : handle_(std::move(handle)), columns_(columns) {}

  Handle handle_;
  size_t columns_;
};

}  // namespace tw::cost_model

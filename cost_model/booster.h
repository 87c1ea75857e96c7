// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gradient-boosted trees by XGBoost: train, predict, to and from bytes. One thread, and the same
// bytes for the same rows and seed. Nothing is thrown: what XGBoost refuses is an Error with its
// message. A trained Booster is immutable; predict() may be called by several threads at once.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::cost_model {

/// Regression: the label itself. Probability: of the label being 1.
enum class Objective { Regression, Probability };

struct BoosterOptions {
  Objective objective = Objective::Regression;
  int rounds = 80;
  int depth = 6;
  int bins = 32;
  double learning_rate = 0.15;
  uint64_t seed = 0;
};

/// Rows of equal length, one after the other in memory.
class Matrix {
 public:
  explicit Matrix(size_t columns) : columns_(columns) {}
  /// Requires: row.size() == columns().
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
  std::vector<float> labels;   ///< one a row
  std::vector<float> weights;  ///< one a row, or empty
};

class Booster {
 public:
  /// Fails on fewer than two rows, labels that are all equal, weights that are all zero, values
  /// that are not finite, and sizes that do not match: nothing can be learned, or something is
  /// wrong.
  static Result<Booster> train(const TrainingSet& data, const BoosterOptions& options);
  /// Requires: bytes of to_bytes(), unchanged. XGBoost's parser trusts its input, so the caller
  /// checks a hash first.
  static Result<Booster> from_bytes(std::string_view bytes);

  /// One value a row, in the label's unit. All are finite.
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

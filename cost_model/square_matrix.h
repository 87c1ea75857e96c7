// SPDX-License-Identifier: Apache-2.0
#pragma once
// A square matrix of doubles, as a plain value.

#include <cstddef>
#include <span>
#include <vector>

namespace tw::cost_model {

struct SquareMatrix {
  explicit SquareMatrix(size_t rows) : size(rows), values(rows * rows, 0.0) {}
  std::span<double> row(size_t i) { return std::span(values).subspan(i * size, size); }
  double& at(size_t i, size_t j) { return values[i * size + j]; }

  size_t size;
  std::vector<double> values;  ///< row by row
};

}  // namespace tw::cost_model

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Axes for computes that reduce some dimensions of a tensor. A normalization, for example, reduces
// rows and then computes each element from the element and the result of its row. Private to
// graph/onnx.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {

/// A tensor of which some dimensions are reduced. A row is the set of elements that are reduced
/// together. If dimension 1 of the shape [2, 3, 4] is reduced, `kept` has axes of extents 2 and 4,
/// `over` has an axis of extent 3, and there are 8 rows of 3 elements.
struct Rows {
  Shape shape;
  std::vector<Axis> all;  ///< one axis for each dimension of the tensor
  /// The axes of `all` whose dimensions are not reduced. Their values select a row.
  std::vector<Axis> kept;
  /// Axes over the elements of a row; one axis of extent 1 if nothing is reduced.
  std::vector<Axis> over;
  std::vector<size_t> reduced;

  Rows(const Shape& tensor_shape, std::vector<size_t> reduced_dimensions)
      : shape(tensor_shape), all(axes_of(tensor_shape)), reduced(std::move(reduced_dimensions)) {
    const std::vector<Axis> inner = axes_of(shape, "r");
    for (size_t i = 0; i < shape.size(); ++i)
      (is_reduced(i) ? over : kept).push_back(is_reduced(i) ? inner[i] : all[i]);
    if (over.empty()) over.emplace_back("r", 1);
  }

  bool is_reduced(size_t dimension) const {
    return std::ranges::find(reduced, dimension) != reduced.end();
  }
  /// Returns the indices of an element of the tensor, for a stage over the axes `kept` that reduces
  /// the axes `over`. In the example above these are the axes of extents 2, 3 and 4, in this order.
  std::vector<Expr> element() const {
    std::vector<Expr> indices;
    auto row = kept.begin(), inside = over.begin();
    for (size_t i = 0; i < shape.size(); ++i)
      indices.emplace_back(is_reduced(i) ? *inside++ : *row++);
    return indices;
  }
  /// Number of elements of a row.
  int64_t length() const {
    int64_t product = 1;
    for (const Axis& axis : over) product *= axis.extent;
    return product;
  }
  /// Returns the axes of a result with one element for each row. Reduced dimensions have extent 1
  /// if `keeps_dimensions`, else they are left out.
  std::vector<Axis> result(bool keeps_dimensions) const {
    if (!keeps_dimensions) return kept;
    std::vector<Axis> axes = all;
    for (const size_t dimension : reduced) axes[dimension].extent = 1;
    return axes;
  }
};

}  // namespace tw::graph::onnx

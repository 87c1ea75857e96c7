// SPDX-License-Identifier: Apache-2.0
#pragma once
// A view is the result of a reshape or transpose that shares the array of its input, because the
// layouts of input and result place each element at the same offset (XLA: bitcast). In each
// example, one array is two tensors:
//
//   [1, 64, 8, 2, 8, 2] as ABCDEF16b   is   [1, 64, 16, 16] as ABCD16b
//   [1, 32, 4, 8, 8]    as ABDE4bC     is   [1, 128, 8, 8]  as ABCD16b
//   [1, 64, 8, 8]       as ACDB, transposed to [1, 8, 8, 64], is row-major
//
// Pure functions; thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dsl/layout.h"

namespace tw::graph {

/// A tensor of shape `from` has the layout `layout` and is reshaped to the shape `to`. Returns the
/// layout in which the result is a view of the tensor's array. nullopt if no layout describes this
/// view, because a dimension of `to` would be split in a way that layouts cannot express, or
/// because padding would lie inside of a dimension. Requires: the layout has the rank of `from`;
/// both shapes have the same number of elements.
std::optional<dsl::Layout> through_reshape(const std::vector<int64_t>& from,
                                           const dsl::Layout& layout,
                                           const std::vector<int64_t>& to);

/// A tensor has the layout `layout` and is transposed: its dimension i becomes dimension
/// positions[i] of the result, as in as_transpose(). Returns the layout in which the result is a
/// view of the tensor's array.
dsl::Layout through_transpose(const dsl::Layout& layout, const std::vector<size_t>& positions);

}  // namespace tw::graph

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Views: reshapes and transposes that move nothing, because the layouts of input and output put
// equal elements at equal offsets (XLA calls such an operator a bitcast):
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

/// The layout under which the reshaped tensor, of shape `to`, is a view of the array of a tensor of
/// shape `from` with `layout`. nullopt if no layout describes this view, because a dimension of
/// `to` would be split in a way that layouts cannot express, or because padding would lie inside of
/// a dimension. Requires: the layout has the rank of `from`; both shapes have the same number of
/// elements.
std::optional<dsl::Layout> through_reshape(const std::vector<int64_t>& from,
                                           const dsl::Layout& layout,
                                           const std::vector<int64_t>& to);

/// The layout under which the transpose of a tensor with `layout` is a view of the tensor's array.
/// Dimension i of the tensor is dimension positions[i] of the transpose, as in as_transpose().
dsl::Layout through_transpose(const dsl::Layout& layout, const std::vector<size_t>& positions);

}  // namespace tw::graph

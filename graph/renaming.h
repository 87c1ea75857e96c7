// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layouts through operators that only rename elements. A reshape or a transpose moves nothing where
// the layouts of its input and its output put equal elements at equal offsets:
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

/// The layout by which a tensor of shape `to` lies as one of shape `from` with `layout` does, where
/// both have the same elements in row-major order. nullopt where there is none: dimensions of `to`
/// would lie in pieces that no layout has, or padding would lie within them.
/// Requires: the layout is of the rank of `from`; shapes of equal size.
std::optional<dsl::Layout> through_reshape(const std::vector<int64_t>& from,
                                           const dsl::Layout& layout,
                                           const std::vector<int64_t>& to);

/// The layout by which the transpose of a tensor with `layout` lies as the tensor does. Dimension i
/// of the tensor is dimension positions[i] of the transpose, as as_transpose() says it.
dsl::Layout through_transpose(const dsl::Layout& layout, const std::vector<size_t>& positions);

}  // namespace tw::graph

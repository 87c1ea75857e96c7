// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which operands of a product TMA can copy, from the structure of the stage. GPU search
// spaces offer TMA copies for these operands only. Pure and thread-safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedules/space/stage_plan.h"

namespace tw::schedules {

/// The direction along which elements of an operand are neighbours in memory.
///   Terms: an element is followed by the next term of the same row or column.
///   Rows: an element is followed by the same term of the next row (first operand) or column
///     (second).
///   None: TMA cannot copy blocks of the operand.
enum class TmaNeighbours { None, Terms, Rows };

/// The form of the TMA copies of an operand's blocks.
///
/// Most operands are matrices: one stride leads from each row to the next, even if the rows are
/// several axes that were fused. The pixels of a padded image have no such stride, so not every
/// block of them is a box. A block of pixels is a box if each axis is tiled separately. For
/// example, a block of an image in[n, y, x, c] may be a box of 8 by 8 pixels of two images, with 64
/// channels of each pixel:
///
///     in[n.0 * 2 + n.1, y.0 * 8 + y.1 + r - 1, x.0 * 8 + x.1 + s - 1, c.0 * 64 + c.1]
struct TmaChoice {
  /// An axis of the operand that is a dimension of the box.
  struct Axis {
    std::string name;
    int64_t least_tile = 1;  ///< smallest extent of a box along the axis
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  TmaNeighbours neighbours = TmaNeighbours::None;
  /// The axes of the operand's rows (or columns) that must be tiled separately, outermost first,
  /// without axes of extent 1; empty for a matrix. Only operands whose neighbours are terms have
  /// such axes.
  std::vector<Axis> axes = {};
  friend bool operator==(const TmaChoice&, const TmaChoice&) = default;
};

/// The form of the copies of operand 0 or 1 if the tensors have these layouts. A tensor that is not
/// listed is row-major. Requires: the stage is a product.
TmaChoice tma_choice(const ComputePlan& compute, const StagePlan& plan, size_t operand,
                     const std::map<std::string, dsl::Layout>& layouts);

/// A tensor, and a layout for it in which the terms of the main reduction are contiguous: OHWI for
/// weights OIHW. layout_along_terms() finds it for operand 0 or 1. Both texts are empty unless the
/// tensor is a constant that no other stage reads, and the problem leaves its layout free.
/// Requires: the stage is a product.
struct ChosenLayout {
  std::string tensor, text;
};
ChosenLayout layout_along_terms(const ComputePlan& compute, const StagePlan& plan, size_t operand);

}  // namespace tw::schedules

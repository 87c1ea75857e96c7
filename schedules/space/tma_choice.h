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

/// The way in which TMA copies the blocks of an operand.
///
/// Most operands are matrices: the distance in memory from each row to the next is the same, even
/// if the rows are several axes that were fused. The pixels of a padded image have no such stride,
/// so not every block of them is a box. A block of pixels is a box if each axis is tiled
/// separately. For example, a block of an image in[n, y, x, c] may be a box of 8 by 8 pixels of two
/// images, with 64 channels of each pixel:
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

/// Returns how TMA copies operand 0 or 1 of the product if the tensors have these layouts. A tensor
/// that is not in `layouts` is row-major. Requires: the stage is a product.
TmaChoice tma_choice(const ComputePlan& compute, const StagePlan& plan, size_t operand,
                     const std::map<std::string, dsl::Layout>& layouts);

/// A tensor and the text of a layout in which its terms of the main reduction are contiguous, such
/// as OHWI for weights OIHW. layout_along_terms() returns such a layout for the tensor of operand 0
/// or 1. It returns two empty texts if the tensor is not a constant input, if another stage reads
/// the tensor, if the problem asks for its layout, or if the main reduction is not in the index of
/// exactly one dimension. Requires: the stage is a product.
struct ChosenLayout {
  std::string tensor, text;
};
ChosenLayout layout_along_terms(const ComputePlan& compute, const StagePlan& plan, size_t operand);

}  // namespace tw::schedules

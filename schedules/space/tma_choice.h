// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which operands of a product TMA can copy, from the structure of the stage. Search spaces
// for GPUs offer TMA copies for these operands only. Pure and thread-safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedules/space/stage_plan.h"

namespace tw::schedules {

/// The direction along which elements of an operand are contiguous in memory.
///   Terms: along the reduction.
///   Rows: along rows, or, for the second operand, columns.
///   None: TMA cannot copy blocks of the operand.
enum class TmaNeighbours { None, Terms, Rows };

/// The form of the TMA copies of an operand's blocks.
///
/// Most operands are matrices, whose rows have one stride even if several axes are fused to rows.
/// The pixels of a padded image have no common stride. Its blocks are boxes if each axis is tiled
/// separately. For example, an image in[n, y, x, c] is copied by rectangles of 8 by 8 pixels of two
/// images:
///
///     in[n.0 * 2 + n.1, y.0 * 8 + y.1 + r - 1, x.0 * 8 + x.1 + s - 1, c.0 * 64 + c.1]
struct TmaChoice {
  /// An axis that is a dimension of the box.
  struct Axis {
    std::string name;
    int64_t least_tile = 1;  ///< smallest extent of a box along it
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  TmaNeighbours neighbours = TmaNeighbours::None;
  /// The axes of the operand's rows (or columns) that must be tiled separately, outermost first,
  /// without axes of extent 1; empty for a matrix. Only operands whose neighbours are terms have
  /// such axes.
  std::vector<Axis> axes = {};
  friend bool operator==(const TmaChoice&, const TmaChoice&) = default;
};

/// The form of the copies of operand 0 or 1 if tensors have these layouts; a tensor that is not
/// listed is row-major. Requires: the stage is a product.
TmaChoice tma_choice(const ComputePlan& compute, const StagePlan& plan, size_t operand,
                     const std::map<std::string, dsl::Layout>& layouts);

/// A layout for the tensor of an operand in which the terms of the main reduction are contiguous:
/// OIHW -> OHWI. It exists only for a constant that no other stage reads and whose layout the
/// problem leaves free; otherwise the text is empty. Requires: the stage is a product.
struct ChosenLayout {
  std::string tensor, text;
};
ChosenLayout layout_along_terms(const ComputePlan& compute, const StagePlan& plan, size_t operand);

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of the factors of a sum of products. The steps pack_factors and pad_factors share this
// code. Private to schedules/. Not thread-safe for one nest.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/steps/editing.h"

namespace tw::schedules {

/// A factor that reads an element of a tensor, and the copy that is made of the tensor. The vectors
/// have an entry for each dimension of the tensor, in the order of the tensor.
struct CopiedFactor {
  dsl::Read read;               ///< the read of the tensor in the factor
  size_t last;                  ///< index of the dimension that is last in the copy
  DType type = {};              ///< element type of the copy
  std::vector<int64_t> before;  ///< the number of zeros before the elements
  /// extents of the copy: those of the tensor plus the numbers of zeros before and after
  std::vector<int64_t> shape;
};

/// Finds the stage of that name. Fails if there is no such stage, if a step was applied to it
/// before, if it is a scan, or if it does not reduce over the axis.
Result<StageNest*> fresh_stage_along(Nest& nest, std::string_view step, const std::string& stage,
                                     const std::string& axis);

/// Analyses a factor. The factor must be an element of a tensor, possibly converted to another
/// type. One index of the element must be the axis itself, and no other index may use the axis. The
/// dimension of this index becomes the last dimension of the copy. Returns nullopt for any other
/// factor. The caller sets the type and the zeros of the copy.
std::optional<CopiedFactor> factor_along(const Expr& factor, const std::string& axis);
/// Makes the stage `<reader>.<tensor>` that copies the tensor of the factor. Its axes are named
/// after the letters of the tensor's dimensions.
dsl::Stage copy_of_factor(const dsl::Compute& compute, const dsl::Stage& reader,
                          const CopiedFactor& of);
/// Returns the factor with its read of the tensor replaced by a read of the same element in the
/// copy.
Expr of_copy(const Expr& factor, const CopiedFactor& of, const dsl::Stage& copy);

/// Gives `stage` the new definition `definition`, which reads the copies, and adds the stages that
/// make the copies to the nest. Requires: no step was applied to `stage`.
void redefine(Nest& nest, StageNest& stage, const dsl::Stage& definition,
              const std::vector<dsl::Stage>& copies);

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of the factors of a sum of products, for the steps pack_factors and pad_factors. Private
// to schedules/. Not thread-safe for one nest.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/steps/editing.h"

namespace tw::schedules {

/// A factor that reads elements of one tensor, which are copied. The vectors have an entry for each
/// dimension of the tensor, in its order.
struct CopiedFactor {
  dsl::Read read;               ///< the elements
  size_t last;                  ///< the dimension that is last in the copy
  DType type = {};              ///< element type of the copy
  std::vector<int64_t> before;  ///< the number of zeros before the elements
  /// extents of the copy, including the zeros before and after the elements
  std::vector<int64_t> shape;
};

/// Finds a stage to which no step was applied and that reduces over the axis. Any other stage is an
/// error.
Result<StageNest*> fresh_stage_along(Nest& nest, std::string_view step, const std::string& stage,
                                     const std::string& axis);

/// Analyses a factor. It must be an element of a tensor, possibly widened. The axis alone must be
/// the index of one dimension, which becomes the last one of the copy, and occur in no other index.
/// nullopt for any other factor. The type and the zeros of the copy are left for the caller to set.
std::optional<CopiedFactor> factor_along(const Expr& factor, const std::string& axis);
/// Makes the stage that copies the factor. Its name is `<reader>.<tensor>`, and its axes are named
/// after the letters of the tensor's dimensions.
dsl::Stage copy_of_factor(const dsl::Compute& compute, const dsl::Stage& reader,
                          const CopiedFactor& of);
/// The factor, reading the copy instead of the tensor.
Expr of_copy(const Expr& factor, const CopiedFactor& of, const dsl::Stage& copy);

/// Gives a stage to which no step was applied a new definition that reads the copies, and adds the
/// copies to the nest.
void redefine(Nest& nest, StageNest& stage, const dsl::Stage& definition,
              const std::vector<dsl::Stage>& copies);

}  // namespace tw::schedules

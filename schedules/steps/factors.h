// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of the factors of a sum of products, which pack_factors and pad_factors make. Private to
// schedules/. Not thread-safe for one nest.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/steps/editing.h"

namespace tw::schedules {

/// A factor whose elements, of one tensor, are copied. The vectors have an entry for each dimension
/// of the tensor, in its order.
struct CopiedFactor {
  dsl::Read read;               ///< the elements
  size_t last;                  ///< the dimension that is last in the copy
  DType type = {};              ///< of the copy
  std::vector<int64_t> before;  ///< the number of zeros before the elements
  std::vector<int64_t> shape;   ///< of the copy, with the zeros before and after
};

/// The stage, if no step was applied to it and it reduces over the axis; else an error that says
/// so.
Result<StageNest*> fresh_stage_along(Nest& nest, std::string_view step, const std::string& stage,
                                     const std::string& axis);

/// The factor without its copy's type and zeros, if it is an element, maybe widened, and the axis
/// alone is the index of one dimension, which is the last one of the copy, and of no other.
std::optional<CopiedFactor> factor_along(const Expr& factor, const std::string& axis);
/// The stage that copies the factor: its name is that of the reader, a dot, and the tensor. The
/// axes are named after the letters of the dimensions.
dsl::Stage copy_of_factor(const dsl::Compute& compute, const dsl::Stage& reader,
                          const CopiedFactor& of);
/// The factor, with elements of the copy in the place of those of the tensor.
Expr of_copy(const Expr& factor, const CopiedFactor& of, const dsl::Stage& copy);

/// Gives the stage, to which no step was applied, another definition, which reads the copies.
void redefine(Nest& nest, StageNest& stage, const dsl::Stage& definition,
              const std::vector<dsl::Stage>& copies);

}  // namespace tw::schedules

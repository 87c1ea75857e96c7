// SPDX-License-Identifier: Apache-2.0
#pragma once
// Expressions that scale and shift a tensor. Private to graph/passes. Pure functions.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/compute.h"
#include "graph/graph.h"

namespace tw::graph {

/// scale * x + shift for some x; an undefined part is 0.
struct Affine {
  dsl::Expr scale, shift;
};

/// True where the expression, or a part of an Affine, is 0 in every branch of its selects.
bool is_zero(const dsl::Expr& part);

/// Splits an expression into the scale of the reads of one tensor, whatever their indices, and the
/// shift. nullopt where the expression is not affine in these reads.
std::optional<Affine> split_affine(const dsl::Expr& expr, const std::string& tensor);

/// An elementwise operator on f32 that computes scale * x + shift, both from constants.
struct ScaleAndShift {
  dsl::Compute compute;  ///< declares the constants as inputs; without stages
  dsl::Arrays arrays;    ///< their values
  std::vector<dsl::Axis> axes;
  dsl::Expr scale, shift;  ///< over the axes; those of one element do not occur
};
/// The scale and the shift that the operator applies to a tensor that it reads elementwise. nullopt
/// for other operators.
std::optional<ScaleAndShift> as_scale_and_shift(const Operator& op, const std::string& tensor,
                                                const std::map<std::string, Constant>& constants);

}  // namespace tw::graph

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds expressions that scale and shift the elements of a tensor. Private to graph/passes. Pure
// functions.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/compute.h"
#include "graph/graph.h"

namespace tw::graph {

/// The parts of an expression scale * x + shift, where x is a read of a tensor that is known from
/// the context. A part that is undefined is 0.
struct Affine {
  dsl::Expr scale, shift;
};

/// True if the expression is undefined or is 0 in every branch of its selects.
bool is_zero(const dsl::Expr& part);

/// Splits an expression into scale * x + shift, where x stands for every read of `tensor`, whatever
/// its indices. For example, (x[i] - mean[i]) * f[i] has the scale f[i] and the shift -mean[i] *
/// f[i]. nullopt if the expression is not affine in x.
std::optional<Affine> split_affine(const dsl::Expr& expr, const std::string& tensor);

/// An elementwise operator on f32 that computes scale * x + shift, where scale and shift are
/// computed from constants.
struct ScaleAndShift {
  dsl::Compute compute;  ///< has the constants as inputs and no stages
  dsl::Arrays arrays;    ///< the values of the constants, by the name of the input
  std::vector<dsl::Axis> axes;
  dsl::Expr scale, shift;  ///< expressions over `axes`; axes of extent 1 do not occur in them
};
/// Returns the scale and the shift that the operator applies to `tensor`. nullopt if the operator
/// does not read the tensor elementwise, if another input is not a constant, or if the operator
/// computes anything else than scale * x + shift.
std::optional<ScaleAndShift> as_scale_and_shift(const Operator& op, const std::string& tensor,
                                                const std::map<std::string, Constant>& constants);

}  // namespace tw::graph

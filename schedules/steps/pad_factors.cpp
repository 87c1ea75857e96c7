// SPDX-License-Identifier: Apache-2.0
// pad_factors: copies the padded factor of a sum of products with the zeros of its padding.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedules/program/affine.h"
#include "schedules/program/dot_products.h"
#include "schedules/steps/factors.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

/// Returns the condition under which a factor is an element of its tensor and not the 0 of a
/// padding; nullopt if the factor has no such condition.
std::optional<Expr> condition_of(const Expr& factor) {
  if (const dsl::Cast* cast = factor.as<dsl::Cast>()) return condition_of(cast->a);
  const dsl::Select* guard = factor.as<dsl::Select>();
  return guard && dsl::is_zero_bytes(guard->b) ? std::optional(guard->condition) : std::nullopt;
}

bool are_equal(const Affine& a, const Affine& b) {
  Affine difference = a;
  difference.add(b, -1);
  return difference.is_constant() && difference.constant == 0;
}

/// True if each term of the condition is a bound of an index of `read`: 0 <= index, or index <
/// extent of the dimension.
bool is_of_padding(const Expr& condition, const dsl::Read& read,
                   const std::vector<int64_t>& shape) {
  const Constraints constraints = split_condition(condition);
  return constraints.opaque.empty() &&
         std::ranges::all_of(constraints.affine, [&](const Affine& at_least_zero) {
           for (size_t d = 0; d < shape.size(); ++d) {
             const Affine from_begin = to_affine(read.indices[d]);
             const Affine from_end = to_affine(Expr(shape[d] - 1) - read.indices[d]);
             if (are_equal(at_least_zero, from_begin) || are_equal(at_least_zero, from_end))
               return true;
           }
           return false;
         });
}

/// Returns the bounds of the stage's axes.
Bounds bounds_of_axes(const Stage& stage) {
  Bounds bounds;
  for (const std::vector<Axis>* axes : {&stage.axes, &stage.reduction})
    for (const Axis& axis : *axes) bounds.push_loop(axis.name, Expr(0), Expr(axis.extent));
  return bounds;
}

/// Sets the number of zeros before the elements of the factor, and the extents of the copy, which
/// include the zeros on both sides. Returns false if the bounds of an index are unknown.
bool set_zeros(CopiedFactor& of, const std::vector<int64_t>& shape, const Bounds& bounds) {
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto least = bounds.lower(of.read.indices[d]), most = bounds.upper(of.read.indices[d]);
    if (!least || !most) return false;
    of.before.push_back(std::max<int64_t>(0, -*least));
    of.shape.push_back(of.before[d] + std::max(shape[d], *most + 1));
  }
  return true;
}

}  // namespace

Status apply(Nest& nest, const PadFactors& s) {
  TW_TRY(StageNest * stage, fresh_stage_along(nest, s.name, s.stage, s.axis));
  Stage padded = stage->stage;
  const dsl::Binary* product = padded.body.as<dsl::Binary>();
  if (padded.combine != Combine::Sum || !product || product->op != dsl::BinaryOp::Mul)
    return illegal(s.name, fmt::format("'{}' is no sum of products", s.stage));
  const dsl::Binary inside = *unpadded(padded.body).as<dsl::Binary>();
  std::vector<Expr> factors = {product->a, product->b};
  const std::vector<Expr> elements = {inside.a, inside.b};
  std::vector<Stage> copies;
  for (size_t i = 0; i < factors.size(); ++i) {
    const auto condition = condition_of(factors[i]);
    if (!condition) continue;
    auto of = factor_along(elements[i], s.axis);
    if (!of)
      return illegal(s.name, fmt::format("a padded factor of '{}' is no element for which '{}' is "
                                         "an index",
                                         s.stage, s.axis));
    const std::vector<int64_t> shape = nest.compute.shape_of(of->read.tensor);
    if (!is_of_padding(*condition, of->read, shape) ||
        !set_zeros(*of, shape, bounds_of_axes(padded)))
      return illegal(s.name, fmt::format("'{}' reads '{}' under a condition that is more than that "
                                         "the indices are within it: {}",
                                         s.stage, of->read.tensor, dsl::to_string(*condition)));
    const Stage& copy = copies.emplace_back(copy_of_factor(nest.compute, padded, *of));
    TW_RETURN_IF_ERROR(check_iterations(of->shape, s.name, copy.name));
    if (nest.compute.find_stage(copy.name))
      return illegal(s.name, fmt::format("'{}' exists already", copy.name));
    factors[i] = of_copy(elements[i], *of, copy);
  }
  if (copies.empty()) return illegal(s.name, fmt::format("no factor of '{}' is padded", s.stage));
  padded.body = factors[0] * factors[1];
  redefine(nest, *stage, padded, copies);
  return {};
}

}  // namespace tw::schedules

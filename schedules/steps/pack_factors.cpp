// SPDX-License-Identifier: Apache-2.0
// pack_factors: copies the factors of a sum of products into the order, length and type that an
// instruction reads.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/integer.h"
#include "schedules/program/dot_products.h"
#include "schedules/steps/editing.h"
#include "schedules/steps/factors.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

/// Returns the number of reads in the stage's expression that have the axis in an index. Reads in
/// conditions count too.
int64_t reads_along(const Stage& stage, const std::string& axis) {
  int64_t reads = 0;
  for_each_read(stage.body, [&](const dsl::Read& read) { reads += uses_axis(read, axis) ? 1 : 0; });
  return reads;
}

/// Returns the two factors of the stage's product. Returns nullopt unless they are elements of
/// different tensors, with the axis itself as an index of each, and no other read uses the axis.
/// Reads in conditions must not use the axis either, because conditions are evaluated for the
/// padded terms too.
std::optional<std::vector<CopiedFactor>> packed_factors(const Stage& stage,
                                                        const std::string& axis) {
  const Expr body = unpadded(stage.body);
  const dsl::Binary* product = body.as<dsl::Binary>();
  if (stage.combine != Combine::Sum || !product || product->op != dsl::BinaryOp::Mul ||
      reads_along(stage, axis) != 2)
    return std::nullopt;
  const auto a = factor_along(product->a, axis), b = factor_along(product->b, axis);
  if (!a || !b || a->read.tensor == b->read.tensor) return std::nullopt;
  return std::vector{*a, *b};
}

bool holds_all(DType type, DType of) {
  if (type == of) return true;
  if (is_float(type) || is_float(of) || size_bytes(type) > size_bytes(Int32)) return false;
  const IntegerLimits limits = integer_limits(type), values = integer_limits(of);
  return values.least >= limits.least && values.largest <= limits.largest;
}

Status check_copy(const Nest& nest, const PackFactors& s, const CopiedFactor& of, int64_t extent,
                  DType type) {
  const std::string& tensor = of.read.tensor;
  const int64_t length = nest.compute.shape_of(tensor)[of.last];
  if (length != extent)
    return illegal(s.name, fmt::format("'{}' has {} elements along '{}', which has {}", tensor,
                                       length, s.axis, extent));
  if (!holds_all(type, of.read.type))
    return illegal(s.name,
                   fmt::format("the type {} is no integer of at most 32 bits that holds all "
                               "elements of '{}', {}",
                               to_string(type), tensor, to_string(of.read.type)));
  if (nest.compute.find_stage(s.stage + "." + tensor))
    return illegal(s.name, fmt::format("'{}.{}' exists already", s.stage, tensor));
  return {};
}

Status check_size(const PackFactors& s, const Stage& stage) {
  std::vector<int64_t> extents = stage.shape();
  for (const Axis& axis : stage.reduction) extents.push_back(axis.extent);
  return check_iterations(extents, s.name, stage.name);
}

}  // namespace

Status apply(Nest& nest, const PackFactors& s) {
  TW_TRY(StageNest * stage, fresh_stage_along(nest, s.name, s.stage, s.axis));
  Stage packed = stage->stage;
  Axis& axis = *std::ranges::find(packed.reduction, s.axis, &Axis::name);
  if (s.multiple < 1 || s.multiple > most_dot_depth)
    return illegal(s.name,
                   fmt::format("the multiple is from 1 to {}, not {}", most_dot_depth, s.multiple));
  const std::optional<DType> given =
      s.type.empty() ? std::nullopt : find_dtype(&DTypeInfo::name, s.type);
  if (!s.type.empty() && !given)
    return illegal(s.name, fmt::format("'{}' is no data type: {}", s.type, known_dtypes()));
  auto copied = packed_factors(packed, s.axis);
  if (!copied)
    return illegal(s.name, fmt::format("'{}' is no sum of products of elements of two tensors, for "
                                       "which '{}' is an index",
                                       s.stage, s.axis));
  const int64_t extent = axis.extent;
  axis.extent = round_up(extent, s.multiple);
  TW_RETURN_IF_ERROR(check_size(s, packed));
  const bool is_padded = axis.extent != extent;
  const dsl::Binary product = *packed.body.as<dsl::Binary>();
  std::vector<Expr> factors = {product.a, product.b};
  std::vector<Stage> copies;
  for (size_t i = 0; i < factors.size(); ++i) {
    CopiedFactor& of = (*copied)[i];
    of.type = given.value_or(of.read.type);
    TW_RETURN_IF_ERROR(check_copy(nest, s, of, extent, of.type));
    if (!is_padded && of.type == of.read.type) continue;
    of.before.assign(of.read.indices.size(), 0);
    of.shape = nest.compute.shape_of(of.read.tensor);
    of.shape[of.last] = axis.extent;
    const Stage& copy = copies.emplace_back(copy_of_factor(nest.compute, packed, of));
    TW_RETURN_IF_ERROR(check_size(s, copy));
    const DType before = factors[i].type();
    factors[i] = of_copy(factors[i], of, copy);
    if (factors[i].type() != before)
      return illegal(s.name, fmt::format("'{}' multiplies elements of '{}' as they are, which {} "
                                         "would change",
                                         s.stage, of.read.tensor, to_string(of.type)));
  }
  if (copies.empty())
    return illegal(s.name, fmt::format("the factors of '{}' are packed already: the extent {} of "
                                       "'{}' is a multiple of {}",
                                       s.stage, extent, s.axis, s.multiple));
  packed.body = factors[0] * factors[1];
  redefine(nest, *stage, packed, copies);
  return {};
}

}  // namespace tw::schedules

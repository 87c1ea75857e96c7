// SPDX-License-Identifier: Apache-2.0
// pack_factors: copies the factors of a sum of products, in the order, length and type that an
// instruction reads.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/integer.h"
#include "schedules/dot_products.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

/// Elements that are read of a tensor, and the dimension of the axis.
struct PackedRead {
  dsl::Read read;
  size_t dimension;
};

/// The read of a factor, if the axis alone is the index of one dimension, and of no other.
std::optional<PackedRead> packed_read(const Expr& factor, const std::string& axis) {
  const Expr element = unwidened(factor);
  const dsl::Read* read = element.as<dsl::Read>();
  if (!read) return std::nullopt;
  std::optional<PackedRead> found;
  for (size_t d = 0; d < read->indices.size(); ++d) {
    if (!dsl::uses_var(read->indices[d], axis)) continue;
    if (found || !read->indices[d].as<dsl::Var>()) return std::nullopt;
    found = PackedRead{*read, d};
  }
  return found;
}

/// The reads of the stage that use the axis, in conditions as well.
int64_t reads_along(const Stage& stage, const std::string& axis) {
  int64_t reads = 0;
  for_each_read(stage.body, [&](const dsl::Read& read) { reads += uses_axis(read, axis) ? 1 : 0; });
  return reads;
}

/// The reads of both factors, of different tensors, if no other read uses the axis: conditions are
/// evaluated for the padded terms, too.
std::optional<std::vector<PackedRead>> packed_reads(const Stage& stage, const std::string& axis) {
  const Expr body = unpadded(stage.body);
  const dsl::Binary* product = body.as<dsl::Binary>();
  if (stage.combine != Combine::Sum || !product || product->op != dsl::BinaryOp::Mul ||
      reads_along(stage, axis) != 2)
    return std::nullopt;
  const auto a = packed_read(product->a, axis), b = packed_read(product->b, axis);
  if (!a || !b || a->read.tensor == b->read.tensor) return std::nullopt;
  return std::vector{*a, *b};
}

/// Moves the packed dimension last, where neighbours are contiguous.
template <typename T>
std::vector<T> with_packed_last(const std::vector<T>& dimensions, size_t packed) {
  std::vector<T> order = dimensions;
  const auto at = order.begin() + static_cast<std::ptrdiff_t>(packed);
  std::rotate(at, at + 1, order.end());
  return order;
}

/// Copies the tensor, with zeros behind the extent of its packed dimension. The axes are named
/// after the letters of the dimensions.
Stage packed_copy(const dsl::Compute& compute, const Stage& reader, const PackedRead& of,
                  int64_t multiple, DType type) {
  const std::string letters = compute.letters_of(of.read.tensor);
  const std::vector<int64_t> shape = compute.shape_of(of.read.tensor);
  std::vector<Axis> axes;
  for (size_t d = 0; d < shape.size(); ++d)
    axes.emplace_back(std::string(1, static_cast<char>(std::tolower(letters[d]))), shape[d]);
  const std::vector<Expr> indices(axes.begin(), axes.end());
  int64_t& extent = axes[of.dimension].extent;
  extent = round_up(extent, multiple);
  Stage copy;
  copy.name = reader.name + "." + of.read.tensor;
  copy.type = type;
  copy.axes = with_packed_last(axes, of.dimension);
  copy.body = dsl::cast(type, dsl::read(of.read.tensor, indices, of.read.type));
  if (extent != shape[of.dimension])
    copy.body = dsl::select(indices[of.dimension] < Expr(shape[of.dimension]), copy.body,
                            dsl::constant_int(type, 0));
  for (const Axis& axis : copy.axes) copy.letters += static_cast<char>(std::toupper(axis.name[0]));
  return copy;
}

/// The factor, or an expression in it, with elements of the copy in the place of those of the
/// tensor.
Expr of_copy(const Expr& factor, const PackedRead& of, const Stage& copy) {
  if (const dsl::Cast* cast = factor.as<dsl::Cast>())
    return dsl::cast(cast->type, of_copy(cast->a, of, copy));
  if (const dsl::Select* guard = factor.as<dsl::Select>()) {
    const Expr value = of_copy(guard->a, of, copy);
    return dsl::select(guard->condition, value, dsl::constant_int(value.type(), 0));
  }
  const dsl::Read* read = factor.as<dsl::Read>();
  TW_CHECK(read && read->tensor == of.read.tensor, "a factor is an element, widened or padded");
  return dsl::read(copy.name, with_packed_last(read->indices, of.dimension), copy.type);
}

bool holds_all(DType type, DType of) {
  if (type == of) return true;
  if (is_float(type) || is_float(of) || size_bytes(type) > size_bytes(Int32)) return false;
  const IntegerLimits limits = integer_limits(type), values = integer_limits(of);
  return values.least >= limits.least && values.largest <= limits.largest;
}

Status check_copy(const Nest& nest, const PackFactors& s, const PackedRead& of, int64_t extent,
                  DType type) {
  const std::string& tensor = of.read.tensor;
  const int64_t length = nest.compute.shape_of(tensor)[of.dimension];
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
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_RETURN_IF_ERROR(check_no_scan(*stage, s.name));
  if (!is_fresh(nest, *stage))
    return illegal(s.name, fmt::format("'{}' has steps already", s.stage));
  Stage packed = stage->stage;
  const auto axis = std::find_if(packed.reduction.begin(), packed.reduction.end(),
                                 [&](const Axis& a) { return a.name == s.axis; });
  if (axis == packed.reduction.end())
    return illegal(s.name, fmt::format("'{}' does not reduce over '{}'", s.stage, s.axis));
  if (s.multiple < 1 || s.multiple > most_dot_depth)
    return illegal(s.name,
                   fmt::format("the multiple is from 1 to {}, not {}", most_dot_depth, s.multiple));
  const std::optional<DType> given =
      s.type.empty() ? std::nullopt : find_dtype(&DTypeInfo::name, s.type);
  if (!s.type.empty() && !given)
    return illegal(s.name, fmt::format("'{}' is no data type: {}", s.type, known_dtypes()));
  const auto reads = packed_reads(packed, s.axis);
  if (!reads)
    return illegal(s.name, fmt::format("'{}' is no sum of products of elements of two tensors, for "
                                       "which '{}' is an index",
                                       s.stage, s.axis));
  const int64_t extent = axis->extent;
  axis->extent = round_up(extent, s.multiple);
  TW_RETURN_IF_ERROR(check_size(s, packed));
  const bool is_padded = axis->extent != extent;
  const dsl::Binary product = *packed.body.as<dsl::Binary>();
  std::vector<Expr> factors = {product.a, product.b};
  std::vector<Stage> copies;
  for (size_t i = 0; i < factors.size(); ++i) {
    const PackedRead& of = (*reads)[i];
    const DType type = given.value_or(of.read.type);
    TW_RETURN_IF_ERROR(check_copy(nest, s, of, extent, type));
    if (!is_padded && type == of.read.type) continue;
    const Stage& copy =
        copies.emplace_back(packed_copy(nest.compute, packed, of, s.multiple, type));
    TW_RETURN_IF_ERROR(check_size(s, copy));
    const DType before = factors[i].type();
    factors[i] = of_copy(factors[i], of, copy);
    if (factors[i].type() != before)
      return illegal(s.name, fmt::format("'{}' multiplies elements of '{}' as they are, which {} "
                                         "would change",
                                         s.stage, of.read.tensor, to_string(type)));
  }
  if (copies.empty())
    return illegal(s.name, fmt::format("the factors of '{}' are packed already: the extent {} of "
                                       "'{}' is a multiple of {}",
                                       s.stage, extent, s.axis, s.multiple));
  packed.body = factors[0] * factors[1];
  const bool is_last = stage->loops[0].variable == stage->loops[0].name;
  definition(nest, s.stage) = packed;
  *stage = make_stage_nest(packed, is_last);
  for (const Stage& copy : copies) insert_before(nest, s.stage, copy);
  return {};
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#include "schedules/steps/factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

/// Moves the dimension with index `last` to the end, where neighbours are contiguous in memory.
template <typename T>
std::vector<T> with_last(const std::vector<T>& dimensions, size_t last) {
  std::vector<T> order = dimensions;
  const auto at = order.begin() + static_cast<std::ptrdiff_t>(last);
  std::rotate(at, at + 1, order.end());
  return order;
}

}  // namespace

Result<StageNest*> fresh_stage_along(Nest& nest, std::string_view step, const std::string& stage,
                                     const std::string& axis) {
  TW_TRY(StageNest * found, stage_of(nest, step, stage));
  TW_RETURN_IF_ERROR(check_no_scan(*found, step));
  if (!is_fresh(nest, *found)) return illegal(step, fmt::format("'{}' has steps already", stage));
  if (std::ranges::find(found->stage.reduction, axis, &Axis::name) == found->stage.reduction.end())
    return illegal(step, fmt::format("'{}' does not reduce over '{}'", stage, axis));
  return found;
}

std::optional<CopiedFactor> factor_along(const Expr& factor, const std::string& axis) {
  Expr element = factor;
  while (const dsl::Cast* cast = element.as<dsl::Cast>()) element = cast->a;
  const dsl::Read* read = element.as<dsl::Read>();
  if (!read) return std::nullopt;
  std::optional<CopiedFactor> found;
  for (size_t d = 0; d < read->indices.size(); ++d) {
    if (!dsl::uses_var(read->indices[d], axis)) continue;
    if (found || !read->indices[d].as<dsl::Var>()) return std::nullopt;
    found = CopiedFactor{*read, d, read->type, {}, {}};
  }
  return found;
}

Stage copy_of_factor(const dsl::Compute& compute, const Stage& reader, const CopiedFactor& of) {
  const std::string letters = compute.letters_of(of.read.tensor);
  const std::vector<int64_t> shape = compute.shape_of(of.read.tensor);
  std::vector<Axis> axes;
  std::vector<Expr> indices;
  Expr exists = dsl::constant_int(Bool, 1);
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t end = of.before[d] + shape[d];
    const Axis& axis =
        axes.emplace_back(std::string(1, static_cast<char>(std::tolower(letters[d]))), of.shape[d]);
    indices.push_back(of.before[d] > 0 ? Expr(axis) - Expr(of.before[d]) : Expr(axis));
    if (of.before[d] > 0) exists = exists && Expr(of.before[d]) <= Expr(axis);
    if (end < of.shape[d]) exists = exists && Expr(axis) < Expr(end);
  }
  Stage copy;
  copy.name = reader.name + "." + of.read.tensor;
  copy.type = of.type;
  copy.axes = with_last(axes, of.last);
  copy.body = dsl::cast(of.type, dsl::read(of.read.tensor, indices, of.read.type));
  if (of.shape != shape)
    copy.body = dsl::select(exists, copy.body, identity(Combine::Sum, of.type));
  for (const Axis& axis : copy.axes) copy.letters += static_cast<char>(std::toupper(axis.name[0]));
  return copy;
}

Expr of_copy(const Expr& factor, const CopiedFactor& of, const Stage& copy) {
  if (const dsl::Cast* cast = factor.as<dsl::Cast>())
    return dsl::cast(cast->type, of_copy(cast->a, of, copy));
  if (const dsl::Select* guard = factor.as<dsl::Select>()) {
    const Expr value = of_copy(guard->a, of, copy);
    return dsl::select(guard->condition, value, identity(Combine::Sum, value.type()));
  }
  const dsl::Read* read = factor.as<dsl::Read>();
  TW_CHECK(read && read->tensor == of.read.tensor, "a factor is an element, widened or padded");
  std::vector<Expr> indices = read->indices;
  for (size_t d = 0; d < indices.size(); ++d)
    if (of.before[d] > 0) indices[d] = indices[d] + Expr(of.before[d]);
  return dsl::read(copy.name, with_last(indices, of.last), copy.type);
}

void redefine(Nest& nest, StageNest& stage, const Stage& stage_definition,
              const std::vector<Stage>& copies) {
  const bool is_last = stage.loops[0].variable == stage.loops[0].name;
  definition(nest, stage_definition.name) = stage_definition;
  stage = make_stage_nest(stage_definition, is_last);
  for (const Stage& copy : copies) insert_before(nest, stage_definition.name, copy);
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#include "schedules/box_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "schedules/affine.h"
#include "schedules/bulk_copies.h"
#include "schedules/nest.h"

namespace tw::schedules {
namespace {

/// Of an element's address, in elements, for each axis of the stage that has more than one value.
using Strides = std::map<std::string, int64_t>;

/// Of a read's element in memory; nullopt where the layout of its tensor splits a dimension.
std::optional<Affine> address_of(const dsl::Read& read, const ComputePlan& compute) {
  const std::vector<int64_t> shape = compute.compute.shape_of(read.tensor);
  const auto layout = compute.layouts.find(read.tensor);
  if (layout == compute.layouts.end()) return linear_address(shape, read.indices);
  std::vector<Expr> indices;
  for (const dsl::Layout::Part& part : layout->second.parts()) {
    if (part.factor != 0) return std::nullopt;
    indices.push_back(read.indices[static_cast<size_t>(part.dim)]);
  }
  return linear_address(layout->second.storage_shape(shape), indices);
}

std::optional<Strides> strides_of(const Affine& address, const dsl::Stage& stage) {
  if (address.constant != 0) return std::nullopt;
  Strides strides;
  for (const Affine::Term& term : address.terms) {
    const auto* axis = term.atom.as<dsl::Var>();
    if (!axis) return std::nullopt;
    if (extent_of(stage, axis->name) > 1) strides[axis->name] = term.coefficient;
  }
  return strides;
}

/// Of the axes fused, as one; nullopt where they are none, or not one.
std::optional<int64_t> fused_stride(const Strides& strides, const dsl::Stage& stage,
                                    const std::vector<std::string>& axes) {
  std::optional<int64_t> stride;
  int64_t next = 0;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const int64_t extent = extent_of(stage, *axis);
    if (extent == 1) continue;
    const auto found = strides.find(*axis);
    if (found == strides.end() || (stride && found->second != next)) return std::nullopt;
    if (!stride) stride = found->second;
    next = found->second * extent;
  }
  return stride;
}

}  // namespace

BoxNeighbours box_neighbours(const ComputePlan& compute, const StagePlan& plan, size_t operand) {
  const dsl::Stage& stage = compute.stage(plan);
  const Expr factor = unwidened(operands_of(stage)[operand]);
  const auto* read = factor.as<dsl::Read>();
  if (!read) return BoxNeighbours::None;
  const auto address = address_of(*read, compute);
  const auto strides = address ? strides_of(*address, stage) : std::nullopt;
  if (!strides) return BoxNeighbours::None;
  std::vector<std::string> terms;
  for (const dsl::Axis& axis : stage.reduction)
    if (axis.extent > 1) terms.push_back(axis.name);
  const auto rows =
      fused_stride(*strides, stage, operand == 0 ? plan.product.rows : plan.product.columns);
  if (!rows || terms.size() != 1 || terms[0] != plan.main_reduction) return BoxNeighbours::None;
  const auto is_multiple = [&](int64_t stride) {
    return stride > 0 && stride * size_bytes(factor.type()) % engine_bytes == 0;
  };
  for (const std::string& axis : plan.product.batch) {
    const auto found = strides->find(axis);
    if (found != strides->end() && !is_multiple(found->second)) return BoxNeighbours::None;
  }
  const auto term = strides->find(terms[0]);
  if (term == strides->end()) return BoxNeighbours::None;
  if (term->second == 1 && is_multiple(*rows)) return BoxNeighbours::Terms;
  if (*rows == 1 && is_multiple(term->second)) return BoxNeighbours::Rows;
  return BoxNeighbours::None;
}

}  // namespace tw::schedules

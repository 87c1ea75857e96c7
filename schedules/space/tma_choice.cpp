// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/tma_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "schedules/nest.h"
#include "schedules/program/affine.h"
#include "schedules/program/tma_copies.h"

namespace tw::schedules {
namespace {

/// The stride of an element's address, in elements, along each axis of the stage with an extent
/// above 1 that the address depends on.
using Strides = std::map<std::string, int64_t>;

/// Layouts by tensor; tensors without one are row-major.
using Layouts = std::map<std::string, dsl::Layout>;

/// Returns the address of a read's element, in elements from the beginning of its tensor. nullopt
/// if the layout of the tensor splits a dimension.
std::optional<Affine> address_of(const dsl::Read& read, const dsl::Compute& compute,
                                 const Layouts& layouts) {
  const std::vector<int64_t> shape = compute.shape_of(read.tensor);
  const auto layout = layouts.find(read.tensor);
  if (layout == layouts.end()) return linear_address(shape, read.indices);
  std::vector<Expr> indices;
  for (const dsl::Layout::Part& part : layout->second.parts()) {
    if (part.factor != 0) return std::nullopt;
    indices.push_back(read.indices[static_cast<size_t>(part.dim)]);
  }
  return linear_address(layout->second.storage_shape(shape), indices);
}

std::optional<Strides> strides_of(const Affine& address, const dsl::Stage& stage) {
  Strides strides;
  for (const Affine::Term& term : address.terms) {
    const auto* axis = term.atom.as<dsl::Var>();
    if (!axis) return std::nullopt;
    if (extent_of(stage, axis->name) > 1) strides[axis->name] = term.coefficient;
  }
  return strides;
}

/// Returns the stride along the loop that fusing `axes` makes. nullopt if there are no axes of
/// extent above 1, or if consecutive iterations of the fused loop are not equally far apart.
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

/// An operand that is an element of a tensor if `condition` is true, and zero otherwise.
struct Operand {
  const dsl::Read* read = nullptr;
  Expr condition = dsl::constant_int(Bool, 1);
  DType type = Float32;
};

Operand operand_of(const dsl::Stage& stage, size_t operand) {
  const Expr factor = unwidened(operands_of(stage)[operand]);
  const dsl::Select* select = factor.as<dsl::Select>();
  if (!select) return {factor.as<dsl::Read>(), dsl::constant_int(Bool, 1), factor.type()};
  if (!dsl::is_zero_bytes(select->b)) return {};
  return {select->a.as<dsl::Read>(), select->condition, factor.type()};
}

class Chooser {
 public:
  Chooser(const dsl::Stage& stage, const StagePlan& plan, size_t operand, Operand of,
          std::vector<int64_t> shape, Strides strides)
      : stage_(stage),
        plan_(plan),
        side_(long_axes(operand == 0 ? plan.product.rows : plan.product.columns)),
        operand_(std::move(of)),
        shape_(std::move(shape)),
        strides_(std::move(strides)) {
    for (const dsl::Axis& axis : stage.reduction)
      if (axis.extent > 1 && axis.name != plan.main_reduction) others_.push_back(axis.name);
  }

  /// Returns the choice for an operand that is a matrix, in which the distance from each row to the
  /// next is the same.
  TmaChoice matrix() const {
    const auto rows = fused_stride(strides_, stage_, side_);
    if (!rows || !has_whole_units(others_)) return {};
    const int64_t term = stride_along(plan_.main_reduction);
    if (term == 1 && is_whole_unit(*rows)) return {TmaNeighbours::Terms};
    if (*rows == 1 && is_whole_unit(term)) return {TmaNeighbours::Rows};
    return {};
  }

  /// Returns the choice for an operand whose axes are separate dimensions of the box. The operand
  /// may be padded.
  TmaChoice rectangle() const {
    const size_t dimensions = 1 + side_.size() + (others_.empty() ? 0 : 1);
    if (dimensions > most_tma_dimensions || stride_along(plan_.main_reduction) != 1 ||
        !has_whole_units(others_) || !has_whole_units(side_))
      return {};
    for (const std::string& axis : side_)
      if (stride_along(axis) == 0) return {};
    const auto padded = padded_axes();
    if (!padded) return {};
    TmaChoice choice{TmaNeighbours::Terms};
    for (const std::string& axis : side_)
      choice.axes.push_back({axis, padded->contains(axis) ? least_padded_tile : 1});
    return choice;
  }

  bool batches_are_whole_units() const { return has_whole_units(plan_.product.batch); }

 private:
  // A padded axis is a dimension of the box only if its tile has a loop, and programs have no loops
  // of one iteration.
  static constexpr int64_t least_padded_tile = 2;

  std::vector<std::string> long_axes(const std::vector<std::string>& axes) const {
    std::vector<std::string> result;
    for (const std::string& axis : axes)
      if (extent_of(stage_, axis) > 1) result.push_back(axis);
    return result;
  }

  int64_t stride_along(const std::string& axis) const {
    const auto found = strides_.find(axis);
    return found == strides_.end() ? 0 : found->second;
  }
  bool is_whole_unit(int64_t stride) const {
    return stride > 0 && stride * size_bytes(operand_.type) % engine_bytes == 0;
  }
  /// True if the operand's stride along each of the axes is a multiple of 16 bytes. Axes that do
  /// not occur in the operand's address do not matter.
  bool has_whole_units(const std::vector<std::string>& axes) const {
    return std::ranges::all_of(axes, [&](const std::string& axis) {
      return !strides_.contains(axis) || is_whole_unit(stride_along(axis));
    });
  }

  /// Returns the axes of the indices that the condition keeps inside of the tensor, as the
  /// condition of a padding does. nullopt if the condition contains any other comparison.
  std::optional<std::set<std::string>> padded_axes() const {
    const Constraints constraints = split_condition(operand_.condition);
    if (!constraints.opaque.empty()) return std::nullopt;
    std::set<std::string> padded;
    for (const Affine& at_least_zero : constraints.affine) {
      const auto axis = padded_axis(at_least_zero);
      if (!axis) return std::nullopt;
      padded.insert(*axis);
    }
    return padded;
  }

  /// Returns the axis of the index that `at_least_zero` bounds: x if it is one of the two bounds of
  /// 0 <= x * 2 + s - 1 < 56. nullopt if no index is bounded by it, or if the stride 2 does not
  /// divide the extent 56. It must divide the extent because pixels with the same remainder must
  /// form a tensor.
  std::optional<std::string> padded_axis(const Affine& at_least_zero) const {
    for (size_t d = 0; d < shape_.size(); ++d) {
      const Affine index = to_affine(operand_.read->indices[d]);
      Affine other = at_least_zero, last = at_least_zero;
      other.add(index, -1);
      last.add(index);
      const bool is_first = other.is_constant() && other.constant == 0;
      if (!is_first && !(last.is_constant() && last.constant == shape_[d] - 1)) continue;
      const auto axis = axis_of(index);
      if (!axis || shape_[d] % index.coefficient(dsl::var(*axis)) != 0) return std::nullopt;
      return axis;
    }
    return std::nullopt;
  }

  /// Returns the only axis in `side_` that the index uses. nullopt if the index uses several of
  /// these axes, has a coefficient below 1 for the axis, or uses an axis that is neither in `side_`
  /// nor in `others_`.
  std::optional<std::string> axis_of(const Affine& index) const {
    std::optional<std::string> found;
    for (const Affine::Term& term : index.terms) {
      const auto* axis = term.atom.as<dsl::Var>();
      if (!axis) return std::nullopt;
      if (extent_of(stage_, axis->name) == 1 || std::ranges::count(others_, axis->name) > 0)
        continue;
      if (found || term.coefficient < 1 || std::ranges::count(side_, axis->name) == 0)
        return std::nullopt;
      found = axis->name;
    }
    return found;
  }

  const dsl::Stage& stage_;
  const StagePlan& plan_;
  const std::vector<std::string> side_;  ///< axes of extent above 1 that only this operand uses
  const Operand operand_;
  const std::vector<int64_t> shape_;  ///< of the operand's tensor
  const Strides strides_;
  std::vector<std::string> others_;  ///< reduction axes of extent above 1, except the main one
};

}  // namespace

TmaChoice tma_choice(const ComputePlan& compute, const StagePlan& plan, size_t operand,
                     const Layouts& layouts) {
  const dsl::Stage& stage = compute.stage(plan);
  const Operand of = operand_of(stage, operand);
  if (!of.read || plan.main_reduction.empty()) return {};
  const auto address = address_of(*of.read, compute.compute, layouts);
  const auto strides = address ? strides_of(*address, stage) : std::nullopt;
  if (!strides) return {};
  const Chooser chooser(stage, plan, operand, of, compute.compute.shape_of(of.read->tensor),
                        *strides);
  if (!chooser.batches_are_whole_units()) return {};
  const bool is_matrix = address->constant == 0 && dsl::is_int(of.condition, 1);
  const TmaChoice matrix = is_matrix ? chooser.matrix() : TmaChoice{};
  return matrix.neighbours != TmaNeighbours::None ? matrix : chooser.rectangle();
}

ChosenLayout layout_along_terms(const ComputePlan& compute, const StagePlan& plan, size_t operand) {
  const Operand of = operand_of(compute.stage(plan), operand);
  const dsl::Input* input = of.read ? compute.compute.find_input(of.read->tensor) : nullptr;
  if (!input || !input->constant || compute.layouts.contains(input->name) ||
      compute.compute.consumers(input->name).size() != 1)
    return {};
  const std::string letters = compute.compute.letters_of(input->name);
  std::string text, last;
  for (size_t d = 0; d < letters.size(); ++d)
    (dsl::uses_var(of.read->indices[d], plan.main_reduction) ? last : text) += letters[d];
  return last.size() == 1 ? ChosenLayout{input->name, text + last} : ChosenLayout{};
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The analysis with which the derivation of a search space begins. It decides which stages of a
// compute are merged into other stages. For each remaining stage it finds the facts that strategies
// need: the axes that may become vectors or tiles, the axes that the stage reduces, and the stages
// in whose loops it may be computed. The result depends on the structure of the stages and on the
// target, not on any choice. Plain values; thread-safe.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/stop.h"
#include "base/target.h"
#include "dsl/compute.h"
#include "dsl/layout.h"
#include "dsl/selection.h"
#include "schedules/problem.h"
#include "schedules/schedule.h"
#include "schedules/space/algorithms.h"

namespace tw::schedules {

inline constexpr size_t most_tile_axes = 4;
/// Reduction axes shorter than this are not split into blocks.
inline constexpr int64_t least_blocked_extent = 4;

/// An axis along which vectors may lie. If the problem asks for a layout of the result, neighbours
/// along the axis must be neighbours in the result's memory. If no such axis is long enough to fill
/// a vector, axes are accepted along which neighbours in the result are up to 4 elements apart.
struct VectorAxis {
  std::string axis;
  std::vector<std::string> packed;  ///< tensors that must be packed so that the axis is contiguous
};

/// The spatial axes of a sum of products, by the operands that use them. For sum(k) a[b, m, k] *
/// w[b, k, n], `batch` is {b}, `rows` is {m} and `columns` is {n}. In each list the axis along
/// which the result is contiguous is last. All lists are empty if the stage is not a sum of
/// products, if an operand has no axes of its own, or if a reduction axis is missing in one
/// operand.
struct ProductAxes {
  std::vector<std::string> batch;    ///< axes that both operands use, or neither
  std::vector<std::string> rows;     ///< axes that the first operand alone uses
  std::vector<std::string> columns;  ///< axes that the second operand alone uses
};

struct StagePlan {
  std::string name;
  /// The stage in whose loops this stage may be computed; empty if this stage always has its own
  /// phase.
  std::string owner;
  /// The stages that read this stage. A read by an epilogue counts as a read by the epilogue's
  /// reduction, and a read by a nested stage as a read by the stage in which it is nested.
  std::vector<std::string> readers;
  /// The axis along which elements of the result are neighbours in memory; empty if the result is a
  /// single number.
  std::string contiguous;
  /// The stages that are computed in the innermost loop around this stage's tile, consumers first.
  /// They are transforms of an algorithm along other directions, such as those of Winograd's
  /// algorithm. No stages except this one and those listed here read them.
  std::vector<std::string> nested;
  bool reduces = false;
  bool scans = false;  ///< true if the reduction is a scan; the fields below then have their
                       ///< default values
  // The following fields describe reductions. Gathers and scatters, which are reductions too, have
  // a `selection`.
  bool reduces_rows = false;  ///< true if the last reduction axis has at least 32 iterations, and
                              ///< some tensor that the stage reads is contiguous along it
  /// True if vectors whose lanes hold partial results of one element (rfactor) are at least as good
  /// as vectors along any axis of the result.
  bool prefers_lanes = false;
  std::vector<VectorAxis> vector_axes;
  std::vector<std::string> tile_axes;  ///< spatial axes that may be axes of a register tile
  /// Adjacent tile axes that may be fused and tiled as one loop, outermost first, such as y and x
  /// of a convolution without padding. The list has at least two axes, all of one operand of a
  /// product, or is empty.
  std::vector<std::string> fused_axes;
  std::string main_reduction;  ///< the reduction axis that is split into blocks; may be empty
  bool has_dots = false;       ///< true if tiles can have dot products whose terms lie along
                               ///< main_reduction
  std::string lane_axis;       ///< the last reduction axis
  /// In a gather or scatter, the axes whose index is compared with data, and the axes on which the
  /// data depend. For sum(v) select(index[i] == v, table[v, c], 0) they are v and i, respectively.
  /// Empty for other stages.
  dsl::Selection selection;
  ProductAxes product;
  bool placeable() const { return !owner.empty(); }
  bool selects() const { return !selection.selected.empty(); }
  bool is_product() const { return !product.rows.empty(); }
};

struct ComputePlan {
  dsl::Compute compute;  ///< the compute after the prologue, without inlined and merged stages
  Target target;
  /// The layouts that the problem asks for, by name of the tensor. Strategies do not change them.
  std::map<std::string, dsl::Layout> layouts;
  /// The steps with which every schedule begins. They inline stages, make epilogues, set the
  /// layouts that the problem asks for, and prepare stages that read only constants.
  Schedule prologue;
  std::vector<StagePlan> stages;  ///< consumers first; prepared and nested stages are left out
  dsl::CacheState state = dsl::CacheState::Hot;  ///< state of the caches in the problem
  std::string algorithm = {};  ///< name of the algorithm; empty for the direct one
  double expected_error = 0;   ///< Rewritten::expected_error of the algorithm

  const dsl::Stage& stage(const StagePlan& plan) const;
};

/// Analyses the stages of a problem. If `rewritten` is not null, it is the problem's compute as an
/// algorithm rewrote it, and its stages are analysed instead. Fails with Usage if
/// dsl::parse_layout() rejects a layout of the problem, for example the layout of a tensor that is
/// neither an input nor an output. Fails with the error of a step if the prologue is illegal, and
/// with the error of check_not_stopped() if the token stops. The work is bounded by a count and not
/// by a time, so that the plan depends only on the problem and the target. In a compute with
/// thousands of stages the last ones may stay unmerged.
Result<ComputePlan> plan_stages(const Problem& problem, const Target& target,
                                const StopToken& stop = {}, const Rewritten* rewritten = nullptr);

/// True if some stage can use dot products along its blocked reduction (StagePlan::has_dots).
bool has_dot_tiles(const ComputePlan& plan);

/// True if the tensor is packed so that its elements along the vector axis are contiguous. This is
/// true for constant inputs, for results of prepared stages, and for the tensors in
/// `vector.packed`.
bool is_packed_along(const Nest& nests, const VectorAxis& vector, const std::string& tensor);

/// Returns the index of the dimension along which the tensor of the read is contiguous. Requires:
/// the read has indices.
size_t contiguous_dimension(const ComputePlan& plan, const dsl::Read& read);
/// Returns the axes in the given order, except that `contiguous` is moved to the end if it is one
/// of them.
std::vector<std::string> contiguous_last(std::vector<std::string> axes,
                                         const std::string& contiguous);
/// Returns the axes whose value chooses between the two expressions of a select. The map has 4 for
/// the axis y of select(y % 4 == 0, ...), where the remainder by 4 chooses, and 0 for the axis x of
/// select(x == 0, ...), where the axis itself chooses.
std::map<std::string, int64_t> choosing_axes(const Expr& body);
/// Returns the number of elements of the stage's type in a vector register.
int64_t vector_lanes(const Target& target, const dsl::Stage& stage);
/// Returns the extent of a spatial or reduction axis. Requires: the stage has the axis.
int64_t extent_of(const dsl::Stage& stage, const std::string& axis);

}  // namespace tw::schedules

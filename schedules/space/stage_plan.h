// SPDX-License-Identifier: Apache-2.0
#pragma once
// The analysis that search spaces begin with. It decides which stages of a compute are merged into
// other stages, and finds for each remaining stage what strategies need to know: the axes that may
// become vectors or tiles, the axes that it reduces, and where it may be computed. It depends on
// the structure of the stages and on the target, not on any choice. Plain values; thread-safe.

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
/// The shortest reduction axis that is blocked.
inline constexpr int64_t least_blocked_extent = 4;

/// A possible vector axis. Neighbours along it are contiguous in the result, or a few elements
/// apart if no contiguous axis fills a vector.
struct VectorAxis {
  std::string axis;
  std::vector<std::string> packed;  ///< tensors that must be packed so that the axis is contiguous
};

/// The spatial axes of a sum of products, by the operands that use them. In each list the axis
/// along which the result is contiguous is last. All are empty if the stage is no sum of products,
/// or if an operand has no axes of its own.
struct ProductAxes {
  std::vector<std::string> batch;    ///< used by both operands
  std::vector<std::string> rows;     ///< used by the first operand alone
  std::vector<std::string> columns;  ///< used by the second operand alone
};

struct StagePlan {
  std::string name;
  /// The stage in whose loops this one may be computed; empty if it always has loops of its own.
  std::string owner;
  /// stages that read it; an epilogue counts under the name of its reduction
  std::vector<std::string> readers;
  /// The axis along which elements of the result are neighbours in memory; empty if the result is a
  /// single number.
  std::string contiguous;
  /// Stages that are computed in the innermost loop around the stage's tile, consumers first. They
  /// are an algorithm's transforms along another direction, and no other stage reads them.
  std::vector<std::string> nested;
  bool reduces = false;
  bool scans = false;  ///< true if the reduction is a scan; the fields below are then empty
  // The following fields are for reductions; gathers have a selection too.
  bool reduces_rows = false;  ///< true if it reduces a long axis along which a tensor is contiguous
  /// true if lanes of a partial result are at least as good as any vector axis
  bool prefers_lanes = false;
  std::vector<VectorAxis> vector_axes;
  std::vector<std::string> tile_axes;  ///< spatial axes that may join a register tile
  /// Adjacent tile axes that may be fused and tiled as one loop, outermost first. They are at least
  /// two axes of one operand of a product, and none is padded. Empty if there are none.
  std::vector<std::string> fused_axes;
  std::string main_reduction;  ///< the reduction axis that is blocked; may be empty
  bool has_dots = false;       ///< true if tiles can have dot products along main_reduction
  std::string lane_axis;       ///< the last reduction axis
  /// The axes that data select in a gather or scatter, and the axes on which the selecting data
  /// depend. Empty for other stages.
  dsl::Selection selection;
  ProductAxes product;
  bool placeable() const { return !owner.empty(); }
  bool selects() const { return !selection.selected.empty(); }
  bool is_product() const { return !product.rows.empty(); }
};

struct ComputePlan {
  dsl::Compute compute;  ///< the compute after the prologue, without inlined and merged stages
  Target target;
  /// The layouts that the problem asks for, by tensor. Strategies do not change them.
  std::map<std::string, dsl::Layout> layouts;
  /// The steps that every schedule begins with: inlines, epilogues, the layouts of the problem, and
  /// prepared stages.
  Schedule prologue;
  std::vector<StagePlan> stages;  ///< consumers first; prepared and nested stages are left out
  dsl::CacheState state = dsl::CacheState::Hot;  ///< state of the caches in the problem
  std::string algorithm = {};  ///< name of the algorithm; empty for the direct one
  double expected_error = 0;   ///< error to expect (Rewritten::expected_error)

  const dsl::Stage& stage(const StagePlan& plan) const;
};

/// Analyses the stages of a problem. `rewritten`, if not null, is the problem's compute as an
/// algorithm rewrote it. Usage if the problem asks for the layout of a tensor that is neither an
/// input nor an output, or for text that is no layout of its tensor; as check_not_stopped() if the
/// token stops. The work is bounded by a count, so that the plan depends only on the problem and
/// the target. In a compute with thousands of stages the last ones may stay unmerged.
Result<ComputePlan> plan_stages(const Problem& problem, const Target& target,
                                const StopToken& stop = {}, const Rewritten* rewritten = nullptr);

/// True if tiles of some stage can have dot products along its blocked reduction.
bool has_dot_tiles(const ComputePlan& plan);

/// True if the tensor is packed in tiles along the vector axis: if it is constant or prepared, or
/// if the axis requires it to be packed.
bool is_packed_along(const Nest& nests, const VectorAxis& vector, const std::string& tensor);

/// The dimension of the read along which its tensor is contiguous. Requires: the read has indices.
size_t contiguous_dimension(const ComputePlan& plan, const dsl::Read& read);
/// The axes in their order, except that the contiguous one is moved last if it is among them.
std::vector<std::string> contiguous_last(std::vector<std::string> axes,
                                         const std::string& contiguous);
/// The axes whose value chooses between expressions, select(x == 0, ...) or select(y % 4 == 0,
/// ...), with the number of choices: 0 for x, 4 for y % 4.
std::map<std::string, int64_t> choosing_axes(const Expr& body);
/// Number of elements of the stage's type in a vector register.
int64_t vector_lanes(const Target& target, const dsl::Stage& stage);
/// The extent of an axis of the stage. Requires: the stage has the axis, spatial or reduced.
int64_t extent_of(const dsl::Stage& stage, const std::string& axis);

}  // namespace tw::schedules

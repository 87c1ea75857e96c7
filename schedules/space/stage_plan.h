// SPDX-License-Identifier: Apache-2.0
#pragma once
// The analysis that search spaces begin with: which stages of a compute are merged into others, and
// what strategies ask of each of the rest: which axes may become vectors or tiles, what it reduces,
// and where it may be computed. It depends on the structure of the stages and on the target, not on
// any choice. Plain values; thread-safe.

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

/// A possible vector axis, with the tensors that it requires to be packed. Neighbours along it are
/// contiguous in the result, or a few elements apart where no contiguous axis fills a vector.
struct VectorAxis {
  std::string axis;
  std::vector<std::string> packed;  ///< tensors that must be packed so that the axis is contiguous
};

/// The axes of a reduction of a product by the operands that use them, that along which the result
/// is contiguous last; none where it is no product, or an operand has no axes of its own.
struct ProductAxes {
  std::vector<std::string> batch;    ///< of both
  std::vector<std::string> rows;     ///< of the first operand alone
  std::vector<std::string> columns;  ///< of the second alone
};

struct StagePlan {
  std::string name;
  /// The stage in whose loops this one may be computed; empty if it always has loops of its own.
  std::string owner;
  std::vector<std::string> readers;  ///< stages that read it; an epilogue by its reduction's name
  /// The axis along which elements of the result are neighbours in memory; empty for a single
  /// number.
  std::string contiguous;
  /// The stages that are computed in the innermost loop around the stage's tile, consumers first:
  /// transforms of an algorithm along another direction. Nobody else reads them.
  std::vector<std::string> nested;
  bool reduces = false;
  bool scans = false;  ///< a reduction that is a scan, of which the fields below are empty
  // Fields of reductions; gathers have a selection too:
  bool reduces_rows = false;   ///< over a long axis along which a tensor is contiguous
  bool prefers_lanes = false;  ///< no vector axis is better than the lanes of a partial result
  std::vector<VectorAxis> vector_axes;
  std::vector<std::string> tile_axes;  ///< spatial axes that may join a register tile
  /// Neighbours among the tile axes that may be tiled as one fused loop, outermost first: at least
  /// two axes of one operand of a product, none of which is padded; or empty.
  std::vector<std::string> fused_axes;
  std::string main_reduction;  ///< the reduction axis that is blocked; may be empty
  bool has_dots = false;       ///< tiles can have dot products along it
  std::string lane_axis;       ///< the last reduction axis
  /// The axes that data select in a gather or scatter, and the axes that their indices depend on.
  /// Empty for other stages.
  dsl::Selection selection;
  ProductAxes product;
  bool placeable() const { return !owner.empty(); }
  bool selects() const { return !selection.selected.empty(); }
  bool is_product() const { return !product.rows.empty(); }
};

struct ComputePlan {
  dsl::Compute compute;  ///< after the prologue: inlined and merged stages are gone
  Target target;
  /// Layouts that the problem asks for, by tensor: no strategy chooses others.
  std::map<std::string, dsl::Layout> layouts;
  /// Inlines, epilogues, the layouts asked for and prepared stages, the same for every point.
  Schedule prologue;
  std::vector<StagePlan> stages;  ///< consumers first; without prepared and nested ones
  dsl::CacheState state = dsl::CacheState::Hot;  ///< of the problem
  std::string algorithm = {};                    ///< its name; empty: direct
  double expected_error = 0;                     ///< of the algorithm (Rewritten::expected_error)

  const dsl::Stage& stage(const StagePlan& plan) const;
};

/// Usage where the problem asks for the layout of a tensor that is neither an input nor an
/// output, or for what is no layout of it; as check_not_stopped() where the token stopped. The work
/// is bounded by a count, so that the plan depends on the problem and the target alone: in a
/// compute with thousands of stages the last ones may stay unmerged.
/// `rewritten`, which may be null, is what an algorithm makes of the problem's compute.
Result<ComputePlan> plan_stages(const Problem& problem, const Target& target,
                                const StopToken& stop = {}, const Rewritten* rewritten = nullptr);

/// True if tiles of some stage can have dot products along its blocked reduction.
bool has_dot_tiles(const ComputePlan& plan);

/// True if tiles along the vector axis have the tensor packed: it is constant, prepared, or one
/// that the axis requires to be packed.
bool is_packed_along(const Nest& nests, const VectorAxis& vector, const std::string& tensor);

/// The index of the read's dimension along which its tensor is contiguous. Requires: it has
/// indices.
size_t contiguous_dimension(const ComputePlan& plan, const dsl::Read& read);
/// The axes in their order, but the contiguous one, if it is among them, last.
std::vector<std::string> contiguous_last(std::vector<std::string> axes,
                                         const std::string& contiguous);
/// The axes by whose value the expression is chosen, select(x == 0, ...) or select(y % 4 == 0,
/// ...), with the number of values: 0 for x, 4 for y % 4.
std::map<std::string, int64_t> choosing_axes(const Expr& body);
/// Elements of the stage's type in a vector register.
int64_t vector_lanes(const Target& target, const dsl::Stage& stage);
/// Requires: an axis of the stage, spatial or reduced.
int64_t extent_of(const dsl::Stage& stage, const std::string& axis);

}  // namespace tw::schedules

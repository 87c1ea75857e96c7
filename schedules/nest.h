// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nest: the representation that steps change. Each stage has a list of loops, outermost first, and
// its axes as expressions of them. A step changes the entry of one stage, and lower() turns the
// nest into a Program. A value.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/compute.h"
#include "dsl/layout.h"
#include "schedules/program/bounds.h"
#include "schedules/step.h"

namespace tw::schedules {

struct NestLoop {
  std::string name;      ///< the name in steps: "x.1"
  std::string variable;  ///< the name in the Program: unique over all stages
  int64_t extent = 1;
  LoopKind kind = LoopKind::Serial;
  bool parallel = false;
  bool reduction = false;            ///< of a reduction; or along which the stage scans
  bool overlaps = false;             ///< split with a shifted tail: iterations may share elements
  const TensorTile* tile = nullptr;  ///< set for the outermost loop of a tensor tile
};

/// One stage. `axis` expressions are over the variables of its loops and, when the stage is placed
/// in a consumer's loop, over those of the consumer's loops around it.
struct StageNest {
  dsl::Stage stage;
  std::vector<NestLoop> loops;
  /// A name that the schedule's author gave to a loop (loop_names.h). The loop may have been split
  /// or fused since.
  struct OwnName {
    std::string name, loop;
  };
  std::vector<OwnName> own_names;
  dsl::Substitution axis;
  std::vector<Expr> guards;  ///< tails of splits, and edges of regions

  struct Placement {
    std::string consumer, loop;
  };
  std::optional<Placement> at;
  std::vector<Expr> region_offset;  ///< if placed: region in its buffer, one entry for each axis
  std::vector<int64_t> region_extent;
  /// A buffer that outlives the iterations of the loop that the stage is computed at (store_at).
  /// Each iteration moves the region forward along one dimension and computes the part that is new.
  /// The element at index i of that dimension lies at i % its region_extent.
  struct Window {
    size_t dimension;
    int64_t step;    ///< elements that an iteration computes
    int64_t warmup;  ///< iterations before the first one, which compute the elements before those
  };
  std::optional<Window> window;
  /// The stage is a staged operand of its consumer, indexed by the consumer's loops
  /// (cache_operand). Where one of `zero_filled_guards`, guards of the consumer, fails, it holds
  /// the neutral element; where the guard is of the consumer's results, it may hold another element
  /// of a padded tensor, which no result uses.
  bool is_staged_operand = false;
  std::vector<Expr> zero_filled_guards;
  /// The stage copies results of its `at->consumer` from a shared buffer to their tensor
  /// (cache_result): variables of the consumer's loops, one for each dimension of the buffer. Empty
  /// for all other stages.
  std::vector<std::string> copied_loops;
  bool copies_results() const { return !copied_loops.empty(); }
  bool prepared = false;     ///< it is computed when constants are loaded (prepare)
  bool specialised = false;  ///< its TMA copies are issued by producer warps
  bool persistent = false;   ///< blocks of threads compute several of its tasks
  int64_t depth = 1;  ///< iterations that its buffer holds of the loop it is computed at (pipeline)
  /// The buffer's dimensions from `dimension` on are fused into one with additional elements.
  struct Padding {
    size_t dimension;
    int64_t elements;
  };
  std::optional<Padding> padding;
  int swizzle = 0;  ///< swizzle of its buffer (Buffer::swizzle)

  /// While an iteration of `loop` runs, the iterations of `at` request the cache lines of `tensor`
  /// that its next iteration reads.
  struct Ahead {
    std::string tensor, loop, at;
  };
  std::vector<Ahead> prefetches;

  struct Cache {
    std::string loop;
    Scope scope;
  };
  std::optional<Cache> cache;
  std::optional<dsl::Stage> epilogue;

  int find_loop(const std::string& name) const;  ///< index, or -1
  /// The tensor that the stage's nest writes: its own, or its epilogue's.
  const std::string& result() const { return epilogue ? epilogue->name : stage.name; }
};

struct Nest {
  dsl::Compute compute;           ///< the compute as rewritten by steps
  std::vector<StageNest> stages;  ///< stages that have loops, in dependency order
  std::map<std::string, dsl::Layout> layouts;

  StageNest* find(const std::string& stage);
  const StageNest* find(const std::string& stage) const;
};

/// The nest with one loop for each axis in the order of the declaration: axes, then reduction axes.
Nest default_nest(const dsl::Compute& compute);

/// Applies one step. An illegal step fails with ErrorCode::Invalid; the message gives the reason
/// and the loops of the stage, and the nest must not be used any more.
Status apply(Nest& nest, const Step& step);

/// Calls `visit` with every read of a tensor in the expression, those inside of indices too.
void for_each_read(const Expr& body, const std::function<void(const dsl::Read&)>& visit);
/// True if an index of the read uses the axis.
bool uses_axis(const dsl::Read& read, const std::string& axis);

/// True if the stage or its epilogue reads the tensor.
bool reads(const StageNest& stage, const std::string& tensor);

/// The operands of a reduction's term: the factors of a product, or the term itself.
std::vector<Expr> operands_of(const dsl::Stage& stage);
/// An operand without its conversion to a wider type, the form in which it is staged.
Expr unwidened(const Expr& operand);
/// True if the stage sums products in the operand and accumulator types of the tile.
bool sums_products_of(const dsl::Stage& stage, const TensorTile& tile);

/// The bounds of the variables of the stage's own loops.
Bounds bounds_of_loops(const StageNest& stage);

/// The loop of its consumer that a placed stage is computed at.
const NestLoop& loop_around(const Nest& nest, const StageNest& placed);

/// The stage that copies the results of `stage` from a shared buffer; null if there is none.
const StageNest* copy_of_results(const Nest& nest, const std::string& stage);

/// The name of a loop in messages: "n.0", or "no (n.0)" if its author named it.
std::string shown_name(const StageNest& stage, const NestLoop& loop);

/// "for k.0 in 0..4 / for x in 0..56 ...": the loops of a stage on one line.
std::string describe(const StageNest& stage);

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nest: the loop nests that scheduling steps rewrite. Each stage has a list of loops, outermost
// first, and an expression for each axis in terms of the loops. A step changes the loops and
// expressions of the stages that it names. lower() turns the nest into a Program. A Nest is a plain
// value.

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
  std::string name;  ///< the name in steps: "x.1"
  /// The name in the Program, unique over all stages. A step that changes the meaning of a loop
  /// gives the loop a new variable, because expressions of other stages may still use the old
  /// variable.
  std::string variable;
  int64_t extent = 1;
  LoopKind kind = LoopKind::Serial;
  bool parallel = false;
  /// true if the loop runs over a reduction axis, or over the axis along which the stage scans
  bool reduction = false;
  /// true if a split with a shifted tail made the loop, so that two iterations may compute the same
  /// element
  bool overlaps = false;
  const TensorTile* tile = nullptr;  ///< set for the outermost loop of a tensor tile
};

/// The loops of one stage. `axis` has the value of each axis as an expression of loop variables:
/// after `split c m 6`, m is m.0 * 6 + m.1. If the stage is placed in a loop of its consumer, the
/// expressions also use the variables of the consumer's loops around the stage.
struct StageNest {
  dsl::Stage stage;
  std::vector<NestLoop> loops;
  /// A name that the schedule's author gave to a loop (loop_names.h): `name` is the own name and
  /// `loop` the derived name of the loop. Later steps may have split or fused the loop.
  struct OwnName {
    std::string name, loop;
  };
  std::vector<OwnName> own_names;
  dsl::Substitution axis;
  std::vector<Expr> guards;  ///< conditions; an iteration runs only if all of them hold

  struct Placement {
    std::string consumer, loop;
  };
  std::optional<Placement> at;
  /// Used if the stage is computed in a loop of its consumer (`at`). The stage's buffer then holds
  /// a region of its tensor, which begins at the indices `region_offset` and has the size
  /// `region_extent`. Both have one entry for each axis.
  std::vector<Expr> region_offset;
  std::vector<int64_t> region_extent;
  /// A sliding window (store_at): the buffer is kept from one iteration to the next of the loop at
  /// which the stage is computed. Each iteration moves the region forward by `step` elements along
  /// `dimension`, and computes only these new elements. Along `dimension` the buffer is circular:
  /// with a region of 3 rows, row 5 is stored as row 5 % 3 = 2.
  struct Window {
    size_t dimension;
    int64_t step;    ///< number of elements that an iteration computes
    int64_t warmup;  ///< number of extra iterations before the first, which fill the window
  };
  std::optional<Window> window;
  /// True if the stage computes a staged operand of its consumer (cache_operand). The axes of the
  /// stage are then loops of the consumer, and `zero_filled_guards` are guards of the consumer. For
  /// iterations in which one of these guards fails, the buffer holds the neutral element, such as 0
  /// for a sum. Guards that limit only the results of the consumer are an exception if the tensor
  /// is padded. Where such a guard fails, the buffer may hold any element of the tensor, because no
  /// result uses it.
  bool is_staged_operand = false;
  std::vector<Expr> zero_filled_guards;
  /// Not empty if the stage copies its consumer's results from a shared buffer to their tensor
  /// (cache_result). It then has an entry for each dimension of the buffer: the variable of the
  /// loop of `at->consumer` that indexes the dimension.
  std::vector<std::string> copied_loops;
  bool copies_results() const { return !copied_loops.empty(); }
  bool prepared = false;     ///< computed once, when constants are loaded (prepare)
  bool specialised = false;  ///< producer warps issue its TMA copies (specialise)
  bool persistent = false;  ///< each block of threads computes several tasks of the stage (persist)
  /// Number of blocks of threads that must fit into the registers of a multiprocessor at once
  /// (launch_bounds).
  int64_t resident_blocks = 1;
  /// Number of iterations whose data the buffer holds at once (pipeline); 1 without a pipeline. The
  /// iterations are those of the loop at which the stage is computed.
  int64_t depth = 1;
  /// Padding of the buffer (pad): the dimensions from `dimension` inwards become one dimension,
  /// with `elements` unused elements at its end. Padding of 8 from dimension 1 on turns [4, 32]
  /// into [4, 40].
  struct Padding {
    size_t dimension;
    int64_t elements;
  };
  std::optional<Padding> padding;
  int swizzle = 0;  ///< swizzle of the stage's buffer (Buffer::swizzle)
  /// If set, each thread keeps the elements that it computes in a buffer of its own in this scope
  /// (store_in). The buffer then has a dimension for each loop of the stage, not for each axis.
  std::optional<Scope> stored_in;

  /// A prefetch: while an iteration of `loop` runs, the cache lines of `tensor` that the next
  /// iteration of `loop` reads are requested. Each iteration of `at`, a loop inside of `loop`,
  /// makes an equal part of the requests.
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

  int find_loop(const std::string& name) const;  ///< index of the loop; -1 if there is none
  /// Returns the name of the tensor that the loops write: the epilogue's if there is an epilogue,
  /// else the stage's.
  const std::string& result() const { return epilogue ? epilogue->name : stage.name; }
};

struct Nest {
  dsl::Compute compute;           ///< the compute as rewritten by steps
  std::vector<StageNest> stages;  ///< stages that have loops, in dependency order
  std::map<std::string, dsl::Layout> layouts;

  StageNest* find(const std::string& stage);
  const StageNest* find(const std::string& stage) const;
};

/// Returns the nest before any step. Each stage has one loop for each axis, in the order of the
/// declaration, with reduction axes innermost.
Nest default_nest(const dsl::Compute& compute);

/// Applies one step to the nest. Invalid if the step is illegal: the message gives the reason and
/// the loops of the stage. After an error the nest must not be used.
Status apply(Nest& nest, const Step& step);

/// Calls `visit` for every read of a tensor in the expression, including reads in indices.
void for_each_read(const Expr& body, const std::function<void(const dsl::Read&)>& visit);
/// True if an index of the read uses the axis.
bool uses_axis(const dsl::Read& read, const std::string& axis);

/// True if the stage or its epilogue reads the tensor.
bool reads(const StageNest& stage, const std::string& tensor);

/// Returns the operands of a reduction's term: both factors if the stage sums products, else the
/// term alone.
std::vector<Expr> operands_of(const dsl::Stage& stage);
/// Returns the operand without its conversion to a wider type: a[m, k] for i32(a[m, k]). Operands
/// are staged in this form.
Expr unwidened(const Expr& operand);
/// True if the stage sums products of two factors, the tile accepts the unwidened() types of both
/// factors, and the stage has the type of the tile's accumulators.
bool sums_products_of(const dsl::Stage& stage, const TensorTile& tile);

/// Returns the bounds of the stage's own loop variables.
Bounds bounds_of_loops(const StageNest& stage);

/// Returns the loop of the consumer at which the stage `placed` is computed.
const NestLoop& loop_around(const Nest& nest, const StageNest& placed);

/// Returns the stage that copies the results of `stage` from a shared buffer to their tensor
/// (cache_result); null if there is none.
const StageNest* copy_of_results(const Nest& nest, const std::string& stage);

/// Returns the name of a loop for messages: "n.0", or "no (n.0)" if the schedule's author named the
/// loop `no`.
std::string shown_name(const StageNest& stage, const NestLoop& loop);

/// Prints the stage and its loops on one line: "c: for k.0 in 0..4 / for x in 0..56".
std::string describe(const StageNest& stage);

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Program: what a schedule means. Explicit loops, buffers and statements; every target, the
// legality check, the cost features and the printers read this and nothing else.
//
// A kernel is a list of phases with a barrier between them. A phase is a body and task axes; each
// combination of their values is one task, and tasks of a phase may run in any order or at once.
// On a GPU a task is a block, and the iterations of its thread loops are the block's threads: loops
// over threads that directly contain each other are one nest, whose iterations run in any order or
// at once, numbered row by row. What stands between the nests of a task is done by all threads
// together, and a barrier orders what threads do before it and after it (threads.h).
//
// Buffers are accessed by one index per storage dimension; index expressions are Int64 expressions
// of the loop variables and task axes in scope. All values are immutable and safe to share.
//
//   phase 0, tasks 112                          # k.0 2 * y 56
//     for x.0 in 0..4
//       acc: register f32[14, 2, 16]
//       unroll x.1 in 0..14  ...  acc[x.1, k.1, v] = 0.0

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/pool_allocator.h"
#include "base/visit.h"
#include "dsl/compute.h"
#include "dsl/expr.h"
#include "dsl/layout.h"

namespace tw::schedules {

using dsl::Combine;
using dsl::Expr;

/// Where a buffer lives. Argument: the caller's. Scratch: an arena that outlives phases and is
/// shared by tasks. Shared: memory of one task that all of its threads see. Local: memory of one
/// task, or of one thread where it has several. Register: as Local, small enough to be promoted
/// after unrolling.
enum class Scope { Argument, Scratch, Shared, Local, Register };
std::string_view to_string(Scope scope);

/// Extents are storage extents, outermost first; the memory is dense and row-major over them.
struct Buffer {
  std::string name;
  DType type = Float32;
  std::vector<int64_t> extents;
  Scope scope = Scope::Argument;
  /// Of Shared buffers, 32, 64 or 128: on a GPU an element lies at swizzled(its dense byte), from a
  /// multiple of swizzle_period() on. 0: where it does in dense memory.
  int swizzle = 0;

  int64_t elements() const;
  int64_t bytes() const { return elements() * size_bytes(type); }
  /// The bytes after which a swizzle repeats; the buffer has a multiple of them. 1 without one.
  int64_t swizzle_period() const { return swizzle > 0 ? 8 * swizzle : 1; }
  /// What CU_TENSOR_MAP_SWIZZLE_32B, 64B and 128B make of an address.
  int64_t swizzled(int64_t byte) const {
    return swizzle > 0 ? byte ^ ((byte >> 7 & (swizzle / 16 - 1)) << 4) : byte;
  }
};

/// A kernel argument: its buffer, and how that storage relates to the logical tensor.
struct Argument {
  Buffer buffer;
  std::vector<int64_t> shape;  ///< logical
  dsl::Layout layout;
  std::string letters;
  bool is_output = false;
  bool constant = false;  ///< may be packed ahead of the call
};

enum class LoopKind { Serial, Unrolled, Vector, Thread, Tensor, Reduce, Bulk };
std::string_view to_string(LoopKind kind);

struct Stmt;
struct TensorTile;
using Block = std::vector<Stmt, PoolAllocator<Stmt>>;
using BlockPtr = std::shared_ptr<const Block>;

/// What a loop uses was copied by earlier iterations, asynchronously, into memory that the threads
/// of a task share: iteration k uses slot k % slots of the buffers. An iteration begins when the
/// copies for it and for the `ahead` - 1 iterations after it have been started, each in a group of
/// its own (Commit); it begins by a Wait for the first of these groups, and a Barrier.
struct LoopPipeline {
  int64_t ahead = 1;  ///< iterations from the start of a copy to its use
  int64_t slots = 2;  ///< of each buffer
  friend bool operator==(const LoopPipeline&, const LoopPipeline&) = default;
};

/// Runs body for variable = begin, ..., end - 1; not at all when end <= begin.
/// All but Serial loops have literal bounds, Thread loops from 0. Three Tensor loops inside each
/// other are a tile that the threads of a warp compute together (tensor_tiles.h). A Reduce loop
/// stands outside of thread loops, and around one combining Assign to one element: the threads of a
/// warp may share the iterations and combine what they have, in any order. Bulk loops inside
/// each other are a box that is copied as a whole (bulk_copies.h).
struct Loop {
  std::string variable;
  Expr begin, end;
  LoopKind kind = LoopKind::Serial;
  BlockPtr body;
  const TensorTile* tile = nullptr;  ///< of the outermost of a tile
  /// Of a Serial loop with literal bounds, from 0, outside of thread loops.
  std::optional<LoopPipeline> pipeline = std::nullopt;
};
struct If {
  Expr condition;
  BlockPtr body;
  /// All threads of the task that come here in the same iteration of the loops around find the
  /// condition the same, so that no warp takes both ways.
  bool uniform = false;
};
/// Decides which of two values is stored: the first exists under a condition only, such as that an
/// element is not beyond the edge of a tensor.
struct Guard {
  Expr condition;
  Expr otherwise;        ///< a literal, stored where the condition does not hold
  bool uniform = false;  ///< as If::uniform
};
/// buffer[indices] = value, or combine(buffer[indices], value). With a guard, the value is
/// evaluated and stored where the condition holds, and `otherwise` is stored where it does not;
/// nothing is combined.
struct Assign {
  std::string buffer;
  std::vector<Expr> indices;
  Expr value;
  Combine combine = Combine::None;
  /// The element may arrive any time before the thread has waited for the group of this copy; until
  /// then nobody touches it. Only where a read or a zero is stored in a Shared buffer; another
  /// literal of the guard is stored at once.
  bool asynchronous = false;
  std::optional<Guard> guard = std::nullopt;
};
/// `buffer` exists, uninitialised, within body. Outside of thread loops, a Local or Register buffer
/// has a dimension for each of the loops that threads are numbered by, and a thread touches only
/// the elements of its own number.
struct Allocate {
  Buffer buffer;
  BlockPtr body;
};
/// All threads of the task arrive before one goes on, and see what was written. No meaning for the
/// values where iterations run one by one.
struct Barrier {};
/// What each thread of the task has begun to copy asynchronously since its last commit is a group,
/// an empty one where there is nothing. Like waits, commits stand outside of thread loops.
struct Commit {};
/// Each thread goes on when all but its last `pending` groups have arrived; for others to see what
/// it copied, a barrier follows.
struct Wait {
  int64_t pending = 0;
};

struct Stmt {
  std::variant<Loop, If, Assign, Allocate, Barrier, Commit, Wait> value;
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};

/// Calls the handler of the statement's kind. The handlers name all kinds (base/visit.h): a new
/// kind does not compile until every walker says what it means there.
template <typename... Handlers>
decltype(auto) visit(const Stmt& stmt, Handlers&&... handlers) {
  return visit_each(stmt.value, std::forward<Handlers>(handlers)...);
}

BlockPtr block(Block statements);
/// A block of one statement, moved.
Block single(Stmt statement);

/// The statements inside of a loop, condition or allocation; null for the other kinds.
const Block* body_of(const Stmt& stmt);
/// The loop, condition or allocation around another body; a statement of another kind as it is.
Stmt with_body(const Stmt& stmt, BlockPtr body);

struct TaskAxis {
  std::string variable;
  int64_t extent;
};

struct Phase {
  std::string name;  ///< of the stage that it computes
  std::vector<TaskAxis> axes;
  BlockPtr body;
  /// Boxes may be asked for by threads beside those of the body, ahead of it (specialised.h).
  bool specialised = false;
  int64_t tasks() const;
};

struct Program {
  std::vector<Argument> arguments;  ///< inputs in declaration order, then outputs
  std::vector<Buffer> scratch;
  std::vector<Phase> phases;

  const Buffer* find_buffer(const std::string& name) const;  ///< arguments and scratch
};

/// Prints the loop nest; docs/schedules.md explains the notation.
std::string to_string(const Program& program);
std::string to_string(const Block& body, int indent);

/// The same for programs that print alike, and for others hardly ever. Of one process: not to be
/// stored.
size_t hash(const Program& program);

/// Calls `see` on each statement, parents first.
void for_each(const Block& body, const std::function<void(const Stmt&)>& see);

/// Calls `see` on the statement's own expressions (bounds, conditions, indices, values), not on
/// those of the statements inside of it.
void for_each_expression(const Stmt& stmt, const std::function<void(const Expr&)>& see);

/// An element of a buffer that a statement reads or stores.
struct BufferAccess {
  const std::string& buffer;
  const std::vector<Expr>& indices;
  bool is_store = false;
};
/// Calls `see` on each access of the statement itself, the store first.
void for_each_access(const Stmt& stmt, const std::function<void(const BufferAccess&)>& see);

/// Rebuilds a block with each expression (conditions, bounds, indices, values) replaced.
Block map_expressions(const Block& body, const std::function<Expr(const Expr&)>& f);

/// The statements that store in the code of an assignment: with a guard two.
inline int64_t stores(const Assign& assign) { return assign.guard ? 2 : 1; }

/// The guarded assignment under another condition, and without a guard where that is a literal.
Assign with_condition(Assign assign, const Expr& condition);

/// A guarded assignment as a target has it that stores either value by a branch.
struct Branches {
  If taken;                   ///< stores the value
  If otherwise;               ///< stores the literal, under the negation
  bool stores_zeros = false;  ///< the literal's bytes are all 0
};
/// Of a guarded assignment, or of a vector loop around one whose lanes share the condition, so that
/// both stores are vectors. nullopt: it is something else.
std::optional<Branches> branches_of(const Stmt& stmt);
/// The body with these branches in place of guarded assignments.
Block with_branches(const Block& body);

/// Every buffer that the body allocates, in order of appearance.
std::vector<Buffer> local_buffers(const Block& body);

}  // namespace tw::schedules

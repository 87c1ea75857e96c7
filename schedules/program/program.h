// SPDX-License-Identifier: Apache-2.0
#pragma once
// Program: the meaning of a schedule as explicit loops, buffers and statements. Every target, the
// legality check, the cost features and the printers read this and nothing else.
//
// A kernel is a list of phases with a barrier between them. A phase is a body and task axes; each
// combination of their values is one task, and tasks of a phase may run in any order or at once.
// On a GPU a task is a block, and the iterations of its thread loops are the block's threads: loops
// over threads that directly contain each other are one nest, whose iterations run in any order or
// at once, numbered row by row. All threads go through the statements between the nests of a task
// together, and a barrier orders the accesses of threads before it and after it (threads.h).
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

/// The memory that holds a buffer. Argument: memory of the caller. Scratch: an arena that outlives
/// phases and is shared by tasks. Shared: memory of one task that all of its threads access. Local:
/// memory of one task, or of one thread if the task has several. Register: like Local, but small
/// enough to be promoted to registers after unrolling.
enum class Scope { Argument, Scratch, Shared, Local, Register };
std::string_view to_string(Scope scope);

/// Extents are storage extents, outermost first; the memory is dense and row-major over them.
struct Buffer {
  std::string name;
  DType type = Float32;
  std::vector<int64_t> extents;
  Scope scope = Scope::Argument;
  /// 0, or 32, 64 or 128 for Shared buffers: then on a GPU the buffer begins at a multiple of
  /// swizzle_period(), and an element lies at swizzled(its offset in dense memory). 0: dense.
  int swizzle = 0;

  int64_t elements() const;
  int64_t bytes() const { return elements() * size_bytes(type); }
  /// Number of bytes after which the swizzle repeats, 1 without one. The size of the buffer is a
  /// multiple of it.
  int64_t swizzle_period() const { return swizzle > 0 ? 8 * swizzle : 1; }
  /// The address to which CU_TENSOR_MAP_SWIZZLE_32B, 64B or 128B moves a byte.
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
  bool constant = false;       ///< its value is constant: it may be packed ahead of the call
  bool prepared = false;       ///< the preparation computes it, from constant inputs
  bool only_prepares = false;  ///< an input that the preparation reads, and no phase
};

enum class LoopKind { Serial, Unrolled, Vector, Thread, Tensor, Reduce, Bulk };
std::string_view to_string(LoopKind kind);

struct Stmt;
struct TensorTile;
using Block = std::vector<Stmt, PoolAllocator<Stmt>>;
using BlockPtr = std::shared_ptr<const Block>;

/// A pipelined loop: earlier iterations copy the data that an iteration uses, asynchronously, to
/// memory that the threads of a task share. Iteration k uses slot k % slots of the buffers. When an
/// iteration begins, the copies for it and for the `ahead` - 1 iterations after it have been
/// started, each in a commit group of its own (Commit); its first statements are a Wait for the
/// first of these groups, and a Barrier.
struct LoopPipeline {
  int64_t ahead = 1;  ///< iterations from the start of a copy to its use
  int64_t slots = 2;  ///< slots of each buffer
  friend bool operator==(const LoopPipeline&, const LoopPipeline&) = default;
};

/// Runs body for variable = begin, ..., end - 1; not at all when end <= begin. All but Serial loops
/// have literal bounds, Thread loops from 0. Nested Tensor loops are a tile that the threads of a
/// warp compute together (tensor_tiles.h), or one of a core (core_tiles.h). A Reduce loop stands
/// outside of thread loops, and around one combining Assign to one element: the threads of a warp
/// may share the iterations and combine their partial results in any order. Nested Bulk loops are a
/// box that one TMA copy moves (tma_copies.h).
struct Loop {
  std::string variable;
  Expr begin, end;
  LoopKind kind = LoopKind::Serial;
  BlockPtr body;
  const TensorTile* tile = nullptr;  ///< set for the outermost loop of a tensor tile
  /// Set only for a Serial loop outside of thread loops, with literal bounds from 0.
  std::optional<LoopPipeline> pipeline = std::nullopt;
};
struct If {
  Expr condition;
  BlockPtr body;
  /// All threads of the task that evaluate the condition in the same iteration of the loops around
  /// it find the same value, so that no warp diverges.
  bool uniform = false;
};
/// Selects which of two values is stored. The first may be evaluated only under the condition, for
/// instance that an element is not beyond the edge of a tensor.
struct Guard {
  Expr condition;
  Expr otherwise;        ///< literal that is stored where the condition fails
  bool uniform = false;  ///< see If::uniform
};
/// buffer[indices] = value, or combine(buffer[indices], value). With a guard, the value is
/// evaluated and stored where the condition holds, and `otherwise` is stored where it does not;
/// nothing is combined.
struct Assign {
  std::string buffer;
  std::vector<Expr> indices;
  Expr value;
  Combine combine = Combine::None;
  /// The copy may complete any time before the thread has waited for its commit group; until then
  /// nobody accesses the element. Allowed only if a read or a zero is stored in a Shared buffer;
  /// another literal of the guard is stored at once.
  bool asynchronous = false;
  std::optional<Guard> guard = std::nullopt;
};
/// `buffer` exists within body, at first uninitialised. A Local or Register buffer that is
/// allocated outside of thread loops has a dimension for each loop that numbers the threads, and a
/// thread accesses only the elements of its own number.
struct Allocate {
  Buffer buffer;
  BlockPtr body;
};
/// A barrier of all threads of the task, after which they see each other's earlier writes. It has
/// no effect on values if iterations run one by one.
struct Barrier {};
/// Ends a commit group: the asynchronous copies that a thread has begun since its last commit,
/// possibly none. Like waits, commits stand outside of thread loops.
struct Commit {};
/// Each thread waits until all but its last `pending` commit groups have arrived. A barrier must
/// follow before other threads can read the copies.
struct Wait {
  int64_t pending = 0;
};

/// Requests `lines` consecutive cache lines of an argument, from element `offset` of its memory on,
/// that later statements will read. It has no effect on values, so it may be executed under fewer
/// conditions or not at all. Each line begins inside of the buffer.
struct PrefetchLines {
  std::string buffer;
  Expr offset;  ///< in elements
  int64_t lines = 1;
};
inline constexpr int64_t prefetched_line_bytes = 64;

struct Stmt {
  std::variant<Loop, If, Assign, Allocate, Barrier, Commit, Wait, PrefetchLines> value;
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
/// The loop, condition or allocation with another body; a statement of another kind unchanged.
Stmt with_body(const Stmt& stmt, BlockPtr body);

struct TaskAxis {
  std::string variable;
  int64_t extent;
};

struct Phase {
  std::string name;  ///< name of the stage that the phase computes
  std::vector<TaskAxis> axes;
  BlockPtr body;
  /// Producer warps, additional to the threads of the body, may issue its TMA copies
  /// (specialised.h).
  bool specialised = false;
  /// A block of threads may compute several tasks one after another (specialised.h).
  bool persistent = false;
  int64_t tasks() const;
};

struct Program {
  std::vector<Argument> arguments;  ///< inputs in declaration order, outputs, prepared buffers
  std::vector<Buffer> scratch;
  std::vector<Phase> phases;
  /// Computes the prepared buffers, which are its outputs, from constant inputs of this program. It
  /// runs before the first call, and again when one of these inputs changes. Null: there are none.
  std::shared_ptr<const Program> preparation = nullptr;

  const Buffer* find_buffer(const std::string& name) const;  ///< arguments and scratch
};

/// Prints the loop nest; docs/schedules.md explains the notation.
std::string to_string(const Program& program);
std::string to_string(const Block& body, int indent);

/// A hash that is equal for programs that print alike, and differs for others with high
/// probability. It is valid within one process and must not be stored.
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

/// Number of store statements in the code of an assignment: two if it has a guard.
inline int64_t stores(const Assign& assign) { return assign.guard ? 2 : 1; }

/// The guarded assignment with another condition; without a guard if that is a literal.
Assign with_condition(Assign assign, const Expr& condition);

/// A guarded assignment as two branches, for targets that store either value under a condition.
struct Branches {
  If taken;                   ///< stores the value
  If otherwise;               ///< stores the literal, under the negation
  bool stores_zeros = false;  ///< the literal's bytes are all 0
};
/// The branches of a guarded assignment, or of a vector loop around one whose lanes share the
/// condition, so that both stores are vectors. nullopt for other statements.
std::optional<Branches> branches_of(const Stmt& stmt);
/// The body with these branches in place of guarded assignments.
Block with_branches(const Block& body);

/// Every buffer that the body allocates, in order of appearance.
std::vector<Buffer> local_buffers(const Block& body);

/// buffer[indices] as one index into its elements, unsimplified but for fused loops.
Expr linear_index(const Buffer& buffer, const std::vector<Expr>& indices);

}  // namespace tw::schedules

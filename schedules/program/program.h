// SPDX-License-Identifier: Apache-2.0
#pragma once
// Program: the meaning of a schedule as explicit loops, buffers and statements. Code generators,
// the legality check, the cost features and the printers read the Program only.
//
// A kernel is a list of phases with a barrier between them. A phase has a body and task axes. Each
// combination of values of the axes is a task, and the tasks of a phase may run in any order or at
// once. On a GPU a task is a block, and the iterations of its thread loops are the block's threads.
// Thread loops that directly contain each other are one nest, whose iterations run in any order or
// at once and are numbered row by row. Statements outside of the nests run once for the task, not
// once for each thread. A barrier orders the accesses of threads before it and after it
// (threads.h).
//
// A buffer is accessed by one index for each storage dimension. Indices are Int64 expressions of
// the loop variables and task axes in scope. All values are immutable and safe to share.
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

/// The memory that holds a buffer.
///   Argument: memory of the caller.
///   Scratch: memory that all phases and tasks share.
///   Shared: memory of one task that all threads of the task access.
///   Local: memory of one task, or of one thread if the task has several threads.
///   Register: like Local, but small enough to be promoted to registers after unrolling.
enum class Scope { Argument, Scratch, Shared, Local, Register };
std::string_view to_string(Scope scope);

/// A buffer. Its extents are those of the storage, outermost first, and its memory is dense and
/// row-major.
struct Buffer {
  std::string name;
  DType type = Float32;
  std::vector<int64_t> extents;
  Scope scope = Scope::Argument;
  /// The swizzle of a Shared buffer: 32, 64 or 128 bytes, or 0 for none. On a GPU a swizzled buffer
  /// begins at a multiple of swizzle_period(). An element that would be at byte b of dense memory
  /// is at byte swizzled(b).
  int swizzle = 0;

  int64_t elements() const;
  int64_t bytes() const { return elements() * size_bytes(type); }
  /// Returns the number of bytes after which the swizzle repeats; 1 without a swizzle. The size of
  /// the buffer is a multiple of the period.
  int64_t swizzle_period() const { return swizzle > 0 ? 8 * swizzle : 1; }
  /// Returns the byte offset to which the swizzle moves a byte. A swizzle of 32, 64 or 128 bytes is
  /// the pattern that CUDA calls CU_TENSOR_MAP_SWIZZLE_32B, _64B or _128B. For 128 bytes, chunk c
  /// of 16 bytes in row r of 128 bytes moves to chunk c ^ (r % 8) of the row: byte 128 moves to
  /// 144, and byte 144 to 128.
  int64_t swizzled(int64_t byte) const {
    return swizzle > 0 ? byte ^ ((byte >> 7 & (swizzle / 16 - 1)) << 4) : byte;
  }
};

/// An argument of the kernel: its buffer, and the logical tensor that the buffer stores.
struct Argument {
  Buffer buffer;
  std::vector<int64_t> shape;  ///< extents of the logical tensor
  dsl::Layout layout;
  std::string letters;
  bool is_output = false;
  bool constant = false;       ///< a constant, which may be packed before the call
  bool prepared = false;       ///< computed by Program::preparation
  bool only_prepares = false;  ///< an input that only Program::preparation reads
};

enum class LoopKind { Serial, Unrolled, Vector, Thread, Tensor, Reduce, Bulk };
std::string_view to_string(LoopKind kind);

struct Stmt;
struct TensorTile;
using Block = std::vector<Stmt, PoolAllocator<Stmt>>;
using BlockPtr = std::shared_ptr<const Block>;

/// A pipelined loop. Its iterations use data in memory that the threads of a task share, and
/// earlier iterations copy the data there asynchronously. Iteration k uses slot k % slots of each
/// buffer. When iteration k begins, the copies for the iterations k to k + ahead - 1 have been
/// started, each in its own commit group (Commit). For example, let `ahead` be 2 and `slots` 3.
/// When iteration 5 begins, the copies for iterations 5 and 6 have been started. Iteration 5 uses
/// slot 2 and starts the copies for iteration 7. The first statements of an iteration are a Wait
/// for its own group, and a Barrier.
struct LoopPipeline {
  int64_t ahead = 1;  ///< iterations from the start of a copy to the use of its data
  int64_t slots = 2;  ///< number of iterations whose data a buffer holds
  friend bool operator==(const LoopPipeline&, const LoopPipeline&) = default;
};

/// Runs the body for variable = begin, ..., end - 1; not at all if end <= begin. All kinds but
/// Serial have literal bounds.
///   Thread: begins at 0.
///   Tensor: the loop and those inside of it are a tile that the threads of a warp compute together
///     (tensor_tiles.h), or that one core computes (core_tiles.h).
///   Reduce: stands outside of thread loops, and contains one Assign that combines into one
///   element.
///     The threads of a warp may share the iterations and combine partial results in any order.
///   Bulk: the loop and those inside of it are a box that one TMA copy moves (tma_copies.h).
struct Loop {
  std::string variable;
  Expr begin, end;
  LoopKind kind = LoopKind::Serial;
  BlockPtr body;
  const TensorTile* tile = nullptr;  ///< set for the outermost loop of a tensor tile
  /// Set only for a Serial loop outside of thread loops whose bounds are literals, beginning at 0.
  std::optional<LoopPipeline> pipeline = std::nullopt;
};
struct If {
  Expr condition;
  BlockPtr body;
  /// True if the condition has the same value in all threads of the task that evaluate it in the
  /// same iteration of the loops around it. Then no warp diverges.
  bool uniform = false;
};
/// The condition of a guarded assignment. If it holds, the assignment stores its value, else it
/// stores `otherwise`. The value may be evaluated only if the condition holds, since it may read an
/// element beyond the edge of a tensor.
struct Guard {
  Expr condition;
  Expr otherwise;        ///< the literal that is stored if the condition fails
  bool uniform = false;  ///< see If::uniform
};
/// Without `combine`: buffer[indices] = value. With `combine`: buffer[indices] =
/// combine(buffer[indices], value), e.g. `+=` for Sum. With a guard, `combine` is None: if the
/// condition of the guard holds, the value is evaluated and stored, else the literal of the guard
/// is stored.
struct Assign {
  std::string buffer;
  std::vector<Expr> indices;
  Expr value;
  Combine combine = Combine::None;
  /// True if the store is an asynchronous copy, which may complete at any time before the thread
  /// has waited for its commit group. Until then no thread may access the element. Allowed only if
  /// the buffer is Shared, and the value is a read or a zero. If the guard's literal is not zero,
  /// the literal is stored at once.
  bool asynchronous = false;
  std::optional<Guard> guard = std::nullopt;
};
/// Allocates `buffer` for the body, uninitialised. If a Local or Register buffer is allocated
/// outside of thread loops, it has a dimension for each loop that numbers the threads. For threads
/// i and j in 0..16 and acc: register f32[16, 16, 4], thread (i, j) accesses acc[i, j, ...] only.
struct Allocate {
  Buffer buffer;
  BlockPtr body;
};
/// A barrier of all threads of the task. After the barrier the threads see each other's earlier
/// writes. If one thread runs all iterations in turn, a barrier has no effect.
struct Barrier {};
/// Ends a commit group: the asynchronous copies that a thread has begun since its last commit. A
/// group may be empty. Commits and waits stand outside of thread loops.
struct Commit {};
/// Each thread waits until all its commit groups except the last `pending` have arrived. Other
/// threads may read the copies only after a barrier that follows.
struct Wait {
  int64_t pending = 0;
};

/// Prefetches `lines` consecutive cache lines of an argument, which later statements will read. The
/// first line begins at element `offset` of the argument's memory. A prefetch has no effect on
/// values, so it may be executed under fewer conditions or not at all. Each line begins inside of
/// the buffer.
struct PrefetchLines {
  std::string buffer;
  Expr offset;  ///< index of an element among all elements in memory
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

/// Calls the handler for the kind of the statement's value; a handler is a function of e.g. `const
/// Loop&`. There must be a handler for each kind (base/visit.h), so code that does not handle a new
/// kind fails to compile.
template <typename... Handlers>
decltype(auto) visit(const Stmt& stmt, Handlers&&... handlers) {
  return visit_each(stmt.value, std::forward<Handlers>(handlers)...);
}

BlockPtr block(Block statements);
/// Returns a block of one statement.
Block single(Stmt statement);

/// Returns the body of a loop, condition or allocation; null for a statement of another kind.
const Block* body_of(const Stmt& stmt);
/// Returns a copy of the loop, condition or allocation with the body `body`. Returns a statement of
/// another kind unchanged.
Stmt with_body(const Stmt& stmt, BlockPtr body);

struct TaskAxis {
  std::string variable;
  int64_t extent;
};

struct Phase {
  std::string name;  ///< name of the stage that the phase computes
  std::vector<TaskAxis> axes;
  BlockPtr body;
  /// True if the TMA copies of the phase may be issued by producer warps: extra warps that the
  /// launch adds to the threads that run the body (specialised.h).
  bool specialised = false;
  /// True if a block of threads may compute several tasks one after another (specialised.h).
  bool persistent = false;
  /// Number of blocks of threads that must fit into the registers of a multiprocessor at once.
  int64_t resident_blocks = 1;
  int64_t tasks() const;
};

struct Program {
  /// the inputs in the order of their declaration, then the outputs, then the prepared buffers
  std::vector<Argument> arguments;
  std::vector<Buffer> scratch;
  std::vector<Phase> phases;
  /// The program that computes the prepared buffers, which are its outputs, from constant inputs of
  /// this program. It runs before the first call, and again when one of these inputs changes. Null
  /// if there are no prepared buffers.
  std::shared_ptr<const Program> preparation = nullptr;

  /// the argument or scratch buffer of that name; null if there is none
  const Buffer* find_buffer(const std::string& name) const;
};

/// Prints the loop nest; docs/schedules.md explains the notation.
std::string to_string(const Program& program);
std::string to_string(const Block& body, int indent);

/// Returns a hash of the program's text: equal for programs that print alike, and with high
/// probability different for all others. It is valid within one process and must not be stored.
size_t hash(const Program& program);

/// Calls `see` on each statement, including nested ones, parents first.
void for_each(const Block& body, const std::function<void(const Stmt&)>& see);

/// Calls `see` for the expressions of the statement itself (bounds, conditions, indices, values),
/// but not for those of statements in its body.
void for_each_expression(const Stmt& stmt, const std::function<void(const Expr&)>& see);

/// An element of a buffer that a statement reads or stores.
struct BufferAccess {
  const std::string& buffer;
  const std::vector<Expr>& indices;
  bool is_store = false;
};
/// Calls `see` for each access of the statement itself, but not for those of statements in its
/// body. The store comes first.
void for_each_access(const Stmt& stmt, const std::function<void(const BufferAccess&)>& see);

/// Returns a copy of the block in which f(e) replaces each expression e (condition, bound, index or
/// value).
Block map_expressions(const Block& body, const std::function<Expr(const Expr&)>& f);

/// Returns the number of store statements in the code of an assignment: two if it has a guard.
inline int64_t stores(const Assign& assign) { return assign.guard ? 2 : 1; }

/// Returns the guarded assignment with `condition` as the condition of its guard. If `condition` is
/// a literal, the result has no guard: it stores the value if the literal is true, else the guard's
/// literal.
Assign with_condition(Assign assign, const Expr& condition);

/// A guarded assignment as two `if` statements, for targets that store each value under a
/// condition.
struct Branches {
  If taken;                   ///< stores the value
  If otherwise;               ///< stores the literal, if the condition fails
  bool stores_zeros = false;  ///< true if the literal's bytes are all 0
};
/// Returns the branches of a guarded assignment, or of a vector loop that contains only a guarded
/// assignment. Such a loop must have the same condition in all lanes. Each branch is then a vector
/// loop, which stores vectors. nullopt for any other statement.
std::optional<Branches> branches_of(const Stmt& stmt);
/// Returns the body with each guarded assignment replaced by its branches.
Block with_branches(const Block& body);

/// Returns every buffer that the body allocates, in order of appearance.
std::vector<Buffer> local_buffers(const Block& body);

/// Returns the index of buffer[indices] among all elements of the buffer, as one expression: m * 10
/// + n for [m, n] in a buffer of 6 x 10. Only indices of fused loops are simplified: [f / 10, f %
/// 10] gives f.
Expr linear_index(const Buffer& buffer, const std::vector<Expr>& indices);

}  // namespace tw::schedules

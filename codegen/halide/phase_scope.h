// SPDX-License-Identifier: Apache-2.0
#pragma once
// The variables and buffers in scope at the statement of a phase that is being translated. The
// scope answers questions about expressions at this statement: their ranges, and how they differ
// between the lanes of vector loops and between the copies of unrolled loops. Private to
// codegen/halide. Not thread-safe.
//
//   const PhaseScope::Mark mark = scope.mark();
//   scope.enter(loop.variable, loop.begin, loop.end, scope.fresh(loop.variable), loop.kind);
//   ...   // the body
//   scope.restore(mark);

#include <map>
#include <string>
#include <vector>

#include "codegen/halide/ir.h"
#include "schedules/program/bounds.h"

namespace tw::codegen::halide {

struct Access {
  Buffer buffer;
  std::string name;  ///< name of the buffer in the generated function, where it is unique
  /// Set only if the buffer is an argument. It tells Halide that the array is aligned to the size
  /// of an element, but perhaps to no more.
  Halide::Parameter external;
  /// True if the buffer is private to the thread. Then an element may be overwritten with its old
  /// value, because no other thread can have changed it.
  bool own = false;
};

struct Variable {
  HExpr value;
  int depth = 0;
  LoopKind kind = LoopKind::Serial;
};

class PhaseScope {
 public:
  /// Returns a name that begins with `name` and is unique in the generated function.
  std::string fresh(const std::string& name);

  /// Enters a loop over `variable` from `begin` to `end` - 1. `name` is the name of the variable in
  /// the generated function.
  void enter(const std::string& variable, const Expr& begin, const Expr& end,
             const std::string& name, LoopKind kind);
  /// Enters a branch, in which `condition` holds.
  void enter(const Expr& condition);

  /// A position in the nest of loops and branches. restore() leaves the loops and branches that
  /// were entered since the mark.
  struct Mark {
    schedules::Bounds::Mark bounds;
    int depth;
  };
  Mark mark() const { return {bounds_.mark(), depth_}; }
  void restore(const Mark& mark);

  /// Returns the number of loops entered. The axes of the task count as loops.
  int depth() const { return depth_; }
  /// Returns the depth of the innermost loop whose variable the expression uses; -1 if it uses
  /// none.
  int depth(const Expr& expr) const;

  /// Returns the variable of a loop or task axis. Requires: the variable was entered.
  const Variable& variable(const std::string& name) const { return variables_.at(name); }

  /// Adds a buffer. It replaces a buffer of the same name.
  void declare(const Access& access) { accesses_[access.buffer.name] = access; }
  /// Returns the buffer of that name. Requires: the buffer was declared. The reference is valid
  /// until a buffer of that name is declared again.
  const Access& access(const std::string& buffer) const { return accesses_.at(buffer); }
  /// Returns the buffer of that name like access(), but nullptr if it was not declared.
  const Access* find_access(const std::string& buffer) const;

  const Ranges& ranges() const { return ranges_; }
  const schedules::Bounds& bounds() const { return bounds_; }
  Expr simplify(const Expr& expr) const;
  /// Returns the position of buffer[indices] among all elements of the buffer, as an affine
  /// expression.
  Affine affine_index(const Buffer& buffer, const std::vector<Expr>& indices) const;
  /// Returns Int(32) if the Int64 expression and all its subexpressions fit 32 bits, else Int(64).
  Halide::Type width(const Expr& expr) const;

  /// True if the ranges of loops and the entered conditions imply that every index is at least 0
  /// and below the extent of its dimension. Conditions that became masks or selects are not
  /// entered, so they do not count.
  bool is_always_inside(const Buffer& buffer, const std::vector<Expr>& indices) const;
  /// Like is_always_inside(), but by the ranges of loop variables alone. So the answer also holds
  /// where the conditions around the access fail.
  bool is_in_range(const Buffer& buffer, const std::vector<Expr>& indices) const;

  /// Returns the variable of a vector loop that the expression uses; nullptr if it uses none. If it
  /// uses several, the alphabetically first is returned.
  const std::string* vector_variable(const Expr& expr) const;

 private:
  bool is_in_range(const Expr& index, int64_t extent) const;

  Ranges ranges_;
  schedules::Bounds bounds_;
  std::map<std::string, Variable> variables_;
  std::map<std::string, Access> accesses_;
  int depth_ = 0;
  int names_ = 0;
};

// ---- lanes and copies -----------------------------------------------------------------------

/// True if the expression uses the variable of a vector loop, so that it may differ between lanes.
bool uses_vector_variable(const PhaseScope& scope, const Expr& expr);
bool uses_vector_variable(const PhaseScope& scope, const std::vector<Expr>& indices);
/// True if the lanes of an access are not contiguous, so that the access needs a vector of indices,
/// one index for each lane. Such a vector should have 32-bit indices if they fit, because computing
/// 64-bit indices takes twice as many instructions.
bool needs_index_vector(const PhaseScope& scope, const Affine& index);
/// True if the lanes access contiguous elements, or if all of them access the same element.
bool is_dense(const PhaseScope& scope, const std::string& buffer, const std::vector<Expr>& indices);
/// True if the expression has the same value in all lanes and in all copies of unrolled loops, and
/// reads no buffer.
bool is_same_in_copies(const PhaseScope& scope, const Expr& expr);

}  // namespace tw::codegen::halide

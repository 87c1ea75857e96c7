// SPDX-License-Identifier: Apache-2.0
#pragma once
// The variables and buffers in scope at a statement of a phase, and questions about expressions
// there: their ranges, and how they differ between the lanes of vector loops and the copies of
// unrolled ones. Private to codegen/halide. Not thread-safe.
//
//   const PhaseScope::Mark mark = scope.mark();
//   scope.enter(loop.variable, loop.begin, loop.end, scope.fresh(loop.variable), loop.kind);
//   ...   // the body
//   scope.restore(mark);

#include <map>
#include <string>
#include <vector>

#include "codegen/halide/ir.h"
#include "codegen/ranges.h"
#include "schedules/program/bounds.h"

namespace tw::codegen::halide {

struct Access {
  Buffer buffer;
  std::string name;  ///< unique in the function
  Halide::Parameter
      external;      ///< defined for arguments: no alignment beyond the element's is assumed
  bool own = false;  ///< private to the thread: it may be rewritten with its old value
};

struct Variable {
  HExpr value;
  int depth = 0;
  LoopKind kind = LoopKind::Serial;
};

class PhaseScope {
 public:
  /// A name that is unique in the function.
  std::string fresh(const std::string& name);

  /// Enters a loop; `name` is that of its variable in the function.
  void enter(const std::string& variable, const Expr& begin, const Expr& end,
             const std::string& name, LoopKind kind);
  /// Enters a branch.
  void enter(const Expr& condition);

  /// Leaves the loops and branches that were entered since the mark.
  struct Mark {
    schedules::Bounds::Mark bounds;
    int depth;
  };
  Mark mark() const { return {bounds_.mark(), depth_}; }
  void restore(const Mark& mark);

  /// The number of loops, the task's axes included.
  int depth() const { return depth_; }
  /// The depth of the innermost variable that the expression uses; -1: it uses none.
  int depth(const Expr& expr) const;

  /// Requires: the variable was entered.
  const Variable& variable(const std::string& name) const { return variables_.at(name); }

  /// Adds a buffer, in place of one of the same name.
  void declare(const Access& access) { accesses_[access.buffer.name] = access; }
  /// Requires: the buffer was declared. Valid until a buffer of that name is declared again.
  const Access& access(const std::string& buffer) const { return accesses_.at(buffer); }
  /// The same; nullptr: it was not declared yet.
  const Access* find_access(const std::string& buffer) const;

  const Ranges& ranges() const { return ranges_; }
  const schedules::Bounds& bounds() const { return bounds_; }
  Expr simplify(const Expr& expr) const;
  /// The linear index of an element.
  Affine affine_index(const Buffer& buffer, const std::vector<Expr>& indices) const;
  /// The type of 32 bits if all of the Int64 expression fits, else that of 64 bits.
  Halide::Type width(const Expr& expr) const;

  /// Every index is in its extent whether or not the conditions around the access hold.
  bool is_always_inside(const Buffer& buffer, const std::vector<Expr>& indices) const;

  /// The variable of a vector loop that the expression uses; nullptr: it uses none. The first in
  /// alphabetical order if there are several.
  const std::string* vector_variable(const Expr& expr) const;

 private:
  Ranges ranges_;
  schedules::Bounds bounds_;
  std::map<std::string, Variable> variables_;
  std::map<std::string, Access> accesses_;
  int depth_ = 0;
  int names_ = 0;
};

// ---- lanes and copies -----------------------------------------------------------------------

/// True if the expression differs between the lanes of a vector loop.
bool uses_vector_variable(const PhaseScope& scope, const Expr& expr);
bool uses_vector_variable(const PhaseScope& scope, const std::vector<Expr>& indices);
/// Lanes that are not next to each other: one index a lane, half as many instructions in 32 bits.
bool needs_index_vector(const PhaseScope& scope, const Affine& index);
/// True if the lanes access contiguous elements, or all the same one.
bool is_dense(const PhaseScope& scope, const std::string& buffer, const std::vector<Expr>& indices);
/// The value is the same in all lanes and unrolled copies, and no element of a buffer.
bool is_same_in_copies(const PhaseScope& scope, const Expr& expr);

}  // namespace tw::codegen::halide

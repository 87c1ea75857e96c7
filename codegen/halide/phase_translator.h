// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates a phase of a program, statement by statement, to Halide's IR. Each file has one
// subject: phase_statements.cpp loops and branches, phase_dots.cpp dot products of the processor,
// phase_tiles.cpp tiles of its cores, phase_memory.cpp buffers and their elements,
// phase_expressions.cpp values. Private to codegen/halide. Not thread-safe.
//
//   Loop Serial, Unrolled, Vector    For Serial; Unrolled, then unroll_loops; Vectorized
//   Allocate                         Allocate on the stack, in registers once unrolled
//   buffer[i, j] op= value           Store to one linear index, op written out
//   buffer[i] = value if c else 0.0  two IfThenElse, on c and on its negation
//   phase                            LoweredFunc(buffers, scratch, task), pointers bound at its top

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/target.h"
#include "codegen/halide/fallbacks.h"
#include "codegen/halide/phase_scope.h"
#include "codegen/halide/target.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/dot_products.h"

namespace tw::codegen::halide {

using schedules::DotProduct;

class PhaseTranslator {
 public:
  /// Refers to the program, the phase and the target.
  PhaseTranslator(const Program& program, const Phase& phase, const Target& target,
                  Fallbacks fallbacks);

  /// The body of the phase's function, without Halide's passes (codegen/halide/passes.h). Call it
  /// once. Throws Halide::CompileError for what Halide cannot express.
  HStmt translate();

 private:
  // ---- statements (phase_statements.cpp) ----------------------------------------------------
  HStmt with_task_axes(HStmt body) const;
  HStmt with_pointers(HStmt body) const;
  void enter_body();
  HStmt leave_body(HStmt body);
  HStmt statements(const Block& block);
  HStmt statement(const Stmt& stmt);
  HStmt translate_loop(const Loop& loop);
  /// The bounds of a loop in 32 bits.
  std::pair<HExpr, HExpr> loop_bounds(const Expr& begin, const Expr& end);
  HStmt translate_if(const If& branch);
  HStmt fallback(const HStmt& body) const;
  /// The statements of a branch for lanes that all satisfy its condition.
  HStmt taken(const If& branch);
  /// Statements that only the lanes execute that satisfy the condition.
  HStmt masked(const HExpr& condition, const Block& body);

  // ---- dot products (phase_dots.cpp) --------------------------------------------------------
  /// Makes a dot product one instruction if the target has it and the factors lie as it reads them.
  /// Else each of the products that a lane sums is a vector.
  HStmt translate_dot_product(const DotProduct& dot);
  /// The dot product as a reduction of a vector. Undefined where no instruction computes it.
  HStmt as_instruction(const DotProduct& dot);
  HExpr second_factor(const DotProduct& dot, const schedules::DotInstruction& instruction,
                      int count);
  /// Digits of elements of 8 bits.
  HExpr digit_of(const HExpr& elements, const schedules::Digit& digit);
  /// The indices of neighbours in memory, from the first lane's first element on.
  HExpr indices_of(const DotProduct& dot, const std::string& buffer, std::vector<Expr> indices,
                   int count);
  HExpr neighbours(const DotProduct& dot, const std::string& buffer,
                   const std::vector<Expr>& indices, int count);

  // ---- tiles of a core (phase_tiles.cpp) ----------------------------------------------------
  /// The tile registers of the sums of a buffer, one after the other, as names of allocations.
  struct TileSums {
    int elements;  ///< of a tile in memory
    std::vector<std::string> registers;
  };
  /// The buffer in which a statement sums that computes nothing but tiles; nullptr for others, and
  /// within such a statement.
  const std::string* sums_of_tiles(const Stmt& stmt) const;
  /// True if `next` computes nothing but tiles, and `stmt` sets their sums to 0 before.
  bool zeroes_sums(const Stmt& stmt, const Stmt& next) const;
  /// A statement in which only tiles are computed. Their sums are in registers while it runs. They
  /// begin as they are in memory, or with 0, and go back to memory at the end.
  HStmt translate_tiles(const Stmt& stmt, const std::string& buffer, bool begins_with_zero);
  /// A tile of translate_tiles().
  HStmt translate_tile(const Loop& loop);
  bool has_tiles(const Loop& loop) const;
  /// The copies of an unrolled loop with tiles in it: which register a tile is in must be known
  /// before Halide unrolls.
  HStmt translate_copies(const Loop& loop);
  /// A factor of a tile: `rows` of groups of terms, so many elements apart.
  HExpr tile_of(const dsl::Read& factor, const schedules::CoreNest& nest, int64_t rows,
                int64_t row_groups, int64_t stride);

  // ---- memory (phase_memory.cpp) ------------------------------------------------------------
  HStmt translate_allocate(const Allocate& allocate);
  HStmt translate_assign(const Assign& assign);
  HStmt translate_prefetch(const PrefetchLines& prefetch);
  HExpr read(const dsl::Read& r);
  /// A load that happens only where the condition holds: masked where lanes are neighbours in
  /// memory, and Halide can; elsewhere lanes that fail the condition read element 0.
  HExpr load_under(const HExpr& condition, const Access& access, const std::vector<Expr>& indices,
                   const HExpr& index) const;
  /// The linear index of an element, in 32 or 64 bits.
  HExpr linear(const Buffer& buffer, const std::vector<Expr>& indices);
  /// A variable for the sum, bound at the top of the innermost loop that it depends on.
  HExpr named_base(const Affine& base, Halide::Type type);
  HExpr sum_of(Affine affine, Halide::Type type);

  // ---- expressions (phase_expressions.cpp) --------------------------------------------------
  /// An expression in the type that its values are computed in.
  HExpr value(const Expr& expr);
  /// The same, where accesses happen only if the condition holds as well.
  HExpr guarded(const HExpr& condition, const Expr& expr);
  /// An Int64 expression computed in `type`, which is 32 bits only where all of it fits.
  HExpr integer(const Expr& expr, Halide::Type type);
  HExpr selected(const dsl::Select& s);
  HExpr binary(const dsl::Binary& b);
  HExpr converted(const dsl::Cast& c);
  static HExpr both(const HExpr& outer, const HExpr& condition);

  /// The body of a serial loop, or of the phase: where bases of addresses are bound.
  struct Body {
    int depth;  ///< depth of the innermost variable in scope
    std::map<std::pair<std::string, int>, std::string> names;  ///< names of bases, by text and bits
    std::vector<std::pair<std::string, HExpr>> lets;
  };

  const Program& program_;
  const Phase& phase_;
  const Target& target_;
  const bool has_core_tiles_;
  const Masks masks_;
  const Fallbacks fallbacks_;
  PhaseScope scope_;
  std::vector<Body> bodies_;
  std::optional<TileSums> tile_sums_;  ///< within translate_tiles()
  HExpr mask_;   ///< conjunction of the masked branches around; undefined: none
  HExpr guard_;  ///< mask_ and the select conditions around; undefined: none
};

}  // namespace tw::codegen::halide

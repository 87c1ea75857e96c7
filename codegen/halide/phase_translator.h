// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates a phase of a program to Halide's IR, statement by statement. Each file has one
// subject: phase_statements.cpp loops and branches, phase_dots.cpp dot-product instructions,
// phase_tiles.cpp tiles of a core's tile registers, phase_memory.cpp buffers and their elements,
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
  /// Keeps references to the program, the phase and the target.
  PhaseTranslator(const Program& program, const Phase& phase, const Target& target,
                  Fallbacks fallbacks);

  /// Returns the body of the phase's function, before Halide's passes (codegen/halide/passes.h).
  /// Call it once. Throws Halide::CompileError for what Halide cannot express.
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
  /// Returns the bounds of a loop in 32 bits.
  std::pair<HExpr, HExpr> loop_bounds(const Expr& begin, const Expr& end);
  HStmt translate_if(const If& branch);
  HStmt fallback(const HStmt& body) const;
  /// Translates the statements of a branch for lanes that all satisfy its condition.
  HStmt taken(const If& branch);
  /// Translates statements that only those lanes execute that satisfy the condition.
  HStmt masked(const HExpr& condition, const Block& body);

  // ---- dot products (phase_dots.cpp) --------------------------------------------------------
  /// Translates a dot product to one instruction, if the target has it and the factors lie in
  /// memory in the instruction's order. Else each of the products that a lane sums becomes a
  /// vector.
  HStmt translate_dot_product(const DotProduct& dot);
  /// Returns the dot product as a reduction of a vector. Undefined if no instruction computes it.
  HStmt as_instruction(const DotProduct& dot);
  HExpr second_factor(const DotProduct& dot, const schedules::DotInstruction& instruction,
                      int count);
  /// Extracts digits from elements of 8 bits.
  HExpr digit_of(const HExpr& elements, const schedules::Digit& digit);
  /// Returns `count` consecutive indices in memory, beginning with the first lane's first element.
  HExpr indices_of(const DotProduct& dot, const std::string& buffer, std::vector<Expr> indices,
                   int count);
  HExpr neighbours(const DotProduct& dot, const std::string& buffer,
                   const std::vector<Expr>& indices, int count);

  // ---- tiles of a core (phase_tiles.cpp) ----------------------------------------------------
  /// The tile registers that hold the sums of a buffer, in order, as names of allocations.
  struct TileSums {
    int elements;  ///< number of elements that a tile takes in memory
    std::vector<std::string> registers;
  };
  /// Returns the buffer of the sums of a statement that computes only tiles; nullptr for other
  /// statements, and inside of such a statement.
  const std::string* sums_of_tiles(const Stmt& stmt) const;
  /// True if `next` computes only tiles and `stmt`, the statement before it, sets their sums to 0.
  bool zeroes_sums(const Stmt& stmt, const Stmt& next) const;
  /// Translates a statement that computes only tiles. Their sums are in registers while it runs:
  /// they are loaded from memory first, or set to 0, and stored to memory at the end.
  HStmt translate_tiles(const Stmt& stmt, const std::string& buffer, bool begins_with_zero);
  /// Translates one tile inside of translate_tiles().
  HStmt translate_tile(const Loop& loop);
  bool has_tiles(const Loop& loop) const;
  /// Unrolls a loop that contains tiles, because the register of each tile must be known before
  /// Halide unrolls.
  HStmt translate_copies(const Loop& loop);
  /// Loads a factor of a tile: `rows` rows of `row_groups` groups of terms. `stride` is the
  /// distance of rows in elements.
  HExpr tile_of(const dsl::Read& factor, const schedules::CoreNest& nest, int64_t rows,
                int64_t row_groups, int64_t stride);

  // ---- memory (phase_memory.cpp) ------------------------------------------------------------
  HStmt translate_allocate(const Allocate& allocate);
  HStmt translate_assign(const Assign& assign);
  HStmt translate_prefetch(const PrefetchLines& prefetch);
  HExpr read(const dsl::Read& r);
  /// Loads an element only if the condition holds. The load is masked if the lanes are contiguous
  /// in memory and Halide can mask it; else lanes that fail the condition read element 0.
  HExpr load_under(const HExpr& condition, const Access& access, const std::vector<Expr>& indices,
                   const HExpr& index) const;
  /// The linear index of an element, in 32 or 64 bits.
  HExpr linear(const Buffer& buffer, const std::vector<Expr>& indices);
  /// Returns a variable with the value of `base`. The variable is defined at the top of the
  /// innermost loop on which `base` depends.
  HExpr named_base(const Affine& base, Halide::Type type);
  HExpr sum_of(Affine affine, Halide::Type type);

  // ---- expressions (phase_expressions.cpp) --------------------------------------------------
  /// Translates an expression, in the type in which its values are computed.
  HExpr value(const Expr& expr);
  /// Like value(), but accesses happen only if the condition holds too.
  HExpr guarded(const HExpr& condition, const Expr& expr);
  /// Translates an Int64 expression, computed in `type`. Requires for 32 bits: all of the
  /// expression fits.
  HExpr integer(const Expr& expr, Halide::Type type);
  HExpr selected(const dsl::Select& s);
  HExpr binary(const dsl::Binary& b);
  HExpr converted(const dsl::Cast& c);
  static HExpr both(const HExpr& outer, const HExpr& condition);

  /// The body of a serial loop or of the phase, at whose top the bases of addresses are bound.
  struct Body {
    int depth;  ///< depth of the innermost variable in scope
    /// Names of bases, by their text and number of bits.
    std::map<std::pair<std::string, int>, std::string> names;
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
  std::optional<TileSums> tile_sums_;  ///< set inside of translate_tiles()
  HExpr mask_;   ///< conjunction of the conditions of the masked branches around; undefined: none
  HExpr guard_;  ///< mask_ and the conditions of the selects around; undefined: none
};

}  // namespace tw::codegen::halide

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Translates a phase of a program to Halide's IR, statement by statement. Each source file
// translates one part: phase_statements.cpp loops and branches, phase_dots.cpp dot-product
// instructions, phase_tiles.cpp core tiles, phase_memory.cpp buffers and their elements,
// phase_expressions.cpp values. Core tiles are tensor tiles that a core computes in tile registers
// (schedules/program/core_tiles.h). Private to codegen/halide. Not thread-safe.
//
// This table says what the parts of a program become:
//
//   Loop Serial                      For Serial
//   Loop Unrolled                    For Unrolled, which the pass unroll_loops unrolls
//   Loop Vector                      For Vectorized
//   Allocate                         Allocate on the stack; LLVM may promote it to registers
//   buffer[i, j] op= value           Store to one linear index, with op written out
//   buffer[i] = value if c else 0.0  two IfThenElse: one on c, one on the negation of c
//   phase                            LoweredFunc(buffers, scratch, task); pointers bound at its top

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/target.h"
#include "codegen/halide/fallbacks.h"
#include "codegen/halide/literals.h"
#include "codegen/halide/phase_scope.h"
#include "codegen/halide/target.h"
#include "schedules/program/core_tiles.h"
#include "schedules/program/dot_products.h"

namespace tw::codegen::halide {

using schedules::DotProduct;

class PhaseTranslator {
 public:
  /// The translator keeps references to `program`, `phase` and `target`, which must outlive it.
  PhaseTranslator(const Program& program, const Phase& phase, const Target& target,
                  Fallbacks fallbacks);

  /// Returns the body of the phase's function. Halide's passes (codegen/halide/passes.h) are still
  /// to be applied to it. Call it once. Throws Halide::CompileError for programs that Halide cannot
  /// express.
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
  /// Returns the bounds of a loop as 32-bit expressions.
  std::pair<HExpr, HExpr> loop_bounds(const Expr& begin, const Expr& end);
  HStmt translate_if(const If& branch);
  HStmt fallback(const HStmt& body) const;
  /// Translates the body of a branch for lanes that all satisfy its condition, so that no mask is
  /// needed.
  HStmt taken(const If& branch);
  /// Translates the body of a branch like taken(), but for a condition that may hold in only some
  /// lanes.
  HStmt taken_by_lanes(const If& branch);
  /// Translates statements so that they have an effect only in the lanes that satisfy the
  /// condition.
  HStmt masked(const HExpr& condition, const Block& body);

  // ---- dot products (phase_dots.cpp) --------------------------------------------------------
  /// Translates a dot product to one instruction, if the target has the instruction and the factors
  /// lie in memory in the order that it reads. Otherwise the dot product becomes multiply-adds of
  /// vectors, one for each of the products that a lane sums.
  HStmt translate_dot_product(const DotProduct& dot);
  /// Returns the dot product in the form that Halide translates to one instruction: a reduction of
  /// a vector. Returns HStmt() if no instruction computes the dot product.
  HStmt as_instruction(const DotProduct& dot);
  HExpr second_factor(const DotProduct& dot, const schedules::DotInstruction& instruction,
                      int count);
  /// Extracts a digit from each element of a vector of 8-bit elements: (element >> shift) & mask.
  HExpr digit_of(const HExpr& elements, const schedules::Digit& digit);
  /// Returns the linear indices of `count` consecutive elements in memory. The first is the element
  /// that the first lane reads for its first product.
  HExpr indices_of(const DotProduct& dot, const std::string& buffer, std::vector<Expr> indices,
                   int count);
  HExpr neighbours(const DotProduct& dot, const std::string& buffer,
                   const std::vector<Expr>& indices, int count);

  // ---- tiles of a core (phase_tiles.cpp) ----------------------------------------------------
  /// The tile registers that hold the sums of a buffer, in the buffer's order. A register is an
  /// allocation of Halide's IR; `registers` has the names of the allocations.
  struct TileSums {
    int elements;  ///< number of elements between the beginnings of two tiles
    std::vector<std::string> registers;
  };
  /// Returns the name of the buffer in which a statement sums, if the statement computes nothing
  /// but core tiles. Returns nullptr for other statements. Also returns nullptr while such a
  /// statement is being translated, because the tile registers are then already assigned.
  const std::string* sums_of_tiles(const Stmt& stmt) const;
  /// True if `next` computes only core tiles and `stmt`, the statement before it, sets the sums of
  /// these tiles to 0. Then both are translated together, and the sums need not be loaded.
  bool zeroes_sums(const Stmt& stmt, const Stmt& next) const;
  /// Translates a statement that consists only of instructions on core tiles, which accumulate into
  /// `buffer`. The sums are in tile registers while the statement runs. Before it, they are set to
  /// 0 if `begins_with_zero`, else loaded from `buffer`; after it, they are stored to `buffer`.
  HStmt translate_tiles(const Stmt& stmt, const std::string& buffer, bool begins_with_zero);
  /// Translates one tile of the statement that translate_tiles() translates.
  HStmt translate_tile(const Loop& loop);
  bool has_tiles(const Loop& loop) const;
  /// Unrolls a loop that contains tiles. Halide would unroll it too late: the register of each tile
  /// must be known when the tile is translated.
  HStmt translate_copies(const Loop& loop);
  /// Loads a factor of a tile to a tile register. The factor has `rows` rows of `row_groups` groups
  /// of terms. The beginnings of successive rows are `stride` elements apart.
  HExpr tile_of(const dsl::Read& factor, const schedules::CoreNest& nest, int64_t rows,
                int64_t row_groups, int64_t stride);

  // ---- memory (phase_memory.cpp) ------------------------------------------------------------
  HStmt translate_allocate(const Allocate& allocate);
  HStmt translate_assign(const Assign& assign);
  HStmt translate_prefetch(const PrefetchLines& prefetch);
  HExpr read(const dsl::Read& r);
  /// Loads an element whose index may be outside of the buffer if the condition fails. The load is
  /// masked if the lanes are contiguous in memory and Halide can mask the load. Else the lanes in
  /// which the condition fails read element 0.
  HExpr load_under(const HExpr& condition, const Access& access, const std::vector<Expr>& indices,
                   const HExpr& index) const;
  /// Returns the index of buffer[indices] among all elements of the buffer, in 32 or 64 bits.
  HExpr linear(const Buffer& buffer, const std::vector<Expr>& indices);
  /// Returns a variable whose value is `base`, the part of an index that does not depend on lanes
  /// or unrolled copies. The variable is defined at the top of the innermost loop on which `base`
  /// depends.
  HExpr named_base(const Affine& base, Halide::Type type);
  HExpr sum_of(Affine affine, Halide::Type type);

  // ---- expressions (phase_expressions.cpp) --------------------------------------------------
  /// Translates an expression. The result has the type in which the expression's values are
  /// computed.
  HExpr value(const Expr& expr);
  /// Translates an expression whose value is needed only where `condition` holds, and the
  /// conditions around it (guard_) hold too. Elsewhere its reads may be outside of their buffers,
  /// so such reads are translated by load_under().
  HExpr guarded(const HExpr& condition, const Expr& expr);
  /// Translates an Int64 expression to one that computes in `type`. Requires: if `type` has 32
  /// bits, all subexpressions fit 32 bits.
  HExpr integer(const Expr& expr, Halide::Type type);
  HExpr selected(const dsl::Select& s);
  HExpr binary(const dsl::Binary& b);
  HExpr converted(const dsl::Cast& c);
  /// Returns the value of an operand. If it may be an infinite literal, LLVM does not see how it is
  /// computed.
  HExpr operand(const Expr& expr, const HExpr& value) const;
  /// Translates UnaryOp::Round. The expression's value is first rounded to the expression's type.
  HExpr rounded(const Expr& expr);
  /// Rounds a value that is computed in 32 bits to f16 or bf16. The result has 32 bits again.
  HExpr narrowed(DType type, const HExpr& value);
  static HExpr both(const HExpr& outer, const HExpr& condition);

  /// The body of a serial loop, or of the phase. The variables that hold the bases of addresses
  /// (named_base()) are defined at the top of the body.
  struct Body {
    int depth;  ///< depth of the innermost variable in scope
    /// The names of these variables. The key is the base as text, and the number of bits (32 or 64)
    /// of the type in which the base is computed.
    std::map<std::pair<std::string, int>, std::string> names;
    std::vector<std::pair<std::string, HExpr>> lets;
  };

  const Program& program_;
  const Phase& phase_;
  const Target& target_;
  const bool has_core_tiles_;
  const Masks masks_;
  const Fallbacks fallbacks_;
  const BufferNames infinite_;  ///< may hold infinite literals (literals.h)
  PhaseScope scope_;
  std::vector<Body> bodies_;
  std::optional<TileSums> tile_sums_;  ///< set inside of translate_tiles()
  /// The conjunction of the conditions of all masked branches around the statement that is being
  /// translated; HExpr() if there is no such branch.
  HExpr mask_;
  /// The conjunction of mask_ and the conditions of all selects around the expression that is being
  /// translated; HExpr() if there are no conditions.
  HExpr guard_;
  /// True in a branch that some lanes of a vector take. Halide masks the accesses in the branch
  /// that differ between lanes. But it executes the reads that are the same in all lanes, even if
  /// no lane takes the branch.
  bool diverges_ = false;
};

}  // namespace tw::codegen::halide

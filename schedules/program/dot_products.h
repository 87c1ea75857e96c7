// SPDX-License-Identifier: Apache-2.0
#pragma once
// Dot-product instructions (x86 VNNI, for example). In such a vector instruction each lane
// multiplies a few neighbouring terms of a reduction and adds the products:
//
//   vector n in 0..8
//     vector k in 0..4
//       acc[m, n] += i32(a[m, 4 * j + k]) * i32(b[j, n, k])
//
// The first factor (`shared`) is the same for all lanes. The second factor (`own`) has separate
// elements for each lane, which lie in memory lane by lane. It may be some bits of an element, as
// in i32(b[j, n, k] >> 4 & 15). A dot product means the same as its loops, and targets without such
// an instruction run the loops. There is one difference: `vdpbf16ps` treats subnormal factors as 0.
// Plain values and pure functions; thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/machine.h"
#include "base/target.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// A row of the table of dot-product instructions. A row with `by_pairs` stands for two
/// instructions, such as vpmaddubsw and vpmaddwd: the first adds pairs of products, and the second
/// adds pairs of these sums.
struct DotInstruction {
  std::string_view name;
  DType shared, own;  ///< types of the factors; narrower integers are first widened to them
  DType accumulator;
  int64_t depth;                               ///< number of products that a lane adds
  std::span<const std::string_view> features;  ///< target features that the instruction needs
  double Core::*per_cycle;                     ///< number of instructions per cycle
  /// true if the instruction also adds the sum to the accumulator; false if a separate addition
  /// does
  bool accumulates;
  /// True for two instructions. The sum of a pair of products has 16 bits, so values of the second
  /// factor must be at most 127: 2 * 127 * 128 < 2^15.
  bool by_pairs = false;

  /// Number of multiply instructions for one dot product of each lane.
  int multiplications() const { return by_pairs ? 2 : 1; }
  /// The time of one multiply instruction, in units of f32 multiply-adds of vectors. It is 2 if the
  /// core starts two such multiply-adds but only one of these instructions per cycle.
  double multiply_adds(const Core& core) const { return core.fma_per_cycle / core.*per_cycle; }
  /// Number of terms that each lane adds in the time of one f32 multiply-add of vectors.
  double speed(const Core& core) const {
    return static_cast<double>(depth) / (multiplications() * multiply_adds(core));
  }
};

/// The largest `depth` of an instruction.
inline constexpr int64_t most_dot_depth = 4;

/// Lists the instructions that the target has. Several rows of the table of instructions may share
/// a name and differ in the types of factors; the list has only the first of them.
std::vector<const DotInstruction*> dot_instructions(const Target& target);

/// A number in some bits of an unsigned element: (element >> shift) & mask. For the upper weight of
/// two weights of 4 bits in a byte, shift is 4 and mask is 15.
struct Digit {
  /// The number of bits to shift by, from 0 to 7. It is the same for all lanes and terms, so it
  /// uses no variable of the dot product's loops.
  Expr shift;
  int64_t mask;
};

/// The factors of a dot product, as reads of memory. All lanes have the same factor `shared`; `own`
/// differs between lanes. The pointers point into the product.
struct DotFactors {
  const dsl::Read *shared, *own;
  /// the bits of an element of `own` that are the factor; nullopt if the whole element is the
  /// factor
  std::optional<Digit> digit;
};
/// Finds the factors of a product in a dot product. `lane` is the variable that numbers the lanes,
/// and `term` the variable that numbers the terms of a lane. Returns nullopt if the product is no
/// term of a dot product over these variables.
std::optional<DotFactors> dot_factors(const Expr& product, const std::string& lane,
                                      const std::string& term);

/// Returns the target's instruction that multiplies these factors and adds, in each lane, `depth`
/// products to an accumulator of the type `accumulator`; null if there is none.
const DotInstruction* find_dot_instruction(const Target& target, const DotFactors& factors,
                                           DType accumulator, int64_t depth);

/// A way to compute a stage by dot products.
struct StageDot {
  const DotInstruction* instruction;
  std::string lanes;  ///< the axis along which the lanes lie
  std::string own;    ///< tensor of the factor that differs between lanes
  /// True if one index of the shared factor is just the axis of the terms, as k in a[m, k] but not
  /// 2 * k in a[m, 2 * k]. The terms are then neighbours along one dimension of that factor's
  /// tensor.
  bool is_shared_along;
  bool widens;  ///< true if elements of a factor are narrower than the instruction reads
};
/// Returns the dot products by which the stage can be computed with terms along the reduction axis
/// `terms`. They are in the order of the axes along which lanes lie. For one such axis, the dot
/// product with the most terms is first. The extents of the axes need not be multiples of an
/// instruction's lanes and terms.
std::vector<StageDot> dots_along(const Target& target, const dsl::Stage& stage,
                                 const std::string& terms);

/// Returns the product without the conditions under which factors are 0 in a padding: a[i] * w[i]
/// for select(inside, a[i], 0) * w[i].
Expr unpadded(const Expr& product);

/// Returns the largest number of terms that the target adds in the time of one multiply-add of a
/// vector, by dot products or core tiles, over all stages of the compute; 1 if no stage can use
/// such an instruction.
double dot_speed(const Target& target, const dsl::Compute& compute);

/// True if the target has instructions that multiply data of this type without converting the data
/// to f32 first. For a GPU these are tensor tiles. For a CPU they are dot-product instructions that
/// also accumulate, and core tiles, and only those that are faster than multiply-adds of f32. The
/// other factor of a dot product has the same type if it is a float, and is i8 if it is an integer.
/// For data of i8, core tiles do not count.
bool multiplies(const Target& target, DType type);

/// The factors, loops and sum of a dot product. The pointers point into the program.
struct DotProduct : DotFactors {
  const Loop *lanes, *depth;
  const Assign* sum;
};
/// Returns the dot product that a vector loop computes; nullopt if it computes none.
std::optional<DotProduct> dot_product(const Loop& loop);

}  // namespace tw::schedules

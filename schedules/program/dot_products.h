// SPDX-License-Identifier: Apache-2.0
#pragma once
// Dot-product instructions (x86 VNNI, for example): a vector instruction each of whose lanes
// multiplies a few neighbouring terms of a reduction and adds the products:
//
//   vector n in 0..8
//     vector k in 0..4
//       acc[m, n] += i32(a[m, 4 * j + k]) * i32(b[j, n, k])
//
// The first factor (`shared`) is the same for all lanes. The second (`own`) has separate elements
// for each lane, which lie in memory lane by lane; it may be some bits of an element, as in
// i32(b[j, n, k] >> 4 & 15). The meaning of a dot product is that of the loops, which targets
// without such an instruction run. The one exception is `vdpbf16ps`, which treats subnormal factors
// as 0. Plain values and pure functions; thread-safe.

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

/// A dot-product instruction, or two instructions, of which the first adds pairs of products and
/// the second adds pairs of the sums.
struct DotInstruction {
  std::string_view name;
  DType shared, own;  ///< types of the factors; narrower integers are widened to these first
  DType accumulator;
  int64_t depth;                               ///< number of products that a lane adds
  std::span<const std::string_view> features;  ///< target features that the instruction needs
  double Core::*per_cycle;                     ///< instructions that start per cycle
  /// true if it also adds to the accumulator; otherwise this takes another addition
  bool accumulates;
  /// True for two instructions. Sums of pairs have 16 bits, which suffices for values of the second
  /// factor up to 127.
  bool by_pairs = false;

  /// Number of multiply instructions that one dot product takes.
  int multiplications() const { return by_pairs ? 2 : 1; }
  /// The time of one of these instructions, in f32 multiply-adds of vectors.
  double multiply_adds(const Core& core) const { return core.fma_per_cycle / core.*per_cycle; }
  /// Number of terms that the instruction adds in the time of one multiply-add of a vector.
  double speed(const Core& core) const {
    return static_cast<double>(depth) / (multiplications() * multiply_adds(core));
  }
};

/// The largest `depth` of an instruction.
inline constexpr int64_t most_dot_depth = 4;

/// The instructions of the target, one for each name.
std::vector<const DotInstruction*> dot_instructions(const Target& target);

/// A number in some bits of an unsigned element: (element >> shift) & mask.
struct Digit {
  /// Uses no variable of the dot product. The digit is defined for shifts from 0 to 7.
  Expr shift;
  int64_t mask;
};

/// The factors of a dot product as they are in memory. Points into the product.
struct DotFactors {
  const dsl::Read *shared, *own;
  /// bits of the elements of `own`; nullopt if the whole elements are used
  std::optional<Digit> digit;
};
/// The factors of a product in which the variable `lane` numbers the lanes and `term` the terms;
/// nullopt if the product is no dot product over these variables.
std::optional<DotFactors> dot_factors(const Expr& product, const std::string& lane,
                                      const std::string& term);

/// The target's instruction for these factors; null if there is none.
const DotInstruction* find_dot_instruction(const Target& target, const DotFactors& factors,
                                           DType accumulator, int64_t depth);

/// A dot product by which a stage can be computed.
struct StageDot {
  const DotInstruction* instruction;
  std::string lanes;  ///< the axis along which the lanes lie
  std::string own;    ///< tensor of the factor that differs between lanes
  /// True if the terms' axis is the index of a dimension of the shared factor, as it is of the own
  /// factor once that is packed.
  bool is_shared_along;
  bool widens;  ///< true if elements of a factor are narrower than the instruction reads
};
/// The dot products by which the stage can be computed with terms along the reduction axis `terms`,
/// those with the most terms first. The extents of the axes need not be multiples of an
/// instruction's lanes and terms.
std::vector<StageDot> dots_along(const Target& target, const dsl::Stage& stage,
                                 const std::string& terms);

/// The product without the condition by which factors in a padding are 0.
Expr unpadded(const Expr& product);

/// The largest number of terms that the target adds in the time of one multiply-add of a vector, by
/// dot products or core tiles, over all stages of the compute; 1 if none has such an instruction.
double dot_speed(const Target& target, const dsl::Compute& compute);

/// True if the target has instructions that multiply data of this type without converting them to
/// f32 first: tensor tiles, or dot products or core tiles that accumulate and are faster than
/// multiply-adds of f32. 16-bit floats are multiplied with their own type, 8-bit integers with i8.
bool multiplies(const Target& target, DType type);

/// The parts of a dot product. Points into the program.
struct DotProduct : DotFactors {
  const Loop *lanes, *depth;
  const Assign* sum;
};
/// The dot product that a vector loop computes; nullopt if it computes none.
std::optional<DotProduct> dot_product(const Loop& loop);

}  // namespace tw::schedules

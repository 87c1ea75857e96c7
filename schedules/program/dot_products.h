// SPDX-License-Identifier: Apache-2.0
#pragma once
// Dot products of a processor: a vector whose lanes each sum the products of a few neighbours along
// a reduction. One instruction multiplies and sums them all:
//
//   vector n in 0..8
//     vector k in 0..4
//       acc[m, n] += i32(a[m, 4 * j + k]) * i32(b[j, n, k])
//
// The first factor is the same for all lanes. Each lane has neighbours of its own of the second
// one, which lies in memory lane by lane. The second factor may be some bits of what is in memory,
// as in i32(b[j, n, k] >> 4 & 15). The meaning is that of the loops, which targets without such an
// instruction run, but for `vdpbf16ps`, which takes subnormal factors as 0. Plain values and pure
// functions; thread-safe.

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

/// An instruction of a processor, or two that sum pairs of products and pairs of these sums.
struct DotInstruction {
  std::string_view name;
  DType shared, own;  ///< the factors; integers of fewer bits are widened before
  DType accumulator;
  int64_t depth;                               ///< products that a lane sums
  std::span<const std::string_view> features;  ///< of the targets that have it
  double Core::*per_cycle;                     ///< vectors that start in a cycle
  bool accumulates;  ///< it adds to the accumulator as well; else that is an addition of its own
  /// Sums of pairs are 16 bits wide, which suffices for values of the second factor up to 127.
  bool by_pairs = false;

  /// Vector instructions that multiply for one dot product.
  int multiplications() const { return by_pairs ? 2 : 1; }
  /// The time of one of these instructions, in f32 multiply-adds of vectors.
  double multiply_adds(const Core& core) const { return core.fma_per_cycle / core.*per_cycle; }
  /// Terms of a sum that are added in the time of a multiply-add of a vector.
  double speed(const Core& core) const {
    return static_cast<double>(depth) / (multiplications() * multiply_adds(core));
  }
};

/// The most products that a lane sums.
inline constexpr int64_t most_dot_depth = 4;

/// The instructions of the target, one for each name.
std::vector<const DotInstruction*> dot_instructions(const Target& target);

/// A number within the bits of an unsigned element: (element >> shift) & mask.
struct Digit {
  Expr shift;  ///< uses no variable of the dot product; the digit is defined if it is from 0 to 7
  int64_t mask;
};

/// The factors of a dot product, as they are in memory. Points into their product.
struct DotFactors {
  const dsl::Read *shared, *own;
  std::optional<Digit> digit;  ///< of the elements of `own`; nullopt: the elements themselves
};
/// The factors of a product whose lanes differ by the one variable and whose terms by the other;
/// nullopt if it has no such factors.
std::optional<DotFactors> dot_factors(const Expr& product, const std::string& lane,
                                      const std::string& term);

/// The instruction that computes products of these factors on the target; nullptr: there is none.
const DotInstruction* find_dot_instruction(const Target& target, const DotFactors& factors,
                                           DType accumulator, int64_t depth);

/// A way to sum products of a stage by an instruction.
struct StageDot {
  const DotInstruction* instruction;
  std::string lanes;  ///< the axis along which the lanes lie
  std::string own;    ///< tensor of the factor that differs between lanes
  /// The axis of the terms is the index of a dimension of the shared factor, as it is of a packed
  /// own factor.
  bool is_shared_along;
  bool widens;  ///< elements of a factor are narrower than those that the instruction reads
};
/// The dot products of the stage whose terms lie along an axis of its reduction. The extents of the
/// axes need not be multiples of what an instruction takes. Those of the most terms come first.
std::vector<StageDot> dots_along(const Target& target, const dsl::Stage& stage,
                                 const std::string& terms);

/// The product of a sum where its factors are not the 0 of a padding.
Expr unpadded(const Expr& product);

/// The number of terms of a sum that the target adds in the time of a multiply-add of a vector, by
/// its fastest dot product, or tile of a core, for a stage of the compute; 1 without such an
/// instruction.
double dot_speed(const Target& target, const dsl::Compute& compute);

/// True if the target multiplies data of this type as they are, by tensor tiles, or by dot products
/// or tiles of a core that accumulate and are faster than multiply-adds of f32: floats of 16 bits
/// with others of the type, integers of 8 bits with those of i8.
bool multiplies(const Target& target, DType type);

/// The parts of a dot product. Points into the program.
struct DotProduct : DotFactors {
  const Loop *lanes, *depth;
  const Assign* sum;
};
/// The dot product that a vector loop is; nullopt for other loops.
std::optional<DotProduct> dot_product(const Loop& loop);

}  // namespace tw::schedules

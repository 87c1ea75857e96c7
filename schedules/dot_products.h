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
// one, which lies in memory lane by lane. The meaning is that of the loops, which targets without
// such an instruction run. Plain values and pure functions; thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "base/target.h"
#include "schedules/program.h"

namespace tw::schedules {

/// An instruction of a processor.
struct DotInstruction {
  std::string_view name;
  DType shared, own;  ///< the widest factors; integers of fewer bits are widened before
  DType accumulator;
  int64_t depth;                               ///< products that a lane sums
  std::span<const std::string_view> features;  ///< of the targets that have it
  /// Whether it adds to the accumulator as well. Else that is an addition of its own.
  bool accumulates;
};

/// The instruction that computes products of these factors on the target; nullptr: there is none.
const DotInstruction* find_dot_instruction(const Target& target, DType shared, DType own,
                                           DType accumulator, int64_t depth);

/// The most products that a lane sums.
inline constexpr int64_t most_dot_depth = 4;

/// The parts of a dot product. Points into the program.
struct DotProduct {
  const Loop *lanes, *depth;
  const Assign* sum;
  const dsl::Read *shared, *own;  ///< the factors, as they are in memory
};
/// The dot product that a vector loop is; nullopt for other loops.
std::optional<DotProduct> dot_product(const Loop& loop);

}  // namespace tw::schedules

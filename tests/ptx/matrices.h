// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of tensor cores.

#include <span>

namespace tw::ptx {

/// Returns the sum of exact products and an accumulator as tensor cores compute it. All terms are
/// aligned to the largest and truncated `extra_bits` below the last bit of an f32. Then they are
/// summed, and the sum is truncated to an f32 (Fasi et al. 2021, doi:10.7717/peerj-cs.330).
/// Infinities and NaN are as usual.
float truncated_sum(std::span<const double> products, float accumulator);

/// Number of bits that a sum keeps of each term below the last bit of an f32 as large as the
/// largest term. An A100 keeps one, an H100 two.
inline constexpr int extra_bits = 2;

}  // namespace tw::ptx

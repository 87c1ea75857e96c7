// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of tensor cores.

#include <span>

namespace tw::ptx {

/// The sum of exact products and an accumulator as tensor cores make it: all terms are aligned to
/// the largest and cut off `extra_bits` below an f32's last bit, then summed, and the sum is cut
/// off to an f32 (Fasi et al. 2021, doi:10.7717/peerj-cs.330). Infinities and NaN as usual.
float truncated_sum(std::span<const double> products, float accumulator);

/// Bits of a term below the last one of an f32 of the largest term's size that sums keep; A100 has
/// one, H100 two.
inline constexpr int extra_bits = 2;

}  // namespace tw::ptx

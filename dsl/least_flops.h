// SPDX-License-Identifier: Apache-2.0
#pragma once
// The least work of a definition. count_flops() counts all terms of a reduction, but a kernel skips
// terms that do not count, such as the terms of a convolution in its padding. A limit on the speed
// of kernels needs the operations that no kernel can skip. Pure functions; thread-safe.
//
//   conv2d, h=33, r=3, pad=36, dilation=36: out[y] = sum(r=3) select(0 <= y + 36 * r - 36 < 33,
//   ...) Only r = 1 reads the input for rows, and only s = 1 for columns: a ninth of the terms
//   count.

#include <string>

#include "dsl/compute.h"

namespace tw::dsl {

/// Returns a lower bound of the operations that every kernel has to compute, in the unit of
/// count_flops() and never above it. Terms are left out if their condition (guarded_term()) fails.
/// The bound is exact for convolutions and pooling of usual sizes. Terms whose condition depends on
/// data count 0, except that a gather or scatter counts as in count_flops(). Conditions that take
/// too long to count also lower the bound. The time is 0.1 s at most.
double least_flops(const Compute& compute);

/// Returns least_flops() divided by count_flops() for the workload with this key (Workload::key()),
/// from 0 to 1. Returns 1 if the workload has no operations, or if the text is not the key of a
/// workload. Each thread keeps its last result, so asking again for the same key is cheap.
double needed_share(const std::string& key);

}  // namespace tw::dsl

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The least work of a definition. count_flops() counts all terms of a reduction, but a kernel may
// skip terms that are 0, such as the terms of a convolution in its padding. A limit on the speed of
// kernels needs the number of operations that no kernel can skip. Pure functions; thread-safe.
//
//   conv2d with h=33, r=3, pad=36, dilation=36:
//     out[y] = sum(r=3) select(0 <= y + 36 * r - 36 < 33, ...)
//
// Among the rows of the kernel only r = 1 reads the input, and among the columns only s = 1. So a
// ninth of the terms count.

#include <string>

#include "dsl/compute.h"

namespace tw::dsl {

/// Returns a lower bound of the number of operations that every kernel has to compute. Operations
/// are counted as by count_flops(), and the bound is never above count_flops(). Terms whose
/// condition (guarded_term()) fails are left out. The bound is exact for convolutions and pooling
/// of usual sizes. Terms whose condition depends on data count 0; however, a gather or scatter
/// counts as in count_flops(). The analysis ends after at most about 0.1 s, and terms that are not
/// decided by then count 0.
double least_flops(const Compute& compute);

/// Returns least_flops() divided by count_flops() for the workload with this key (Workload::key()),
/// from 0 to 1. Returns 1 if the workload has no operations, or if the text is not the key of a
/// workload. Each thread keeps its last result, so asking again for the same key is cheap.
double needed_share(const std::string& key);

}  // namespace tw::dsl

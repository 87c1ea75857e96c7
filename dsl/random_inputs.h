// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random inputs with which kernels are verified and timed. An integer input that is used as an
// index, such as the ids of a gather, is uniform over the dimension that it indexes; small integers
// would touch only the first rows, which stay in the cache. Free functions; thread-safe.

#include <cstdint>
#include <map>
#include <string>

#include "base/random.h"
#include "base/result.h"
#include "dsl/compute.h"
#include "dsl/interpret.h"

namespace tw::dsl {

/// Both ends included.
struct IndexRange {
  int64_t first = 0, last = 0;
};

/// For each integer input that is read in an index: the range of the indexed dimension, narrowed by
/// literal multiples, `min` and `max` around the input. Sums do not narrow it: in `ids + n` the
/// range is that of the whole sum.
std::map<std::string, IndexRange> index_ranges(const Compute& compute);

/// Uniform over the range, and over what the array's type can hold of it. Requires: an integer
/// type.
void fill_indices(Array& array, const IndexRange& range, Random& random);

/// An array for each input: uniform indices, else as fill_normal(). Errors as Array::make().
Result<Arrays> random_inputs(const Compute& compute, uint64_t seed);

}  // namespace tw::dsl

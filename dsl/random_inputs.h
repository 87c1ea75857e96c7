// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random inputs for verifying and timing kernels. An integer input that is used as an index, such
// as the ids of a gather, is uniform over the dimension that it indexes. The small integers of
// other inputs would index only the first rows, which stay in the cache. Free functions;
// thread-safe.

#include <cstdint>
#include <map>
#include <string>

#include "base/random.h"
#include "base/result.h"
#include "dsl/compute.h"
#include "dsl/interpret.h"

namespace tw::dsl {

/// The range of an index, including both ends.
struct IndexRange {
  int64_t first = 0, last = 0;
};

/// For each integer input that an index reads: the range that keeps the index within its dimension.
/// Literal factors, and `min` and `max`, around the input change the range. Sums do not: in `ids +
/// n` the range of `ids` is that of the whole sum.
std::map<std::string, IndexRange> index_ranges(const Compute& compute);

/// Fills the array with values that are uniform over the part of the range that the array's type
/// can hold. Requires: an integer type.
void fill_indices(Array& array, const IndexRange& range, Random& random);

/// Makes an array for each input: fill_indices() fills inputs that are indices, and fill_normal()
/// all others. Errors as Array::make().
Result<Arrays> random_inputs(const Compute& compute, uint64_t seed);

}  // namespace tw::dsl

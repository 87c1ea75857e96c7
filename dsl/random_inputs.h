// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random inputs for verifying and timing kernels. An integer input that is used as an index, such
// as the ids of a gather, gets values that are uniform over the dimension that it indexes. The
// values of other integer inputs are small (-4 to 4). As indices they would read only the first
// rows of a table. These rows stay in the cache, so the measured time would be too short. Free
// functions; thread-safe.

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

/// Returns, for each integer input that is used in an index, the range of values for which the
/// index stays within its dimension. In table[ids[i]] with 100 rows the range is [0, 99]; in
/// table[ids[i] * 4] it is [0, 24]. Factors, `min` and `max` with a literal on the right change the
/// range. Sums do not: in table[ids[i] + n] the range of `ids` is [0, 99], too. An input of several
/// indices gets the intersection of their ranges.
std::map<std::string, IndexRange> index_ranges(const Compute& compute);

/// Fills the array with uniform random values from `range`, or from its part up to the largest
/// value of the array's type. Requires: an integer type.
void fill_indices(Array& array, const IndexRange& range, Random& random);

/// Makes an array for each input of the compute. fill_indices() fills the inputs that are in
/// index_ranges(), and fill_normal() fills all others. Fails as Array::make() does.
Result<Arrays> random_inputs(const Compute& compute, uint64_t seed);

}  // namespace tw::dsl

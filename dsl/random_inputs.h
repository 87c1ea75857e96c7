// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random values for the inputs of a compute, by which kernels are verified and timed. An integer
// input whose elements are indices, as the ids of a gather are, takes values between the bounds of
// what it is an index of: small integers would read the first rows of a table alone, which stay in
// the cache. Free functions; thread-safe.

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

/// For each integer input that stands in an index: the values by which the indexed dimension is
/// read inside, as far as sums, multiples, `min` and `max` around the input tell.
std::map<std::string, IndexRange> index_ranges(const Compute& compute);

/// Uniform over the range, and over what the array's type can hold of it. Requires: an integer
/// type.
void fill_indices(Array& array, const IndexRange& range, Random& random);

/// An array for each input: uniform indices, else as fill_normal(). Errors as Array::make().
Result<Arrays> random_inputs(const Compute& compute, uint64_t seed);

}  // namespace tw::dsl

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Analyses the addresses that one read or write of a buffer takes while the loops around it run:
// strides, numbers of distinct elements, bytes of cache lines. A level is one of these loops, or a
// task axis (a loop whose iterations threads share). All types are plain values.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "base/small_vector.h"
#include "cost_model/facts/iteration_space.h"
#include "dsl/expr.h"
#include "schedules/program/program.h"

namespace tw::cost_model::facts {

/// Geometry of the L1 cache: the mapping of addresses to lines, and of lines to sets.
struct CacheLines {
  double bytes;  ///< size of a line
  /// Size of a way; lines at this distance fall into the same set. 0 if the machine has no L1.
  double way_bytes;
  double sets() const { return way_bytes / bytes; }
};
CacheLines lines_of(const CacheLevel& cache);

/// Pattern of the addresses of the lanes of one vector access. Contiguous: neighbouring elements.
/// Broadcast: the same element. Strided: elements at equal distances. Gather: any others.
enum class Pattern { Contiguous, Broadcast, Strided, Gather };

/// A term of an index: the number by which the index changes when one level advances by an
/// iteration. For example, the index `4 * x + k` has two terms, with the coefficient 4 for x and
/// the coefficient 1 for k.
struct IndexTerm {
  size_t level;
  double coefficient;      ///< mean change of the index per iteration: 1/4 for the index x / 4
  double most = 1e300;     ///< limit on the total change over the level: 3 for `x % 4`
  double unit = 0;         ///< all changes are multiples of this: 2 for 2 * (x / 4)
  bool irregular = false;  ///< true if the index is not affine in the level, as in x / 4 or x % 4
};
/// The index of one dimension of the buffer, as a sum of terms.
using IndexForm = std::vector<IndexTerm>;

bool is_irregular(const IndexForm& form);

/// An access of a buffer: the index of each dimension as a sum of terms. Adjacent dimensions whose
/// indices are digits of one number are joined. For example, `in[f / 7, f % 7]` with rows of 7
/// elements becomes `in[0, f]`, with an outer dimension of extent 1, so the access is linear in f.
struct Access {
  const schedules::Buffer* buffer = nullptr;
  std::vector<IndexForm> dimensions;
  SmallVector<int64_t, 8> extents;  ///< extents of the dimensions, at least 1
  /// The linear index of the element that is accessed if the variables of all levels are 0.
  double offset = 0;
  SmallVector<double, 8> origin;  ///< index of each dimension in the first iteration of all levels
  bool is_store = false;
  bool is_irregular = false;  ///< true if some dimension is irregular

  bool depends_on(size_t level) const;
  /// True if the level changes an index that has an irregular term (IndexTerm::irregular). The
  /// term may be one of another level.
  bool is_irregular_in(size_t level) const;
};

Access make_access(const schedules::Buffer& buffer, const std::vector<dsl::Expr>& indices,
                   const std::vector<Level>& levels);

/// Returns the pattern of the lanes of a vector access. Requires: `level` is a vector level of
/// `levels`.
Pattern pattern(const Access& access, size_t level);

/// True if all vectors begin at multiples of `bytes` bytes from the beginning of the buffer. All
/// vector levels in `levels` together form one vector. For example, 16 lanes that each sum 4
/// products of a dot product are one vector of 64 elements.
bool is_aligned(const Access& access, const std::vector<Level>& levels, double bytes);

/// The indices that one dimension takes while the chosen levels iterate and the other levels are
/// fixed.
struct Extent {
  double distinct = 1;  ///< number of different indices
  double span = 1;      ///< from the smallest to the largest index, both included
};

/// Computes the extent of an index. `varies(level)` is true for the chosen levels. `buffer_extent`
/// is the extent of the dimension; the span is at most this number.
template <typename Varies>
Extent extent(const IndexForm& form, const std::vector<Level>& levels, const Varies& varies,
              double buffer_extent) {
  double combinations = 1, movement = 0;
  int64_t step = 0;
  for (const IndexTerm& term : form) {
    if (!varies(term.level)) continue;
    const double most_trips = levels[term.level].most_trips, trips = std::max(1.0, most_trips);
    combinations *= trips;
    movement += std::min(std::fabs(term.coefficient) * (trips - 1), term.most);
    if (step == 1 || most_trips <= 1) continue;
    step = term.irregular ? 1 : std::gcd(step, static_cast<int64_t>(std::fabs(term.coefficient)));
  }
  Extent result;
  result.span = std::min(buffer_extent, std::floor(movement) + 1);
  const double common_step = static_cast<double>(std::max<int64_t>(1, step));
  result.distinct = std::min({combinations, std::floor(movement / common_step) + 1, result.span});
  return result;
}

/// Estimates the share of the combinations of indices that occur, from 0 to 1. Dimensions whose
/// index has an irregular term (IndexTerm::irregular) are combined. At most as many combinations
/// occur as their levels have iterations. For example, in `in[f / 7, f % 9]` with 14 iterations of
/// f, the first dimension has 2 indices and the second 9. At most 14 of the 18 combinations occur,
/// so the result is 14 / 18.
template <typename Varies>
double occurring_share(const Access& access, const std::vector<Level>& levels,
                       const Varies& varies) {
  if (!access.is_irregular) return 1;
  double combined = 1, iterations = 1;
  for (size_t d = 0; d < access.dimensions.size(); ++d)
    if (is_irregular(access.dimensions[d]))
      combined *=
          extent(access.dimensions[d], levels, varies, static_cast<double>(access.extents[d]))
              .distinct;
  for (size_t level = 0; level < levels.size(); ++level)
    if (varies(level) && access.is_irregular_in(level))
      iterations *= std::max(1.0, levels[level].most_trips);
  return std::min(1.0, iterations / combined);
}

/// The indices of one dimension in the first iterations of several accesses to a buffer. Several
/// statements access a buffer if loops are peeled because of padding or a tail. For example, if
/// each of three taps of a window is a statement of its own, their origins are 0, 1 and 2.
struct Origins {
  double first = 0, last = 0;  ///< the smallest and the largest of the indices
  double count = 1;            ///< number of different indices

  void add(double origin);
  /// Returns the extent of all accesses together, if a single access has the extent `one`. For
  /// example, three taps with the origins 0, 1 and 2, each over 14 pixels, together have a span of
  /// 16 indices.
  Extent extent(const Extent& one, double buffer_extent) const {
    const double span = std::min(buffer_extent, one.span + last - first);
    return {std::min(span, one.distinct * count), span};
  }
};
using AllOrigins = SmallVector<Origins, 8>;  ///< one for each dimension
/// Makes `origins` cover one more access: in each dimension, the index of the access in its first
/// iteration is added. `origins` is empty before the first access is added.
void add_origin(const Access& access, AllOrigins& origins);
/// True if all accesses whose origins were added access the same element in their first iterations.
inline bool are_one(const AllOrigins& origins) {
  return std::all_of(origins.begin(), origins.end(), [](const Origins& o) { return o.count == 1; });
}

/// Returns the number of different elements that are touched while the chosen levels iterate and
/// the other levels are fixed. If `origins` is not empty, the access is repeated at each of these
/// origins, and an element that several repetitions touch counts once.
template <typename Varies>
double distinct_elements(const Access& access, const std::vector<Level>& levels,
                         const Varies& varies, const AllOrigins& origins = {}) {
  double elements = occurring_share(access, levels, varies);
  for (size_t d = 0; d < access.dimensions.size(); ++d) {
    const auto most = static_cast<double>(access.extents[d]);
    const Extent one = extent(access.dimensions[d], levels, varies, most);
    elements *= (origins.empty() ? one : origins[d].extent(one, most)).distinct;
  }
  return elements;
}

/// The memory that is touched while the chosen levels iterate and the other levels are fixed, in
/// whole cache lines.
struct Footprint {
  double bytes = 0;
  /// Bytes of L1 that the lines need because they share few sets; 0 if they spread over the sets
  /// evenly. This is the number of lines in each used set, times the bytes of a way. For example,
  /// 14 lines at distances of 2 KiB use 2 sets of a way of 4 KiB, 7 lines in each. They need 7 * 4
  /// KiB = 28 KiB of L1. If L1 is smaller, they evict each other.
  double aliased_bytes = 0;
  /// Runs are stretches of memory without a gap of a line or more. `lines_a_run` is the number of
  /// lines in each run. `distance` is the greatest common divisor of the distances of runs, in
  /// bytes; 0 if there is a single run.
  double runs = 1, lines_a_run = 1, distance = 0;
};
Footprint footprint(const Access& access, std::span<const Extent> extents, CacheLines lines);

/// Computes the footprint of an access in a cache with the geometry `lines`. If `origins` is not
/// empty, the footprint covers the access repeated at each of these origins.
template <typename Varies>
Footprint footprint(const Access& access, const std::vector<Level>& levels, const Varies& varies,
                    CacheLines lines, const AllOrigins& origins = {}) {
  SmallVector<Extent, 8> extents;
  for (size_t d = 0; d < access.dimensions.size(); ++d) {
    const auto most = static_cast<double>(access.extents[d]);
    const Extent one = extent(access.dimensions[d], levels, varies, most);
    extents.push_back(origins.empty() ? one : origins[d].extent(one, most));
  }
  Footprint touched = footprint(access, {extents.begin(), extents.size()}, lines);
  touched.bytes *= occurring_share(access, levels, varies);
  return touched;
}

}  // namespace tw::cost_model::facts

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Analyses the addresses of one read or write of a buffer over the loops around it: strides,
// numbers of distinct elements, bytes of cache lines. Loops and task axes are called levels.
// Values.

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
  /// Size of a way: lines at this distance share a set; 0: the machine has no such cache.
  double way_bytes;
  double sets() const { return way_bytes / bytes; }
};
CacheLines lines_of(const CacheLevel& cache);

/// Pattern of the addresses of the lanes of one vector access: contiguous elements, the same
/// element, elements at equal steps, or any others.
enum class Pattern { Contiguous, Broadcast, Strided, Gather };

/// A term of an index: the movement of the index when a level advances by one iteration.
struct IndexTerm {
  size_t level;
  double coefficient;      ///< mean movement per iteration: 1/4 for x / 4
  double most = 1e300;     ///< limit on the total movement over the level: 3 for `x % 4`
  double unit = 0;         ///< each movement is a multiple of this: 2 for 2 * (x / 4)
  bool irregular = false;  ///< true if the index is not affine in the level
};
/// The index of one dimension of storage, as a sum of terms.
using IndexForm = std::vector<IndexTerm>;

bool is_irregular(const IndexForm& form);

/// An access of a buffer by the indices of its dimensions. Adjacent dimensions whose indices are
/// digits of one number, as in `in[f / 7, f % 7]` with rows of 7 elements, are joined: the last of
/// these dimensions takes the number as its index, and the others have extent 1. So the access in
/// the example is linear in f.
struct Access {
  const schedules::Buffer* buffer = nullptr;
  std::vector<IndexForm> dimensions;
  SmallVector<int64_t, 8> extents;  ///< extents of the dimensions, at least 1
  /// The linear index of the accessed element if the variables of all levels are 0.
  double offset = 0;
  SmallVector<double, 8> origin;  ///< index of each dimension in the first iteration of all levels
  bool is_store = false;
  bool is_irregular = false;  ///< true if some dimension is irregular

  bool depends_on(size_t level) const;
  /// True if a dimension that depends on the level is irregular.
  bool is_irregular_in(size_t level) const;
};

Access make_access(const schedules::Buffer& buffer, const std::vector<dsl::Expr>& indices,
                   const std::vector<Level>& levels);

/// Returns the pattern of the lanes of a vector access. Requires: `level` is a vector level of
/// `levels`.
Pattern pattern(const Access& access, size_t level);

/// True if every vector begins at a multiple of `bytes` in the buffer. All vector levels in
/// `levels` together form one vector; those of a dot product are its lanes and the products that a
/// lane sums.
bool is_aligned(const Access& access, const std::vector<Level>& levels, double bytes);

/// The indices that one dimension takes while the chosen levels iterate and the other levels are
/// fixed.
struct Extent {
  double distinct = 1;  ///< number of different indices
  double span = 1;      ///< from the smallest to the largest index, both included
};

/// Computes the extent of an index. `varies(level)` is true for the chosen levels.
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

/// Returns the share of all combinations of the dimensions' indices that occur. A level that moves
/// several dimensions, as f does in `in[f / 7, f % 7]`, makes at most as many combinations as it
/// has iterations.
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

/// The indices at which several accesses of a buffer begin, along one dimension. There are several
/// accesses where padding or a tail is peeled off: the taps of a window and the parts of a row are
/// then separate statements.
struct Origins {
  double first = 0, last = 0;
  double count = 1;  ///< number of different beginnings

  void add(double origin);
  /// Extent of the accesses at all beginnings together, if a single access has the extent `one`.
  Extent extent(const Extent& one, double buffer_extent) const {
    const double span = std::min(buffer_extent, one.span + last - first);
    return {std::min(span, one.distinct * count), span};
  }
};
using AllOrigins = SmallVector<Origins, 8>;  ///< one for each dimension
/// Adds the access's origin. If `origins` is empty, the access's origin becomes the first.
void add_origin(const Access& access, AllOrigins& origins);
/// True if all accesses begin at the same place.
inline bool are_one(const AllOrigins& origins) {
  return std::all_of(origins.begin(), origins.end(), [](const Origins& o) { return o.count == 1; });
}

/// Returns the number of different elements that are touched while the chosen levels iterate and
/// the other levels are fixed. If `origins` is not empty, the elements are those of accesses at all
/// `origins` together.
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

/// The memory, in whole cache lines, that is touched while the chosen levels iterate and the other
/// levels are fixed.
struct Footprint {
  double bytes = 0;
  /// Bytes of L1 that lines take up which lie at steps of a power of two and so share few sets: the
  /// number of lines in each used set, times the bytes of a way. If there are more bytes than the
  /// cache has, the lines evict each other. 0: the lines spread over the sets evenly.
  double aliased_bytes = 0;
  /// Number of runs, that is, stretches of memory without a gap of a line or more; lines in each
  /// run; and the greatest common divisor in bytes of the distances of runs.
  double runs = 1, lines_a_run = 1, distance = 0;
};
Footprint footprint(const Access& access, std::span<const Extent> extents, CacheLines lines);

/// Footprint of the access at all of `origins` together, or at its own origin if `origins` is
/// empty.
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

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How one read or write of a buffer moves through memory as the loops around it advance: strides,
// distinct elements, bytes of cache lines. Values.

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
#include "cost_model/iteration_space.h"
#include "dsl/expr.h"
#include "schedules/program.h"

namespace tw::cost_model {

/// How the first cache maps addresses: to lines, and lines to sets.
struct CacheLines {
  double bytes;      ///< of one line
  double way_bytes;  ///< lines this far apart share a set; 0: there is no such cache
  double sets() const { return way_bytes / bytes; }
};
CacheLines lines_of(const CacheLevel& cache);

/// Of the lanes of one vector access: neighbours, all the same element, equal steps, anything else.
enum class Pattern { Contiguous, Broadcast, Strided, Gather };

/// How far an index moves when a level advances by one.
struct IndexTerm {
  size_t level;
  double coefficient;      ///< of x / 4 it is 1/4: what it moves on average
  double most = 1e300;     ///< total movement over the level: `x % 4` moves by at most 3
  double unit = 0;         ///< each movement is a multiple of this: of 2 * (x / 4), 2
  bool irregular = false;  ///< not affine
};
/// One storage dimension's index.
using IndexForm = std::vector<IndexTerm>;

bool is_irregular(const IndexForm& form);

/// Where the indices of neighbouring dimensions are digits of one number, as in `in[f / 7, f % 7]`
/// with rows of 7 elements, the last of these dimensions stands for all of them, and the others
/// have extent 1: the access is linear in f.
struct Access {
  const schedules::Buffer* buffer = nullptr;
  std::vector<IndexForm> dimensions;
  SmallVector<int64_t, 8> extents;  ///< of the dimensions, at least 1
  double offset = 0;              ///< elements from the buffer's first, where all levels stand at 0
  SmallVector<double, 8> origin;  ///< each dimension's index where all levels begin
  bool is_store = false;
  bool is_irregular = false;  ///< in some dimension

  bool depends_on(size_t level) const;
  bool is_irregular_in(size_t level) const;  ///< some dimension that depends on it is irregular
};

Access make_access(const schedules::Buffer& buffer, const std::vector<dsl::Expr>& indices,
                   const std::vector<Level>& levels);

/// Requires: `level` is a vector level of `levels`.
Pattern pattern(const Access& access, size_t level);

/// Every vector begins at a multiple of `bytes` in the buffer.
bool is_aligned(const Access& access, size_t vector_level, double bytes);

/// What one dimension's index does while the chosen levels run and the others stand still.
struct Extent {
  double distinct = 1;  ///< values
  double span = 1;      ///< from the first to the last, both included
};

/// `varies(level)` says which levels run.
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

/// The share of all combinations of the dimensions' indices that occur. A level that moves several
/// dimensions, as f does in `in[f / 7, f % 7]`, makes at most as many combinations as it has
/// iterations.
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

/// The places at which several accesses of a buffer begin, along one dimension. Where padding or a
/// tail is peeled off, the taps of a window and the parts of a row are statements of their own.
struct Origins {
  double first = 0, last = 0;
  double count = 1;  ///< different ones

  void add(double origin);
  /// What accesses at all of these places touch, where one touches `one`.
  Extent extent(const Extent& one, double buffer_extent) const {
    const double span = std::min(buffer_extent, one.span + last - first);
    return {std::min(span, one.distinct * count), span};
  }
};
using AllOrigins = SmallVector<Origins, 8>;  ///< one a dimension
/// Adds the access's origin; to no origins, it is the first.
void add_origin(const Access& access, AllOrigins& origins);
/// Whether all accesses begin at the same place.
inline bool are_one(const AllOrigins& origins) {
  return std::all_of(origins.begin(), origins.end(), [](const Origins& o) { return o.count == 1; });
}

/// Different elements touched while the chosen levels run and the others stand still.
/// By the access at each of `origins`; without any, at its own.
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

/// What the chosen levels touch while the others stand still, in whole lines.
struct Footprint {
  double bytes = 0;
  /// Lines at steps of a power of two share few sets of a cache. As many bytes of L1 as those sets'
  /// share of it makes: what exceeds the cache throws itself out. 0: each line has a set of its
  /// own.
  double aliased_bytes = 0;
  /// Stretches of memory without a gap, the lines of each, and bytes that divide all their
  /// distances.
  double runs = 1, lines_a_run = 1, distance = 0;
};
Footprint footprint(const Access& access, std::span<const Extent> extents, CacheLines lines);

/// Of the access at each of `origins`; without any, at its own.
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

}  // namespace tw::cost_model

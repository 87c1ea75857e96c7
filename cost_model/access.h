// SPDX-License-Identifier: Apache-2.0
#pragma once
// How one read or write of a buffer moves through memory as the loops around it advance: strides,
// distinct elements, bytes of cache lines. Values.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cost_model/iteration_space.h"
#include "dsl/expr.h"
#include "schedules/program.h"

namespace tw::cost_model {

/// Of the lanes of one vector access: neighbours, all the same element, equal steps, anything else.
enum class Pattern { Contiguous, Broadcast, Strided, Gather };

/// How far an index moves when a level advances by one.
struct IndexTerm {
  size_t level;
  double coefficient;      ///< of x / 4 it is 1/4: what it moves on average
  double most = 1e300;     ///< total movement over the level: `x % 4` moves by at most 3
  bool irregular = false;  ///< not affine
};
/// One storage dimension's index.
using IndexForm = std::vector<IndexTerm>;

struct Access {
  const schedules::Buffer* buffer = nullptr;
  std::vector<IndexForm> dimensions;
  bool is_store = false;

  bool depends_on(size_t level) const;
};

Access make_access(const schedules::Buffer& buffer, const std::vector<dsl::Expr>& indices,
                   const std::vector<Level>& levels);

/// Requires: `level` is a vector level of `levels`.
Pattern pattern(const Access& access, size_t level);

using Varies = std::function<bool(size_t level)>;

/// Different elements touched while the chosen levels run and the others stand still.
double distinct_elements(const Access& access, const std::vector<Level>& levels,
                         const Varies& varies);

/// Bytes of the 64-byte lines that hold those elements.
double footprint_bytes(const Access& access, const std::vector<Level>& levels,
                       const Varies& varies);

}  // namespace tw::cost_model

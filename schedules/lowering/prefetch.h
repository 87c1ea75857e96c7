// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lowering of the step `prefetch`: the part of a tensor's memory that the next iteration of a loop
// reads, divided among the iterations of a loop inside of it.
//
//   prefetch out b n.0 k        # b packed as [n.0][k][n.1], 48 lines for each n.0
//
//   for n.0 in 0..4
//     for m.0 in 0..3
//       for k in 0..16
//         prefetch b, 1 line from element min(n.0 + 1, 3) * 768 + (m.0 * 16 + k) * 16
//
// The last iteration requests lines of its own, which are in the caches. Thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// A larger share of an iteration would fill the queues of misses at once.
inline constexpr int64_t most_prefetched_lines = 64;

/// The statement with which an iteration of the loop `ahead.at` of the stage begins. Invalid if the
/// stage has no such loops, is computed inside of another stage, reads no contiguous part of the
/// tensor in an iteration of `ahead.loop`, or the same part in each, or if the share of an
/// iteration has more than most_prefetched_lines.
Result<PrefetchLines> prefetch_lines(const Nest& nest, const StageNest& stage,
                                     const StageNest::Ahead& ahead);

/// The loop inside of `loop` whose iterations best request the part of the tensor: the outermost
/// one that requests at most `few_lines` in an iteration. Loops inside of that one can have more
/// iterations than there are lines, and then request lines again and again. The innermost possible
/// loop if all request more; nullopt if the step is illegal in every loop.
std::optional<std::string> prefetch_site(const Nest& nest, const StageNest& stage,
                                         const std::string& tensor, const std::string& loop,
                                         int64_t few_lines);

}  // namespace tw::schedules

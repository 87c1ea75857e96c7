// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lowering of the step `prefetch`. While an iteration of a loop runs, it requests the cache lines
// of a tensor that the next iteration will read. The iterations of a loop further inside share
// these requests. In the example each iteration of n.0 reads 768 floats of b, which are 48 lines,
// and the 3 * 16 iterations of m.0 and k request one line each:
//
//   prefetch out b n.0 k        # b packed as [n.0][k][n.1], 48 lines for each n.0
//
//   for n.0 in 0..4
//     for m.0 in 0..3
//       for k in 0..16
//         prefetch b, 1 line from element min(n.0 + 1, 3) * 768 + (m.0 * 16 + k) * 16
//
// The last iteration of n.0 has no next one. It requests its own lines again, which are in the
// caches. Thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// The largest number of lines that one iteration may request. More lines would fill the
/// processor's queues of cache misses at once.
inline constexpr int64_t most_prefetched_lines = 64;

/// Returns the statement that is to be the first of each iteration of the stage's loop `ahead.at`.
/// Invalid
///   - if the stage has no loop `ahead.at` inside of a loop `ahead.loop`,
///   - if the stage is computed inside of another stage,
///   - if an iteration of `ahead.loop` reads no contiguous part of the tensor,
///   - if every iteration of `ahead.loop` reads the same part, or
///   - if the loop `ahead.at` is not serial or never runs, or one of its iterations would request
///     more than most_prefetched_lines.
Result<PrefetchLines> prefetch_lines(const Nest& nest, const StageNest& stage,
                                     const StageNest::Ahead& ahead);

/// Chooses the loop `at` for a prefetch in `loop`: the outermost loop inside of `loop` in which
/// each iteration requests at most `few_lines`. In the example above with few_lines = 4, iterations
/// of m.0 would request 16 lines each, so the result is "k". A loop further inside may have more
/// iterations than there are lines, and would request lines repeatedly. If iterations of every loop
/// request more than `few_lines`, the result is the innermost loop in which the step is legal.
/// Returns nullopt if the step is illegal in every loop.
std::optional<std::string> prefetch_site(const Nest& nest, const StageNest& stage,
                                         const std::string& tensor, const std::string& loop,
                                         int64_t few_lines);

}  // namespace tw::schedules

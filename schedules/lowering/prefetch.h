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
// In the last iteration of the outer loop there is no next one, so it requests lines of its own
// part again, which are in the caches. Thread-safe.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// The most lines that an iteration may request. More would fill the processor's queues of cache
/// misses at once.
inline constexpr int64_t most_prefetched_lines = 64;

/// The statement that each iteration of the loop `ahead.at` of the stage begins with. Invalid
///   - if the stage has no such loops or is computed inside of another stage,
///   - if an iteration of `ahead.loop` reads no contiguous part of the tensor,
///   - if every iteration of `ahead.loop` reads the same part, or
///   - if an iteration of `ahead.at` would request more than most_prefetched_lines.
Result<PrefetchLines> prefetch_lines(const Nest& nest, const StageNest& stage,
                                     const StageNest::Ahead& ahead);

/// Chooses the loop inside of `loop` whose iterations request the lines. It is the outermost loop
/// whose iterations request at most `few_lines` each. A loop further inside may have more
/// iterations than there are lines, and would request lines repeatedly. If the iterations of every
/// loop request more, it is the innermost loop in which the step is legal. nullopt if the step is
/// illegal in every loop.
std::optional<std::string> prefetch_site(const Nest& nest, const StageNest& stage,
                                         const std::string& tensor, const std::string& loop,
                                         int64_t few_lines);

}  // namespace tw::schedules

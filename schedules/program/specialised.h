// SPDX-License-Identifier: Apache-2.0
#pragma once
// Warp-specialised phases. Producer warps issue the TMA copies of a pipeline ahead of the
// consumers, i.e. the threads that compute. The consumers then neither issue copies nor wait for
// each other. The phase computes the same as its body would without producers. For a target that
// has mbarriers, specialised_body() divides the body into a part for producers and a part for
// consumers:
//
//   for k in 0..2:  bulk ...; commit
//   for k in 0..9:  wait 1; barrier; if k + 2 < 9: bulk ...;  commit; compute
//
// becomes the following, in which `barrier` waits until all consumers have reached their wait:
//
//   producer                                          consumer
//   for k in 0..2:  bulk ...; commit                  for k in 0..2:  commit
//   for k in 0..9:  barrier; if ...: bulk; commit     for k in 0..9:  wait 1; commit; compute
//
// In a persistent phase a block of threads computes several tasks one after another. Between two
// tasks the producers wait until the consumers have finished with the last slot of the pipeline,
// but not until the consumers have stored their results. The consumers wait for each other before
// they compute the next task.
//
// Pure functions; thread-safe.

#include "base/result.h"
#include "schedules/program/program.h"

namespace tw::schedules {

struct Limits;

/// Number of producer threads of a block, which are four warps. Only one of these threads issues
/// the copies.
inline constexpr int64_t producer_threads = 128;

/// The two programs of a specialised phase: the producer warps run one, which issues the copies,
/// and all other warps run the other, which computes.
struct SpecialisedBody {
  Block producer;
  Block consumer;
};

/// Divides the body of a phase into the statements of its producers and those of its consumers. A
/// TMA copy is identified by the address of its block (TmaCopy::body). These blocks are not copied,
/// so the addresses are valid for the result, too. Requires: check_specialised() succeeds.
SpecialisedBody specialised_body(const Phase& phase);

/// Checks a specialised phase; a phase that is not specialised passes unless it is persistent. The
/// phase must have one pipeline, outside of other loops, and all copies of the pipeline must be TMA
/// copies. Threads in the pipeline may write only to their private buffers. The threads must be
/// whole warps. The block must have room for the producer warps, and shared memory for all
/// mbarriers. Fails with ErrorCode::Invalid.
Status check_specialised(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules

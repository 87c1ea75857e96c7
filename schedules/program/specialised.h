// SPDX-License-Identifier: Apache-2.0
#pragma once
// Warp-specialised phases: producer warps issue the TMA copies of a pipeline ahead of the
// consumers, i.e. the threads that compute, which then neither issue copies nor wait for each
// other. The meaning of the phase is that of its body; specialised_body() divides it into two parts
// for a target that has mbarriers:
//
//   for k in 0..2:  bulk ...; commit
//   for k in 0..9:  wait 1; barrier; if k + 2 < 9: bulk ...;  commit; compute
//
// becomes, where `barrier` waits until all consumers have come to their wait:
//
//   producer                                          consumer
//   for k in 0..2:  bulk ...; commit                  for k in 0..2:  commit
//   for k in 0..9:  barrier; if ...: bulk; commit     for k in 0..9:  wait 1; commit; compute
//
// In a persistent phase a block goes through several tasks. Between two of them the producer waits
// until the consumers have left the last slot of the pipeline, not until they have stored their
// results, and the consumers wait for each other before they compute the next one.
//
// Pure functions; thread-safe.

#include "base/result.h"
#include "schedules/program/program.h"

namespace tw::schedules {

struct Limits;

/// Number of producer threads of a block: four warps, of which one thread issues the copies.
inline constexpr int64_t producer_threads = 128;

struct SpecialisedBody {
  Block producer;
  Block consumer;
};

/// Divides the phase. The bodies of TMA copies are the phase's own blocks, not copies of them.
/// Requires: check_specialised() succeeds.
SpecialisedBody specialised_body(const Phase& phase);

/// Checks a phase if it is specialised: it has one pipeline, outside of other loops, whose copies
/// are all TMA copies; threads in the pipeline write only to their private buffers; and the threads
/// are whole warps and leave room for the producers. Fails with ErrorCode::Invalid.
Status check_specialised(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules

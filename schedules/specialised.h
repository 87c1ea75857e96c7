// SPDX-License-Identifier: Apache-2.0
#pragma once
// Specialised phases: threads of their own ask for the boxes of a pipeline, ahead of those that
// compute, which so neither ask nor wait for each other. The phase means what its body says; what
// follows is the same work in two parts, for a target that has barriers of bulk copies.
//
//   for k in 0..2:  bulk ...; commit
//   for k in 0..9:  wait 1; barrier; if k + 2 < 9: bulk ...;  commit; compute
//
// becomes, where a barrier waits until all who compute have come to their wait:
//
//   asking                                            computing
//   for k in 0..2:  bulk ...; commit                  for k in 0..2:  commit
//   for k in 0..9:  barrier; if ...: bulk; commit     for k in 0..9:  wait 1; commit; compute
//
// Pure functions; thread-safe.

#include "base/result.h"
#include "schedules/program.h"

namespace tw::schedules {

struct Limits;

/// Of a block: four warps, of which one thread asks.
inline constexpr int64_t asking_threads = 128;

struct SpecialisedBody {
  Block asking;
  Block computing;
};

/// The blocks of the boxes are those of the phase. Requires: check_specialised() holds.
SpecialisedBody specialised_body(const Phase& phase);

/// The phase, where it is specialised, has one pipeline, outside of other loops, which copies by
/// boxes alone, and threads in it write only what is their own; its threads are whole warps and
/// leave room for those that ask. ErrorCode::Invalid says what is wrong.
Status check_specialised(const Phase& phase, const Limits& limits);

}  // namespace tw::schedules

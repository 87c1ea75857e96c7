// SPDX-License-Identifier: Apache-2.0
#pragma once
// lower(): the passes that turn scheduled loops into a Program.
//
//   emit      each stage's loops, accumulators, epilogues, placed producers and copies of operands,
//             guards innermost (emit.h)
//   resolve   guards hoisted, loops trimmed, edges peeled (schedules/program/guards.h)
//   finish    indices into storage layouts, expressions simplified, loops of one iteration removed
//             (finish.h)
//   order     barriers between threads of a task that access the same buffer, and marks on the
//             conditions that are the same for all of them (schedules/program/threads.h)
//   check     every access inside its buffer, sizes within limits (schedules/program/legality.h)
//
// The same passes lower the prepared stages (schedules/prepared.h) to Program::preparation.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/legality.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Lowers a nest. Invalid, with the reason, if the nest is illegal or exceeds the limits. Pure and
/// deterministic.
Result<Program> lower(const Nest& nest, const Limits& limits = {});

}  // namespace tw::schedules

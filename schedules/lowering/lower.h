// SPDX-License-Identifier: Apache-2.0
#pragma once
// lower() turns scheduled loops into a Program. These passes run one after the other:
//
//   emit      makes the loops of each stage, its accumulator and epilogue, the stages that are
//             computed inside of it, copies of operands, and guards around the innermost
//             statements (emit.h)
//   resolve   moves guards outwards, trims loops, and peels iterations at edges
//             (schedules/program/guards.h)
//   finish    replaces logical indices by those of storage layouts, simplifies expressions, and
//             removes loops of one iteration (finish.h)
//   order     places barriers between threads of a task that access the same buffer, and marks
//             conditions that have the same value in all threads (schedules/program/threads.h)
//   check     proves that every access is inside its buffer, and that sizes are within limits
//             (schedules/program/legality.h)
//
// The same passes lower the prepared stages (schedules/prepared.h) to Program::preparation.

#include "base/result.h"
#include "schedules/nest.h"
#include "schedules/program/legality.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Lowers a nest to a program. Invalid, with the reason, if the nest is illegal or exceeds the
/// limits. Pure and deterministic.
Result<Program> lower(const Nest& nest, const Limits& limits = {});

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packing: programs that copy between a caller's row-major tensor and the layout in which a kernel
// stores it. Pure functions; thread-safe.

#include "base/target.h"
#include "schedules/problem.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// The packing program of an argument. For an input its arguments are "logical" and "storage", and
/// it writes all of the storage, with zeros where the layout rounds up. For an output they are
/// "storage" and "logical", and it reads the elements that exist in the tensor. Tasks are the
/// outermost storage dimension. Requires: the storage is `layout` of `shape`.
Program pack_program(const Argument& argument);

/// All that a call of a kernel of the problem executes, for predictions of its time: `program`, and
/// where the problem converts arrays on a processor, a phase before it for each input that is
/// packed, and one behind it for each output that is unpacked. The argument is then the caller's
/// row-major array, and the kernel's storage of it a scratch buffer.
Program program_of_call(Program program, const Problem& problem, const Target& target);

}  // namespace tw::schedules

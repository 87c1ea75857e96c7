// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packing: programs that copy a tensor from the caller's row-major memory to the layout in which a
// kernel stores the tensor, and back. Pure functions; thread-safe.

#include "base/target.h"
#include "schedules/problem.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// The program that packs or unpacks an argument. For an input its arguments are "logical" and
/// "storage": it writes all of the storage, with zeros where the layout rounds up. For an output
/// they are "storage" and "logical": it reads only the elements that exist in the tensor. Each
/// index of the outermost storage dimension is a task. Requires: the storage is `layout` of
/// `shape`.
Program pack_program(const Argument& argument);

/// All that a call of a kernel executes, for predictions of its time. If the problem converts
/// arrays and the target is a CPU, there is a phase before `program` for each input that is packed,
/// and a phase after it for each output that is unpacked. The argument is then the caller's
/// row-major array, and the kernel's storage is a scratch buffer. Otherwise returns `program`.
Program program_of_call(Program program, const Problem& problem, const Target& target);

}  // namespace tw::schedules

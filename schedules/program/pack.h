// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packing: programs that copy a tensor from the caller's row-major memory to the layout in which a
// kernel stores the tensor, and back. Pure functions; thread-safe.

#include "base/target.h"
#include "schedules/problem.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// Returns the program that packs an input or unpacks an output. It has two arguments: "logical",
/// the caller's row-major array, and "storage", the kernel's memory. For an input it writes all of
/// "storage", with zeros where the layout rounds up. For an output it reads only those elements of
/// "storage" that exist in the tensor. Each index of the outermost storage dimension is a task.
/// Requires: the argument's buffer stores a tensor of `shape` in `layout`.
Program pack_program(const Argument& argument);

/// Returns a program with all phases that a call of a kernel executes, for predictions of its time.
/// If the problem converts arrays and the target is a CPU, these are a phase for each input that is
/// packed, the phases of `program`, and a phase for each output that is unpacked. The argument of
/// such an input or output is then the caller's row-major array, and the kernel's storage is a
/// scratch buffer. In all other cases the result is `program`.
Program program_of_call(Program program, const Problem& problem, const Target& target);

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffers and variables that every statement of a phase can use: the program's buffers and the
// phase's axes. Pure functions.

#include <map>
#include <string_view>

#include "schedules/program/bounds.h"
#include "schedules/program/program.h"

namespace tw::schedules {

using BuffersByName = std::map<std::string_view, const Buffer*>;

/// Returns the arguments and scratch buffers of the program, by name. The program must outlive the
/// result.
inline BuffersByName global_buffers(const Program& program) {
  BuffersByName buffers;
  for (const Argument& argument : program.arguments)
    buffers[argument.buffer.name] = &argument.buffer;
  for (const Buffer& buffer : program.scratch) buffers[buffer.name] = &buffer;
  return buffers;
}

/// Adds the phase's axes, with their ranges of values, to `bounds`.
inline void push_axes(const Phase& phase, Bounds& bounds) {
  for (const TaskAxis& axis : phase.axes)
    bounds.push_loop(axis.variable, Expr(0), Expr(axis.extent));
}

}  // namespace tw::schedules

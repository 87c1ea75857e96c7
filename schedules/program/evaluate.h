// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interpreter of Program: it runs a loop program and checks every access. Tests compare
// compiled kernels with this interpreter, and this interpreter with dsl/interpret.h, which shows
// that lowering keeps the meaning.
//
// Values follow dsl/interpret.h. Floats are computed in double, and rounded where they are stored
// and at casts; integers wrap; `select`, `&&` and `||` evaluate only the operands that they need.
// Thread-safe.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedules/program/program.h"

namespace tw::schedules {

/// The bytes of each argument in its storage layout, by name.
using Storage = std::map<std::string, std::vector<std::byte>>;

/// Runs all phases, and the tasks of each phase, in order. `storage` must have each input. The
/// function first computes the prepared buffers and adds them to `storage`, then the outputs. It
/// fails if
///   - an access that is executed lies outside of its buffer,
///   - an element of any buffer but an input is read before it was written,
///   - two tasks of one phase, or two threads of a task with no barrier between, access an element
///     that one of them writes,
///   - a thread reads an element of a private buffer that another thread wrote,
///   - an element is accessed before an asynchronous copy to it was waited for,
///   - an iteration of a pipeline begins with fewer commit groups in flight than
///     `LoopPipeline::ahead`,
///   - threads find different values of a condition that is marked uniform, or
///   - an input is written.
Status evaluate(const Program& program, Storage& storage);

}  // namespace tw::schedules

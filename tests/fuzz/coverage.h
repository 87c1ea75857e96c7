// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which branches of the instrumented code an input takes, where the build has TW_COVERAGE; else
// nothing is ever new. One thread only.

namespace tw::fuzz {

/// Forgets the input before.
void begin_input();

/// Whether the code since begin_input() reached a place that no earlier input has reached.
bool reached_something_new();

}  // namespace tw::fuzz

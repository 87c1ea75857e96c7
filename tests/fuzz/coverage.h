// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tells whether a fuzz input reached new code. In a build without TW_COVERAGE nothing is
// instrumented, and no input ever reaches new code. For use by one thread only.

namespace tw::fuzz {

/// Clears the coverage of the previous input. Call it before each input.
void begin_input();

/// True if the code that ran since begin_input() reached a place that no earlier input has reached.
bool reached_something_new();

}  // namespace tw::fuzz

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Emits a program as portable C, for people to read and for tests. The tests run the C text under
// sanitizers and compare the results of other back ends with its results. The text compiles as C11
// and as C++17 without warnings, and needs only the math functions of the standard library.
//
// Each phase becomes `int32_t <prefix>_p<i>(void* const* buffers, void* scratch, int32_t task)`
// (see runtime/artifact.h). Expressions have the meaning that dsl/interpret.h gives them. Each
// expression is computed in its own type, except that 16-bit floats are computed in float. The
// indices of a phase are 32-bit if all of them are proved to fit, else 64-bit.

#include <string>

#include "base/result.h"
#include "schedules/program/program.h"

namespace tw::codegen {

/// Returns the C text of the program. Fails with Unsupported if check_limits() (codegen/abi.h)
/// does. Requires: `prefix` is a C identifier.
Result<std::string> emit_c(const schedules::Program& program, const std::string& prefix);

}  // namespace tw::codegen

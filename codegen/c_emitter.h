// SPDX-License-Identifier: Apache-2.0
#pragma once
// Emits a program as portable C. The text is the readable form of a kernel, and the reference that
// runs under sanitizers. It compiles as C11 and as C++17 without warnings, and needs only the math
// functions of the standard library.
//
// Each phase becomes `int32_t <prefix>_p<i>(void* const* buffers, void* scratch, int32_t task)`
// (see runtime/artifact.h). Expressions mean what dsl/interpret.h says; they are computed in their
// own type, 16-bit floats in float. The indices of a phase are 32-bit if all of them are proved to
// fit, else 64-bit.

#include <string>

#include "base/result.h"
#include "schedules/program/program.h"

namespace tw::codegen {

/// Returns the text. Unsupported if check_limits() fails. Requires: `prefix` is a C identifier.
Result<std::string> emit_c(const schedules::Program& program, const std::string& prefix);

}  // namespace tw::codegen

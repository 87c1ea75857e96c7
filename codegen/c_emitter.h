// SPDX-License-Identifier: Apache-2.0
#pragma once
// Program -> portable C: the readable form of a kernel, and the reference that runs under
// sanitizers. The text compiles as C11 and as C++17, without warnings, and needs the standard
// library's math only.
//
// Each phase becomes `int32_t <prefix>_p<i>(void* const* buffers, void* scratch, int32_t task)`;
// see runtime/artifact.h. Expressions mean what dsl/interpret.h says, computed in the type they
// have (16-bit floats in float). Indices are 32-bit where every one of a phase is proved to fit,
// else 64-bit.

#include <string>

#include "base/result.h"
#include "schedules/program/program.h"

namespace tw::codegen {

/// Unsupported when check_limits() fails. `prefix` is a C identifier.
Result<std::string> emit_c(const schedules::Program& program, const std::string& prefix);

}  // namespace tw::codegen

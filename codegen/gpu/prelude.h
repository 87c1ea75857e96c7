// SPDX-License-Identifier: Apache-2.0
#pragma once
// The prelude: small functions that emitted kernels may call in addition to those of their
// language. A text contains the definitions of the functions that it calls, in its dialect.

#include <string>
#include <string_view>

namespace tw::codegen {

/// Returns the definitions of the functions that `body` calls. Definitions between #ifndef
/// TW_HOST_TWIN and #endif are for GPUs only; codegen/gpu/host_emulator.h replaces them.
std::string cuda_functions_for(std::string_view body);
std::string opencl_functions_for(std::string_view body);

/// True for words that cannot name a variable of an emitted kernel in one of the dialects.
bool is_reserved_on_gpu(std::string_view word);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions that emitted kernels may call apart from those of their language. They are small,
// and a text contains the definitions of those that it calls, in its dialect.

#include <string>
#include <string_view>

namespace tw::codegen {

/// Definitions of the functions that `body` calls. Those between #ifndef TW_HOST_TWIN and #endif
/// are for GPUs only; codegen/gpu/host_emulator.h replaces them.
std::string cuda_functions_for(std::string_view body);
std::string opencl_functions_for(std::string_view body);

/// Words that no variable of an emitted kernel may be named, in either dialect.
bool is_reserved_on_gpu(std::string_view word);

}  // namespace tw::codegen

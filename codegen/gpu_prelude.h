// SPDX-License-Identifier: Apache-2.0
#pragma once
// What emitted kernels may call beyond their language: small functions, of which a text carries
// those that it uses, in the words of its dialect.

#include <string>
#include <string_view>

namespace tw::codegen {

/// Definitions of the functions that `body` calls. Between #ifndef TW_HOST_TWIN and #endif stands
/// what only a GPU can do.
std::string cuda_functions_for(std::string_view body);
std::string opencl_functions_for(std::string_view body);

/// Words that no variable of an emitted kernel may be named, in either dialect.
bool is_reserved_on_gpu(std::string_view word);

}  // namespace tw::codegen

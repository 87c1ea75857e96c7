// SPDX-License-Identifier: Apache-2.0
#pragma once
// The prelude: small functions that emitted kernels may call in addition to the functions of their
// language. An emitted text contains the definitions of the prelude functions that it calls,
// written in its own language.

#include <string>
#include <string_view>

namespace tw::codegen {

/// Return the definitions of the functions that `body` calls, in CUDA C++ and in OpenCL C. In CUDA,
/// definitions between #ifndef TW_HOST_TWIN and #endif are for GPUs only; the host emulator has
/// definitions of its own in their place (codegen/gpu/host_emulator.h).
std::string cuda_functions_for(std::string_view body);
std::string opencl_functions_for(std::string_view body);

/// True if the word has a meaning in CUDA C++ or OpenCL C. No variable of an emitted kernel can
/// have this name.
bool is_reserved_on_gpu(std::string_view word);

}  // namespace tw::codegen

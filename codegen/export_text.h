// SPDX-License-Identifier: Apache-2.0
#pragma once
// The C text around a kernel that is exported as a shared object: the header that callers include,
// and the source text that defines the functions of the header. Private to codegen/export.cpp. Pure
// functions; thread-safe.

#include <string>

#include "base/result.h"
#include "base/target.h"
#include "runtime/artifact.h"

namespace tw::codegen {

/// Checks that functions of C and C++ can have this name: it must be an identifier of at most 64
/// characters that is neither a keyword nor reserved. Fails with Usage if it is not.
Status check_export_name(const std::string& name);

/// Returns the header that declares the functions of the shared object. Requires:
/// check_export_name(name) and runtime::check_info(info) succeed.
std::string export_header(const runtime::KernelInfo& info, const std::string& name);

/// Returns the C11 text that defines the functions of the header and __tvm_ffi_<name>. The text
/// must be linked with the kernel's phases and packs (runtime/artifact.h). It imports
/// aligned_alloc() and free(), and, as a weak symbol, the TVM-FFI function that stores errors.
/// Requires: the target is a processor, and the conditions of export_header() hold.
std::string export_source(const runtime::KernelInfo& info, const std::string& name,
                          const Target& target);

}  // namespace tw::codegen

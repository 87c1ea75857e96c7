// SPDX-License-Identifier: Apache-2.0
#pragma once
// The C text around a kernel that is exported as a shared object: the header that callers include,
// and the source of the functions that the header declares. Private to codegen/export.cpp. Pure
// functions; thread-safe.

#include <string>

#include "base/result.h"
#include "base/target.h"
#include "runtime/artifact.h"

namespace tw::codegen {

/// Checks that the text can name functions of C and C++: an identifier of at most 64 characters
/// that is no keyword and not reserved. Usage if not.
Status check_export_name(const std::string& name);

/// Returns the header that declares the functions of the shared object. Requires:
/// check_export_name() and runtime::check_info() hold.
std::string export_header(const runtime::KernelInfo& info, const std::string& name);

/// Returns C11 text that defines the functions of the header and __tvm_ffi_<name>, to be linked
/// with the kernel's phases and packs. It imports aligned_alloc() and free(), and, as a weak
/// symbol, the TVM-FFI function that stores errors. Requires: as export_header(); a target of a
/// processor.
std::string export_source(const runtime::KernelInfo& info, const std::string& name,
                          const Target& target);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Exports a kernel as a shared object that any program can link or open without the runtime of this
// project, and as a C header that declares the object's functions.
//
//   TW_TRY(const ExportedKernel exported, export_kernel(spec, target, {.name = "gemm"}));
//   TW_RETURN_IF_ERROR(write_exported("libgemm.so", exported));   // and libgemm.h
//
// The functions take row-major arrays. gemm(a, b, c) uses its own memory and the calling thread;
// gemm_on(a, b, c, workspace, run, context) uses memory and threads of the caller's. The object
// also has __tvm_ffi_gemm for tvm_ffi.load_module(). It needs only the C library.
//
// The functions around the kernel are C, which the system's compiler translates and links.
// Thread-safe.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "codegen/compile.h"

namespace tw::codegen {

struct ExportOptions {
  std::string name;  ///< name of the function that is exported
  /// The C compiler: a path, or a name that is searched on PATH. Empty: "cc", or
  /// "aarch64-linux-gnu-gcc" if the target is not this machine's architecture.
  std::string compiler = {};
  int64_t timeout_ns = 60'000'000'000;
  CompileOptions kernel = {};
};

struct ExportedKernel {
  std::string library;  ///< the bytes of an ELF shared object
  std::string header;   ///< text of the header, for C and C++
};

/// Compiles and exports a kernel. Usage: the name cannot name a C function. Unsupported: a GPU's
/// kernel. Environment: there is no C compiler, or it failed; the message ends with the compiler's
/// output. Other errors as compile(). Requires: a spec with packs.
Result<ExportedKernel> export_kernel(const KernelSpec& spec, const Target& target,
                                     const ExportOptions& options);
/// As export_kernel() above, for the texts of a workload (its key) and of its schedule, which
/// compiled artifacts carry (KernelInfo). Invalid if the texts do not parse.
Result<ExportedKernel> export_kernel(const std::string& workload, const std::string& schedule,
                                     const Target& target, const ExportOptions& options);

/// Checks before any work that a library can be exported to this path under this name (empty:
/// export_name()). Usage if not.
Status check_export(const std::string& library_path, const std::string& name);
/// Returns the name of the function if the caller gives none: "libgemm.so" exports gemm.
std::string export_name(const std::string& library_path);
/// Returns the header's path: the library's path with the ending .h.
std::string header_path(const std::string& library_path);
/// Writes the library, then its header, replacing old files. Requires: check_export() holds.
Status write_exported(const std::string& library_path, const ExportedKernel& exported);

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel as a shared object that any program can link or open, without the runtime of this
// project, and the C header that declares its functions.
//
//   TW_TRY(const ExportedKernel exported, export_kernel(spec, target, {.name = "gemm"}));
//   TW_RETURN_IF_ERROR(write_exported("libgemm.so", exported));   // and libgemm.h
//
// The functions take row-major arrays, as the kernel's caller has them: gemm(a, b, c), and
// gemm_on(a, b, c, workspace, run, context) with memory and threads of the caller's. Beside these
// the object has __tvm_ffi_gemm for tvm_ffi.load_module(). It needs the C library only.
//
// The functions around the kernel are C; the system's compiler translates and links them.
// Thread-safe.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "codegen/compile.h"

namespace tw::codegen {

struct ExportOptions {
  std::string name;  ///< of the function
  /// A path or a name that is searched on PATH; empty: "cc", or "aarch64-linux-gnu-gcc" when the
  /// target is not this machine's architecture.
  std::string compiler = {};
  int64_t timeout_ns = 60'000'000'000;
  CompileOptions kernel = {};
};

struct ExportedKernel {
  std::string library;  ///< the bytes of an ELF shared object
  std::string header;   ///< C and C++
};

/// Usage: the name cannot be that of a function of C. Unsupported: a GPU's kernel. Environment:
/// there is no C compiler, or it failed; the message ends with what it printed. Others as for
/// compile(), for which the spec has packs.
Result<ExportedKernel> export_kernel(const KernelSpec& spec, const Target& target,
                                     const ExportOptions& options);
/// The same for a workload (key) and its schedule as texts, which compiled artifacts carry
/// (KernelInfo). Invalid where they do not parse.
Result<ExportedKernel> export_kernel(const std::string& workload, const std::string& schedule,
                                     const Target& target, const ExportOptions& options);

/// Usage, before any work, for a library and a name (empty: export_name()) that cannot be exported.
Status check_export(const std::string& library_path, const std::string& name);
/// The name of the function where the caller gives none: "libgemm.so" is of gemm.
std::string export_name(const std::string& library_path);
/// The header's path: that of the library with the ending .h.
std::string header_path(const std::string& library_path);
/// Replaces both files, the library first. Requires: check_export() holds.
Status write_exported(const std::string& library_path, const ExportedKernel& exported);

}  // namespace tw::codegen

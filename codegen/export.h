// SPDX-License-Identifier: Apache-2.0
#pragma once
// Exports a kernel as a shared object and a C header that declares its functions. Any program can
// link or open the shared object without the runtime of this project.
//
//   TW_TRY(const ExportedKernel exported, export_kernel(spec, target, {.name = "gemm"}));
//   TW_RETURN_IF_ERROR(write_exported("libgemm.so", exported));   // and libgemm.h
//
// The object has three functions. They take row-major arrays and need only the C library:
// - gemm(a, b, c) allocates its own memory and runs on the calling thread.
// - gemm_on(a, b, c, workspace, run, context) uses memory and threads of the caller.
// - __tvm_ffi_gemm is for tvm_ffi.load_module().
//
// These functions are emitted as C. The system's C compiler translates them and links them with the
// kernel. Thread-safe.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "codegen/compile.h"

namespace tw::codegen {

struct ExportOptions {
  std::string name;  ///< name of the function that is exported
  /// The C compiler: a path, or a name that is searched for on PATH. If empty, it is "cc", or a
  /// cross compiler such as "aarch64-linux-gnu-gcc" if the target is not this machine's
  /// architecture.
  std::string compiler = {};
  int64_t timeout_ns = 60'000'000'000;
  CompileOptions kernel = {};
};

struct ExportedKernel {
  std::string library;  ///< the bytes of an ELF shared object
  std::string header;   ///< text of the header, for C and C++
};

/// Compiles and exports a kernel. Fails with Usage if `options.name` cannot name a C function, and
/// with Unsupported if the target is a GPU. Fails with Environment if there is no C compiler or if
/// the compiler failed; the message ends with the compiler's output. Fails otherwise as compile()
/// does for one kernel. Requires: spec.packs is true.
Result<ExportedKernel> export_kernel(const KernelSpec& spec, const Target& target,
                                     const ExportOptions& options);
/// Compiles and exports the kernel of a workload and a schedule. `workload` is the key of the
/// workload, and `schedule` the text of the schedule; compiled artifacts carry both texts
/// (KernelInfo). If a text does not parse, fails as dsl::parse_workload() or
/// schedules::parse_schedule() does. Other errors are those of export_kernel() above.
Result<ExportedKernel> export_kernel(const std::string& workload, const std::string& schedule,
                                     const Target& target, const ExportOptions& options);

/// Checks that a library can be exported to this path and that a function can have this name. Call
/// it before the compilation, so that a mistake costs no time. An empty name stands for
/// export_name(library_path). Fails with Usage if the name is not allowed, if the path ends in .h
/// as the header's does, or if runtime::check_replaceable() refuses one of the two files.
Status check_export(const std::string& library_path, const std::string& name);
/// Returns the default name of the function, which follows from the file's name: "gemm" for
/// "libgemm.so".
std::string export_name(const std::string& library_path);
/// Returns the path of the header, which is the library's path with the ending .h: "libgemm.h".
std::string header_path(const std::string& library_path);
/// Writes the library to this path and the header to header_path(), replacing old files. Requires:
/// check_export() succeeds.
Status write_exported(const std::string& library_path, const ExportedKernel& exported);

}  // namespace tw::codegen

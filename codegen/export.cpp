// SPDX-License-Identifier: Apache-2.0
#include "codegen/export.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "base/text.h"
#include "codegen/command.h"
#include "codegen/export_text.h"
#include "dsl/compute.h"
#include "dsl/workload.h"
#include "runtime/private_file.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"

namespace tw::codegen {
namespace {

std::string compiler_for(const Target& target) {
  if (target.architecture == host_target().architecture) return "cc";
  return target.architecture == Architecture::Arm64 ? "aarch64-linux-gnu-gcc"
                                                    : "x86_64-linux-gnu-gcc";
}

/// Returns a linker version script that makes visible only the functions of the header and the
/// function of TVM-FFI.
std::string exported_symbols(const std::string& name) {
  return fmt::format("{{ global: {0}; {0}_on; __tvm_ffi_{0}; local: *; }};\n", name);
}

/// Compiles the C functions around the kernel and links them with the kernel.
Result<std::string> link_with_c(const RelocatableKernel& kernel, const Target& target,
                                const ExportOptions& options) {
  TW_TRY(const MemoryFile object, MemoryFile::create("object", kernel.object));
  TW_TRY(const MemoryFile source,
         MemoryFile::create("source", export_source(kernel.info, options.name, target)));
  TW_TRY(const MemoryFile symbols, MemoryFile::create("symbols", exported_symbols(options.name)));
  TW_TRY(const MemoryFile output, MemoryFile::create("shared"));
  const std::string compiler = options.compiler.empty() ? compiler_for(target) : options.compiler;
  const auto built = run_command({compiler,
                                  "-std=c11",
                                  "-O2",
                                  "-fPIC",
                                  "-fno-lto",
                                  "-pipe",
                                  "-shared",
                                  "-s",
                                  "-Wl,--gc-sections",
                                  "-Wl,--build-id=none",
                                  "-Wl,-z,noexecstack",
                                  "-Wl,--version-script=" + symbols.path(),
                                  "-o",
                                  output.path(),
                                  "-x",
                                  "c",
                                  source.path(),
                                  "-x",
                                  "none",
                                  object.path()},
                                 options.timeout_ns);
  if (!built)
    return fail(ErrorCode::Environment,
                fmt::format("[export] the functions around the kernel cannot be compiled: {}",
                            built.error().message));
  return output.content();
}

}  // namespace

Result<ExportedKernel> export_kernel(const KernelSpec& spec, const Target& target,
                                     const ExportOptions& options) {
  TW_RETURN_IF_ERROR(check_export_name(options.name));
  TW_TRY(const RelocatableKernel kernel, compile_relocatable(spec, target, options.kernel));
  TW_TRY(std::string library, link_with_c(kernel, target, options));
  return ExportedKernel{std::move(library), export_header(kernel.info, options.name)};
}

Result<ExportedKernel> export_kernel(const std::string& workload, const std::string& schedule,
                                     const Target& target, const ExportOptions& options) {
  TW_TRY(const dsl::Workload parsed, dsl::parse_workload(workload));
  TW_TRY(const schedules::Schedule steps, schedules::parse_schedule(parsed.compute, schedule));
  KernelSpec spec;
  TW_TRY(spec.program, steps.program(schedules::limits_of(target)));
  spec.workload = workload;
  spec.schedule = schedule;
  spec.flops = static_cast<int64_t>(dsl::count_flops(parsed.compute));
  return export_kernel(spec, target, options);
}

std::string export_name(const std::string& library_path) {
  const std::string stem = std::filesystem::path(library_path).stem().string();
  return stem.starts_with("lib") ? stem.substr(3) : stem;
}

std::string header_path(const std::string& library_path) {
  return std::filesystem::path(library_path).replace_extension(".h").string();
}

Status check_export(const std::string& library_path, const std::string& name) {
  TW_RETURN_IF_ERROR(check_export_name(name.empty() ? export_name(library_path) : name));
  if (header_path(library_path) != library_path) {
    TW_RETURN_IF_ERROR(runtime::check_replaceable(library_path));
    return runtime::check_replaceable(header_path(library_path));
  }
  return fail(ErrorCode::Usage,
              fmt::format("[export] {}: this is the name of the header; expected that of a shared "
                          "object, such as {}",
                          library_path,
                          std::filesystem::path(library_path).replace_extension(".so").string()));
}

Status write_exported(const std::string& library_path, const ExportedKernel& exported) {
  TW_RETURN_IF_ERROR(runtime::replace_file(library_path, exported.library));
  return runtime::replace_file(header_path(library_path), exported.header);
}

}  // namespace tw::codegen

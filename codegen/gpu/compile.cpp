// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "codegen/abi.h"
#include "codegen/backend.h"
#include "codegen/gpu/emitter.h"

namespace tw::codegen {
namespace {

/// Returns NVRTC. The library that is opened first serves all later calls too, because a process
/// has one toolkit. An error is not kept: the next call tries again.
Result<Nvrtc> nvrtc(const NvrtcOptions& options) {
  static std::mutex mutex;
  static std::optional<Nvrtc> opened;
  const std::lock_guard lock(mutex);
  if (!opened) {
    TW_TRY(opened, Nvrtc::open(options));
  }
  return *opened;
}

int spills_of(const CudaCode& code) {
  int64_t bytes = 0;
  for (const CudaFunctionFacts& function : code.functions)
    bytes += function.spill_store_bytes + function.spill_load_bytes;
  return static_cast<int>(bytes / 4);
}

/// True if the PTX also runs on GPUs for which the cubin is not made. PTX for an architecture with
/// a suffix, such as "sm_90a", does not.
bool is_portable(const std::string& architecture) {
  return !architecture.ends_with('a') && !architecture.ends_with('f');
}

/// Returns `functions` in the order of `phases`; the compiler reports them in another order. A
/// function that the compiler did not report gets an empty report.
std::vector<CudaFunctionFacts> in_order_of(const std::vector<runtime::PhaseInfo>& phases,
                                           const std::vector<CudaFunctionFacts>& functions) {
  std::vector<CudaFunctionFacts> ordered;
  for (const runtime::PhaseInfo& phase : phases) {
    const auto found = std::ranges::find(functions, phase.symbol, &CudaFunctionFacts::name);
    ordered.push_back(found == functions.end() ? CudaFunctionFacts{} : *found);
  }
  return ordered;
}

/// Returns the code of a program and of its preparation. The kernels of the preparation come last.
Result<GpuCode> code_of(const schedules::Program& program, const std::string& prefix,
                        GpuDialect dialect) {
  std::vector<NamedProgram> programs = {{prefix, &program}};
  if (program.preparation)
    programs.push_back({preparation_prefix(prefix), program.preparation.get()});
  return emit_gpu(programs, dialect);
}

/// Adds the launch parameters of the kernels in `code`, which code_of() made, to `compiled`.
void take_launches(const schedules::Program& program, const GpuCode& code, GpuCompiled& compiled) {
  for (const GpuKernel& kernel : code.kernels) {
    const bool is_call = compiled.phases.size() < program.phases.size();
    (is_call ? compiled.phases : compiled.preparation_phases)
        .push_back({kernel.name, kernel.blocks, kernel.threads, kernel.dynamic_shared_bytes,
                    kernel.maps, kernel.persistent});
  }
}

}  // namespace

Result<GpuCompiled> cuda_code(const schedules::Program& program, const std::string& prefix,
                              const Target& target, const NvrtcOptions& options) {
  TW_TRY(const GpuCode code, code_of(program, prefix, GpuDialect::Cuda));
  TW_TRY(const Nvrtc compiler, nvrtc(options));
  TW_TRY(CudaCode cuda, compiler.compile(code.text, target.gpu, is_portable(target.gpu)));
  for (const std::string& advice : cuda.advice)
    if (is_loss(advice))
      return fail(ErrorCode::Invalid,
                  fmt::format("[nvrtc] ptxas does not do what the schedule asks for: {}", advice));
  GpuCompiled compiled;
  take_launches(program, code, compiled);
  compiled.advice = std::move(cuda.advice);
  compiled.spills = spills_of(cuda);
  compiled.object = std::move(cuda.code.binary);
  compiled.ptx = std::move(cuda.code.text);
  compiled.functions = in_order_of(compiled.phases, cuda.functions);
  return compiled;
}

Result<GpuCompiled> opencl_code(const schedules::Program& program, const std::string& prefix,
                                const Target&, const NvrtcOptions&) {
  TW_TRY(GpuCode code, code_of(program, prefix, GpuDialect::OpenCl));
  GpuCompiled compiled;
  take_launches(program, code, compiled);
  compiled.object = std::move(code.text);
  return compiled;
}

Result<GpuCompiled> compile_for_gpu(const schedules::Program& program, const std::string& prefix,
                                    const Target& target, const NvrtcOptions& options) {
  TW_CHECK(target.is_gpu());
  return backend_of(target).gpu_code(program, prefix, target, options);
}

Status check_spills(const runtime::Artifact& artifact) {
  const runtime::KernelInfo& info = artifact.info;
  const auto target = parse_target(info.target);
  if (!target || !target->is_gpu() || info.spills == 0) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[nvrtc] ptxas spills registers of the kernel of '{}' ({} accesses of 4 "
                          "bytes), which is chosen by prediction and not measured",
                          info.workload, info.spills));
}

Result<std::string> cuda_toolchain(const NvrtcOptions& options) {
  TW_TRY(const Nvrtc compiler, nvrtc(options));
  return fmt::format("nvrtc-{}.{}", compiler.version() / 1000, compiler.version() % 1000 / 10);
}

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu_emitter.h"

#include <fmt/format.h>

#include <limits>

#include "codegen/abi.h"
#include "codegen/gpu_dialects.h"
#include "codegen/gpu_printer.h"

namespace tw::codegen {
namespace {

using schedules::Phase;
using schedules::Program;

Status check_countable(const Program& program) {
  for (const Phase& phase : program.phases)
    if (phase.tasks() > std::numeric_limits<int32_t>::max())
      return fail(ErrorCode::Unsupported,
                  fmt::format("[codegen] phase '{}' has {} tasks, at most {} can be numbered: make "
                              "fewer loops parallel",
                              phase.name, phase.tasks(), std::numeric_limits<int32_t>::max()));
  return {};
}

}  // namespace

Result<GpuCode> emit_gpu(const Program& program, const std::string& prefix, GpuDialect dialect) {
  const NamedProgram named{prefix, &program};
  return emit_gpu({&named, 1}, dialect);
}

Result<GpuCode> emit_gpu(std::span<const NamedProgram> programs, GpuDialect dialect) {
  const DialectRow& row = row_of(dialect);
  GpuCode code;
  for (const auto& [prefix, program] : programs) {
    TW_RETURN_IF_ERROR(check_countable(*program));
    for (size_t i = 0; i < program->phases.size(); ++i) {
      GpuKernel& kernel = code.kernels.emplace_back(GpuKernel{.name = phase_symbol(prefix, i)});
      if (!code.text.empty()) code.text += "\n";
      code.text += KernelPrinter(*program, program->phases[i], row).print_kernel(kernel);
    }
  }
  code.text.insert(0, row.functions_for(code.text));
  return code;
}

}  // namespace tw::codegen

// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/emitter.h"

#include <fmt/format.h>

#include <limits>

#include "codegen/abi.h"
#include "codegen/gpu/dialects.h"
#include "codegen/gpu/printer.h"

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

/// Fails with Unsupported if the program computes in f64. The GPUs for which kernels are tuned
/// compute f64 at a fraction of the rate of f32, or not at all.
Status check_types(const Program& program) {
  bool has_double = false;
  const auto note = [&](DType type) { has_double |= type == Float64; };
  for (const schedules::Argument& argument : program.arguments) note(argument.buffer.type);
  for (const Phase& phase : program.phases)
    schedules::for_each(*phase.body, [&](const schedules::Stmt& stmt) {
      schedules::for_each_expression(stmt, [&](const schedules::Expr& expr) {
        dsl::for_each(expr, [&](const schedules::Expr& e) { note(e.type()); });
      });
    });
  if (!has_double) return {};
  return fail(ErrorCode::Unsupported,
              "[codegen] kernels for GPUs do not compute in f64: use f32, or a target that is a "
              "processor");
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
    TW_RETURN_IF_ERROR(check_types(*program));
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

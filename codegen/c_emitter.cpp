// SPDX-License-Identifier: Apache-2.0
#include "codegen/c_emitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/abi.h"
#include "codegen/c_prelude.h"
#include "codegen/c_printer.h"

namespace tw::codegen {
namespace {

using schedules::Allocate;
using schedules::Buffer;
using schedules::Loop;
using schedules::Phase;
using schedules::Program;

constexpr CSpelling c11 = {.int8 = "int8_t",
                           .uint8 = "uint8_t",
                           .int16 = "int16_t",
                           .uint16 = "uint16_t",
                           .int32 = "int32_t",
                           .uint32 = "uint32_t",
                           .int64 = "int64_t",
                           .uint64 = "uint64_t",
                           .int32_min = "INT32_MIN",
                           .int64_min = "INT64_MIN",
                           .before_int64 = "INT64_C(",
                           .after_int64 = ")",
                           .nan = "NAN",
                           .infinity = "INFINITY",
                           .float_suffix = "f",
                           .has_narrow_functions = false,
                           .is_reserved = is_reserved_in_c};

/// Emits one phase. Each loop declares its own variable, so variables of the same name may have the
/// same identifier.
class PhaseEmitter final : public CPrinter {
 public:
  PhaseEmitter(const Program& program, const Phase& phase) : CPrinter(program, phase, c11) {}

  std::string emit(const std::string& symbol) {
    print(*phase_.body, 1);
    std::string text = fmt::format("/* {}: {} tasks */\n", phase_.name, phase_.tasks());
    text += fmt::format(
        "TW_EXPORT int32_t {}(void* const* buffers, void* scratch, int32_t task) {{\n", symbol);
    text += pointers() + task_axes() + body_ + "  return 0;\n}\n";
    return text;
  }

 private:
  void print_prefetch(const schedules::PrefetchLines& prefetch, int indent) override {
    const int64_t line_elements =
        schedules::prefetched_line_bytes / size_bytes(buffer(prefetch.buffer).type);
    for (int64_t i = 0; i < prefetch.lines; ++i)
      line(indent, fmt::format("__builtin_prefetch(&{}[{}]);", buffer_identifier(prefetch.buffer),
                               value(prefetch.offset + Expr(i * line_elements))));
  }

  std::string pointers() {
    std::string text;
    for (size_t i = 0; i < program_.arguments.size(); ++i) {
      const auto& argument = program_.arguments[i];
      if (!is_touched(argument.buffer.name)) continue;
      const std::string type = fmt::format("{}{}*", argument.is_output ? "" : "const ",
                                           storage_type(argument.buffer.type));
      text += fmt::format("  {} const {} = ({})buffers[{}];\n", type,
                          identifier(argument.buffer.name), type, i);
    }
    const ScratchLayout layout = scratch_layout(program_);
    for (size_t i = 0; i < program_.scratch.size(); ++i) {
      const Buffer& scratch = program_.scratch[i];
      if (!is_touched(scratch.name)) continue;
      text += fmt::format("  {0}* const {1} = ({0}*)(void*)((char*)scratch + {2});\n",
                          storage_type(scratch.type), identifier(scratch.name),
                          int64_literal(layout.offsets[i]));
    }
    if (text.find("buffers[") == std::string::npos) text += "  (void)buffers;\n";
    if (text.find("scratch +") == std::string::npos) text += "  (void)scratch;\n";
    return text;
  }

  std::string task_axes() {
    std::string text;
    for (const std::string& axis : numbered_by("task", phase_.axes)) text += "  " + axis + "\n";
    return text.empty() ? "  (void)task;\n" : text;
  }

  void print_loop(const Loop& loop, int indent) override {
    constexpr std::string_view notes[] = {"",
                                          "  /* unrolled */",
                                          "  /* vector */",
                                          "  /* threads */",
                                          "  /* tensor tile */",
                                          "  /* of a warp */",
                                          "  /* bulk */"};
    line(indent, fmt::format("{} {{{}", for_head(loop), notes[static_cast<int>(loop.kind)]));
    print(*loop.body, indent + 1);
    line(indent, "}");
  }

  void print_allocate(const Allocate& allocate, bool, int indent) override {
    const Buffer& b = allocate.buffer;
    line(indent, "{");
    line(indent + 1, fmt::format("TW_ALIGNED {} {}[{}];", storage_type(b.type),
                                 buffer_identifier(b.name), std::max<int64_t>(1, b.elements())));
    if (!is_read(b.name, *allocate.body))
      line(indent + 1, fmt::format("(void){};", identifier(b.name)));
    print(*allocate.body, indent + 1);
    line(indent, "}");
  }
};

Result<std::string> functions_of(const Program& program, const std::string& prefix) {
  TW_RETURN_IF_ERROR(check_limits(program));
  std::string phases;
  for (size_t i = 0; i < program.phases.size(); ++i)
    phases +=
        (i ? "\n" : "") + PhaseEmitter(program, program.phases[i]).emit(phase_symbol(prefix, i));
  return phases;
}

}  // namespace

Result<std::string> emit_c(const Program& program, const std::string& prefix) {
  TW_TRY(std::string functions, functions_of(program, prefix));
  if (program.preparation) {
    TW_TRY(const std::string preparation,
           functions_of(*program.preparation, preparation_prefix(prefix)));
    functions += "\n" + preparation;
  }
  return std::string(c_head()) + c_functions_for(functions) + functions;
}

}  // namespace tw::codegen

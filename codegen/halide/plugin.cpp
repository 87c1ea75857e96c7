// SPDX-License-Identifier: Apache-2.0
//
// The functions that the plugin exports. codegen/cpu_codegen.h declares them, and cpu_codegen.cpp
// finds them by name. A batch of programs becomes one object. An exception of Halide becomes an
// error.

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "codegen/abi.h"
#include "codegen/cpu_codegen.h"
#include "codegen/halide/access_counts.h"
#include "codegen/halide/passes.h"
#include "codegen/halide/phase_translator.h"
#include "codegen/halide/target.h"

namespace tw::codegen::halide {
namespace {

HStmt translate(const Program& program, const Phase& phase, const Target& target,
                Fallbacks fallbacks) {
  return run_passes(PhaseTranslator(program, phase, target, fallbacks).translate());
}

hi::LoweredFunc function_of(const std::string& symbol, const HStmt& body) {
  const auto argument = [](const char* name, Halide::Type type) {
    return hi::LoweredArgument(name, Halide::Argument::InputScalar, type, 0,
                               Halide::ArgumentEstimates{});
  };
  const Halide::Type pointer = Halide::type_of<void*>();
  const std::vector<hi::LoweredArgument> arguments = {
      argument("buffers", pointer), argument("scratch", pointer), argument("task", index32)};
  return {symbol, arguments, body, Halide::LinkageType::External, Halide::NameMangling::C};
}

class FindStrict : public hi::IRVisitor {
 public:
  bool found = false;

 private:
  using hi::IRVisitor::visit;
  void visit(const hi::Call* call) override {
    found |= call->is_strict_float_intrinsic();
    hi::IRVisitor::visit(call);
  }
};

bool has_strict(const hi::LoweredFunc& function) {
  FindStrict strict;
  function.body.accept(&strict);
  return strict.found;
}

tl::unexpected<Error> rejected(const std::string& what, const char* message) {
  return fail(ErrorCode::Unsupported,
              "[codegen] the compiler rejects " + what + ": " + first_lines(message, 4));
}

/// Drops Halide's warnings, because the user can do nothing about them. Halide would write them to
/// standard error, and messages about failed workers quote the end of standard error.
class QuietReporter final : public Halide::CompileTimeErrorReporter {
 public:
  void warning(const char*) override {}
  void error(const char* message) override { throw Halide::CompileError(message); }
};

void report_quietly() {
  static QuietReporter reporter;
  static const bool once = [] {
    Halide::set_custom_compile_time_error_reporter(&reporter);
    return true;
  }();
  (void)once;
}

/// Translates a program: one function for each phase.
Result<std::vector<hi::LoweredFunc>> functions_of(const NamedProgram& named,
                                                  const Target& target) try {
  TW_RETURN_IF_ERROR(check_limits(*named.program));
  std::vector<hi::LoweredFunc> functions;
  for (size_t i = 0; i < named.program->phases.size(); ++i)
    functions.push_back(
        function_of(phase_symbol(named.prefix, i),
                    translate(*named.program, named.program->phases[i], target, Fallbacks::Plain)));
  return functions;
} catch (const Halide::Error& error) {
  return rejected("kernel " + named.prefix, error.what());
}

/// Disables LLVM's loop strength reduction, which takes a quarter of all compile time. Over 66
/// tuned kernels the code was as fast without it (0.25 % in the geometric mean), because addresses
/// are bases plus constants already. Halide reads this variable once per process and passes it on
/// to LLVM. A value that the user has set stays.
void configure_llvm() { setenv("HL_LLVM_ARGS", "-disable-lsr", 0); }

Result<CompiledObjects> compile(std::span<const NamedProgram> programs, const Target& target) try {
  report_quietly();
  configure_llvm();
  Halide::Module module("tilewright", halide_target(target));
  CompiledObjects result;
  for (const NamedProgram& program : programs) {
    const auto functions = functions_of(program, target);
    if (!functions) {
      result.programs.push_back(tl::unexpected<Error>(functions.error()));
      result.strict.push_back(false);
      continue;
    }
    result.programs.emplace_back();
    result.strict.push_back(std::ranges::any_of(*functions, has_strict));
    if (result.strict.back()) module.set_any_strict_float(true);
    for (const hi::LoweredFunc& function : *functions) module.append(function);
  }
  const auto object = module.compile_to_buffer();
  result.object.assign(reinterpret_cast<const char*>(object.data()), object.number_of_elements());
  return result;
} catch (const Halide::Error& error) {
  return rejected("a batch", error.what());
} catch (const std::exception& error) {
  return rejected("a batch", error.what());
}

Result<std::map<std::string, AccessCounts>> count(const Program& program,
                                                  const Target& target) try {
  report_quietly();
  std::map<std::string, AccessCounts> counts;
  for (const Phase& phase : program.phases)
    add_accesses(translate(program, phase, target, Fallbacks::Marked), target, counts);
  return counts;
} catch (const Halide::Error& error) {
  return rejected("a program", error.what());
} catch (const std::exception& error) {
  return rejected("a program", error.what());
}

}  // namespace
}  // namespace tw::codegen::halide

extern "C" __attribute__((visibility("default"))) const char* tw_halide_toolchain() {
  static const std::string toolchain = "halide-" + std::to_string(HALIDE_VERSION_MAJOR) + "." +
                                       std::to_string(HALIDE_VERSION_MINOR) + "." +
                                       std::to_string(HALIDE_VERSION_PATCH);
  return toolchain.c_str();
}

extern "C" __attribute__((visibility("default"))) void tw_halide_count(
    const tw::schedules::Program* program, const tw::Target* target,
    tw::Result<std::map<std::string, tw::codegen::AccessCounts>>* result) {
  *result = tw::codegen::halide::count(*program, *target);
}

extern "C" __attribute__((visibility("default"))) int tw_halide_version() {
  return tw::codegen::plugin_version;
}

extern "C" __attribute__((visibility("default"))) void tw_halide_compile(
    const tw::codegen::NamedProgram* programs, size_t count, const tw::Target* target,
    tw::Result<tw::codegen::CompiledObjects>* result) {
  *result = tw::codegen::halide::compile({programs, count}, *target);
}

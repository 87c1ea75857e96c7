// SPDX-License-Identifier: Apache-2.0
// tilewright version: prints the version of the program, and the versions of the schedule language,
// the code generator, the kernel ABI and the compiler.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/abi.h"
#include "codegen/cpu_codegen.h"
#include "runtime/artifact.h"
#include "schedules/schedule.h"
#include "tools/reports/report.h"
#include "tools/verbs.h"

namespace tw::tools {
namespace {

Result<int> version_command(Format format, const Surroundings& here) {
  const std::string toolchain = codegen::cpu_toolchain().value_or("no compiler for the CPU");
  if (format == Format::Json)
    TW_RETURN_IF_ERROR(print_json("version", {{"version", here.environment.program_version},
                                              {"schedule_language", schedules::schedule_version},
                                              {"codegen_abi", codegen::codegen_abi},
                                              {"kernel_abi", runtime::kRuntimeAbi},
                                              {"toolchain", toolchain}}));
  else
    TW_RETURN_IF_ERROR(
        print(fmt::format("tilewright {} (schedules {}, code generation {}, kernels {}, {})\n",
                          here.environment.program_version, schedules::schedule_version,
                          codegen::codegen_abi, runtime::kRuntimeAbi, toolchain)));
  return 0;
}

}  // namespace

Verb version_verb() {
  auto format = std::make_shared<Format>(Format::Table);
  return {.name = "version",
          .summary = "of the program, schedules, kernels and compiler",
          .flags = {table_or_json_flag(*format)},
          .run = [format](const Surroundings& here) { return version_command(*format, here); }};
}

}  // namespace tw::tools

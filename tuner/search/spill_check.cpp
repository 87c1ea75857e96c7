// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/spill_check.h"

#include <utility>

#include "codegen/gpu/compile.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"

namespace tw::tuner {

Accepts accepts_without_spills(const dsl::Workload& workload, const Target& target,
                               std::vector<std::string> cuda_directories) {
  if (target.architecture != Architecture::Cuda) return {};
  return [compute = workload.compute, target,
          directories = std::move(cuda_directories)](const std::string& text) {
    const auto schedule = schedules::parse_schedule(compute, text);
    if (!schedule) return false;
    const auto program = schedule->program(schedules::limits_of(target));
    if (!program) return false;
    const auto code =
        codegen::compile_for_gpu(*program, "kernel", target, {.directories = directories});
    return code ? code->spills == 0 : code.error().code != ErrorCode::Invalid;
  };
}

}  // namespace tw::tuner

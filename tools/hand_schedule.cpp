// SPDX-License-Identifier: Apache-2.0
#include "tools/hand_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "schedules/adapt.h"
#include "schedules/problem.h"
#include "schedules/schedule.h"
#include "tools/flags/workload_flags.h"

namespace tw::tools {
namespace {

Result<std::string> schedule_text(const std::string& path) {
  return read_text(path, "schedule", "a schedule as in docs/schedules.md");
}

/// Adds the name of the file to an error about a whole schedule, keeps the first two lines of its
/// message and joins them: "[vectorize] why\n loops" becomes "[vectorize] gemm.tw1: why; loops".
tl::unexpected<Error> error_in(const std::string& source, const Error& error) {
  std::string message = first_lines(error.message, 2);
  const size_t tag = message.find("] ");
  message.insert(tag == std::string::npos ? 0 : tag + 2, source + ": ");
  return fail(error.code, std::move(message));
}

Status check_fits(const schedules::Schedule& schedule, const dsl::Workload& workload,
                  const Target& target, const std::string& source) {
  const auto program = schedule.program(schedules::limits_of(target));
  if (!program) return error_in(source, program.error());
  const schedules::Problem problem = schedules::problem_of(workload);
  for (const auto check : {schedules::check_layouts, schedules::check_algorithms})
    if (const Status fits = check(schedule, problem); !fits) return error_in(source, fits.error());
  return {};
}

/// True if all steps apply to the workload once their factors and tails are adapted to its shape.
bool can_be_adapted(const std::string& text, const std::string& source,
                    const dsl::Workload& workload) {
  const auto steps = schedules::read_steps(text, source);
  if (!steps) return false;
  const schedules::Adapted adapted = schedules::adapt(*steps, workload.compute);
  return std::ranges::none_of(adapted.steps, [](const auto& step) { return step.applied.empty(); });
}

/// Returns a text about the steps that do not apply: "; 12 of 49 steps apply, the first that does
/// not: winograd out x 6: stage 'out' has a stride". Only the first such step is named. Later steps
/// often fail only because the loops that this step would make are missing.
std::string shortfall_of(const schedules::Adapted& adapted) {
  std::string text =
      fmt::format("; {} of {} steps apply", adapted.schedule.steps().size(), adapted.steps.size());
  for (const schedules::AdaptedStep& step : adapted.steps) {
    if (!step.applied.empty()) continue;
    text += fmt::format(", the first that does not: {}: {}", step.given, step.note);
    break;
  }
  return text;
}

}  // namespace

Flag schedule_flag(std::string& path) {
  return {"schedule", Path{&path},
          "file with a schedule, as the database stores it; - is standard input"};
}

Result<HandSchedule> read_hand_schedule(const std::string& path, const dsl::Workload& workload,
                                        const Target& target) {
  TW_TRY(const std::string text, schedule_text(path));
  const std::string source = source_name(path);
  auto schedule = schedules::read_schedule(workload.compute, text, source);
  if (!schedule) {
    Error error = std::move(schedule.error());
    if (can_be_adapted(text, source, workload))
      error.message += "; it may be of another shape: `show --schedule` adapts it";
    return tl::unexpected<Error>(std::move(error));
  }
  TW_RETURN_IF_ERROR(check_fits(*schedule, workload, target, source));
  return HandSchedule{source, schedule->to_string(), {}};
}

Result<HandSchedule> adapt_hand_schedule(const std::string& path, const dsl::Workload& workload,
                                         const Target& target) {
  TW_TRY(const std::string text, schedule_text(path));
  const std::string source = source_name(path);
  TW_TRY(const std::vector<schedules::Step> steps, schedules::read_steps(text, source));
  const schedules::Adapted adapted = schedules::adapt(steps, workload.compute);
  if (const Status fits = check_fits(adapted.schedule, workload, target, source); !fits) {
    Error error = fits.error();
    error.message += shortfall_of(adapted);
    return tl::unexpected<Error>(std::move(error));
  }
  return HandSchedule{source, adapted.schedule.to_string(), schedules::notes_of(adapted)};
}

}  // namespace tw::tools

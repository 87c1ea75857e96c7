// SPDX-License-Identifier: Apache-2.0
#include "schedules/problem.h"

#include <fmt/format.h>

#include "schedules/nest.h"

namespace tw::schedules {

Status check_layouts(const Schedule& schedule, const Problem& problem) {
  const auto& layouts = schedule.nest().layouts;
  for (const auto& [tensor, asked] : problem.layouts) {
    const std::string letters = problem.compute.letters_of(tensor);
    const auto found = layouts.find(tensor);
    const std::string kept = found == layouts.end() ? letters : found->second.to_string(letters);
    if (kept != asked)
      return fail(ErrorCode::Invalid,
                  fmt::format("[layout] '{}' is to be kept as {}, and the schedule keeps it as {}: "
                              "set_layout {} {}",
                              tensor, asked, kept, tensor, asked));
  }
  return {};
}

Status check_algorithms(const Schedule& schedule, const Problem& problem) {
  const std::string other = algorithm_text(schedule.steps());
  if (problem.algorithms || other.empty()) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[accuracy] '{}' computes by other operations than those that are "
                          "declared, which 'fast' allows, and 'strict' does not",
                          other));
}

}  // namespace tw::schedules

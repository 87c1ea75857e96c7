// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/default_schedule.h"

#include "schedules/problem.h"
#include "schedules/program/legality.h"
#include "schedules/space/space.h"
#include "schedules/step.h"

namespace tw::schedules {

Result<Schedule> default_schedule(const dsl::Workload& workload, const Target& target) {
  TW_TRY(const Space space, Space::derive(problem_of(workload), target));
  Schedule first = space.schedule(space.default_point());
  if (first.program(limits_of(target))) return first;
  Schedule declared(workload.compute);
  for (const auto& [tensor, layout] : workload.layouts) declared.add(SetLayout{tensor, layout});
  return declared;
}

}  // namespace tw::schedules

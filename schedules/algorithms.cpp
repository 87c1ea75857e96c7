// SPDX-License-Identifier: Apache-2.0
#include "schedules/algorithms.h"

namespace tw::schedules {

#define ALGORITHM(name) \
  std::optional<Schedule> name(const dsl::Compute& compute, const Target& target);
#include "schedules/algorithms.def"
#undef ALGORITHM

std::span<const Algorithm> algorithms() {
  static constexpr Algorithm table[] = {
#define ALGORITHM(name) {#name, name},
#include "schedules/algorithms.def"
#undef ALGORITHM
  };
  return table;
}

}  // namespace tw::schedules

// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/algorithms.h"

namespace tw::schedules {

#define ALGORITHM(name) \
  std::optional<Rewritten> name(const dsl::Compute& compute, const Target& target);
#include "schedules/space/algorithms.def"
#undef ALGORITHM

std::span<const Algorithm> algorithms() {
  static constexpr Algorithm table[] = {
#define ALGORITHM(name) {#name, name},
#include "schedules/space/algorithms.def"
#undef ALGORITHM
  };
  return table;
}

std::vector<Rewritten> apply_algorithms(const dsl::Compute& compute, const Target& target) {
  std::vector<Rewritten> all;
  for (const Algorithm& algorithm : algorithms()) {
    auto rewritten = algorithm.rewrite(compute, target);
    if (!rewritten) continue;
    rewritten->algorithm = algorithm.name;
    all.push_back(std::move(*rewritten));
  }
  return all;
}

}  // namespace tw::schedules

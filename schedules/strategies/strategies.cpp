// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/strategy.h"

namespace tw::schedules {

#define STRATEGY(name) \
  std::unique_ptr<const StageStrategy> name(const ComputePlan& plan, const StagePlan& stage);
#include "schedules/strategies/strategies.def"
#undef STRATEGY

std::span<const Strategy> strategies() {
  static constexpr Strategy table[] = {
#define STRATEGY(name) {#name, name},
#include "schedules/strategies/strategies.def"
#undef STRATEGY
  };
  return table;
}

}  // namespace tw::schedules

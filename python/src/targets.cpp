// SPDX-License-Identifier: Apache-2.0
#include "python/src/targets.h"

#include <utility>

#include "python/src/errors.h"

namespace tw::python {

Target target_of(const std::string& text) {
  Target target = value_of(parse_target(text));
  if (target.is_gpu() || !missing_features(target, host_target()).empty()) return target;
  return on_this_machine(std::move(target));
}

}  // namespace tw::python

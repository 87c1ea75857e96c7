// SPDX-License-Identifier: Apache-2.0
#include "python/src/targets.h"

#include "python/src/errors.h"

namespace tw::python {

Target target_of(const std::string& text) {
  Target target = value_of(parse_target(text));
  if (target.is_gpu()) return target;
  const Target host = host_target();
  if (!missing_features(target, host).empty()) return target;
  target.cpu = host.cpu;
  target.machine = machine_at_hand(target);
  return target;
}

}  // namespace tw::python

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Targets as Python names them.

#include <string>

#include "base/target.h"

namespace tw::python {

/// The target that a text names, as the program's --target takes it: a target whose kernels run on
/// this machine has this machine's numbers, also where its features are spelled out as records do.
/// Raises the error of parse_target(). Requires: the GIL.
Target target_of(const std::string& text);

}  // namespace tw::python

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the targets that Python code names.

#include <string>

#include "base/target.h"

namespace tw::python {

/// Returns the target that a text names; parse_target() defines the form of the text. If this
/// machine can run the kernels of a target that is a processor, the target gets the description of
/// this machine (clock, caches). This holds for "host", and also for texts that list features, such
/// as the targets in records. Raises the exception for an error of parse_target(). Requires: the
/// thread holds the GIL.
Target target_of(const std::string& text);

}  // namespace tw::python

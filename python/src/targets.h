// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the targets that Python code names.

#include <string>

#include "base/target.h"

namespace tw::python {

/// The target that a text names; parse_target() defines the text. If the target is a processor
/// whose kernels this machine can run, the target gets the description of this machine (clock,
/// caches), even if the text is not "host" but lists features, as the targets in records do.
/// Raises the exception for an error of parse_target(). Requires: the thread holds the GIL.
Target target_of(const std::string& text);

}  // namespace tw::python

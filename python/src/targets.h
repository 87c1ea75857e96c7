// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the targets that Python code names.

#include <string>

#include "base/target.h"

namespace tw::python {

/// The target that a text names, in the form of the program's --target. If its kernels run on this
/// machine, the target has the numbers of this machine, even if the text lists its features one by
/// one, as records do. Raises the error of parse_target(). Requires: the GIL.
Target target_of(const std::string& text);

}  // namespace tw::python

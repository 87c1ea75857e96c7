// SPDX-License-Identifier: Apache-2.0
#pragma once
// Targets that have the instruction sets of base/isa.h. The processor that runs the test need not
// have them.

#include <string>
#include <string_view>

#include "base/isa.h"
#include "base/text.h"

namespace tw {

/// Returns the text of a Linux target for x86-64 with all features of this instruction set. For
/// example, "amx" gives the features of Sapphire Rapids.
inline std::string target_text_of_isa(std::string_view isa) {
  return "x86-64-linux-" + join(*features_of_isa(isa), "-");
}

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Targets for the instruction sets of base/isa.h, of processors that need not be at hand.

#include <string>
#include <string_view>

#include "base/isa.h"
#include "base/text.h"

namespace tw {

/// The text of a target: "amx" is Linux on an x86-64 with all that Sapphire Rapids has.
inline std::string target_text_of_isa(std::string_view isa) {
  return "x86-64-linux-" + join(*features_of_isa(isa), "-");
}

}  // namespace tw

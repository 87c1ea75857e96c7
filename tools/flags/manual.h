// SPDX-License-Identifier: Apache-2.0
#pragma once
// The manual page, from the verbs and their flags. Thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "tools/verb.h"

namespace tw::tools {

/// tilewright(1) as man macros of troff.
std::string manual_page(const std::vector<Verb>& verbs, std::string_view version);

}  // namespace tw::tools

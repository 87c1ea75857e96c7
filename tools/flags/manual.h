// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the manual page from the verbs and their flags. Thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "tools/verb.h"

namespace tw::tools {

/// Returns the text of the page tilewright(1), in troff with the man macros.
std::string manual_page(const std::vector<Verb>& verbs, std::string_view version);

}  // namespace tw::tools

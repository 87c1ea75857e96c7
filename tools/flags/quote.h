// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text for a shell. Thread-safe.

#include <string>
#include <string_view>

namespace tw::tools {

/// One word of a POSIX shell that means `text`: itself where that is safe, else in single quotes.
std::string shell_quoted(std::string_view text);

}  // namespace tw::tools

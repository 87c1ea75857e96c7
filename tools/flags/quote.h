// SPDX-License-Identifier: Apache-2.0
#pragma once
// Quotes text for a shell. Thread-safe.

#include <string>
#include <string_view>

namespace tw::tools {

/// Returns `text` as one word of a POSIX shell: unchanged if no character needs quoting, otherwise
/// in single quotes.
std::string shell_quoted(std::string_view text);

}  // namespace tw::tools

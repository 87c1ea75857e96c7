// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/quote.h"

namespace tw::tools {

std::string shell_quoted(std::string_view text) {
  constexpr std::string_view safe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@%";
  if (!text.empty() && text.find_first_not_of(safe) == std::string_view::npos)
    return std::string(text);
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

}  // namespace tw::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/web/http.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tw::tools::web {
namespace {

bool is_same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, to_lower, to_lower);
}

bool stays(char c, bool is_path) {
  return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z') ||
         std::string_view("-._~").find(c) != std::string_view::npos || (is_path && c == '/');
}

}  // namespace

std::optional<std::string> Request::header(std::string_view name) const {
  std::optional<std::string> found;
  for (const auto& [other, value] : headers) {
    if (!is_same_name(other, name)) continue;
    if (found) return std::nullopt;
    found = value;
  }
  return found;
}

std::string Request::parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  return found == parameters.end() ? std::string() : found->second;
}

std::string percent_encoded(std::string_view text, bool is_path) {
  std::string encoded;
  for (const char c : text)
    if (stays(c, is_path))
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return encoded;
}

std::string address_of(std::string_view path,
                       const std::map<std::string, std::string>& parameters) {
  std::string address = percent_encoded(path, true);
  char separator = '?';
  for (const auto& [name, value] : parameters) {
    if (value.empty()) continue;
    address += fmt::format("{}{}={}", separator, percent_encoded(name), percent_encoded(value));
    separator = '&';
  }
  return address;
}

}  // namespace tw::tools::web

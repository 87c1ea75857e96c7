// SPDX-License-Identifier: Apache-2.0
#include "db/fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <tuple>

namespace tw::db {

std::string canonical_field(std::string_view name, std::string_view value) {
  return fmt::format("{}:{}:{}\n", name, value.size(), value);
}

bool is_valid_text(const std::string& text) {
  if (text.find('\0') != std::string::npos) return false;
  try {
    std::ignore = nlohmann::json(text).dump();  // throws on bytes that are not UTF-8
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace tw::db

// SPDX-License-Identifier: Apache-2.0
#include "bench/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace tw::bench {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 10> left_out = {
    "apart",         "equal_ratios", "error_ours", "error_peer",    "flops",
    "peer_forms_us", "peer_gflops",  "schedule",   "slowed_ratios", "traces"};

bool is_left_out(const std::string& key) {
  return std::ranges::find(left_out, key) != left_out.end();
}

bool has_rows(const Json& value) {
  if (value.is_array() && !value.empty() && value.front().is_object()) return true;
  return value.is_object() && std::ranges::any_of(value, has_rows);
}

std::string lines(const Json& value, const std::string& indent) {
  if (!has_rows(value)) return value.dump();
  std::vector<std::string> items;
  if (value.is_array()) {
    for (const Json& item : value) items.push_back(indent + "  " + item.dump());
  } else {
    for (const auto& [key, item] : value.items())
      items.push_back(
          fmt::format("{}  {}: {}", indent, Json(key).dump(), lines(item, indent + "  ")));
  }
  const auto [open, close] = value.is_array() ? std::pair("[", "]") : std::pair("{", "}");
  return fmt::format("{}\n{}\n{}{}", open, join(items, ",\n"), indent, close);
}

}  // namespace

Json summary_of(const Json& document) {
  if (document.is_number_float())
    return *parse_double(fmt::format("{:.5g}", document.get<double>()));
  Json summary = document;
  if (document.is_object()) {
    summary = Json::object();
    for (const auto& [key, item] : document.items())
      if (!is_left_out(key)) summary[key] = summary_of(item);
  } else if (document.is_array()) {
    for (Json& item : summary) item = summary_of(item);
  }
  return summary;
}

std::string row_lines(const Json& document) { return lines(document, "") + "\n"; }

}  // namespace tw::bench

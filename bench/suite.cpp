// SPDX-License-Identifier: Apache-2.0
#include "bench/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "base/text.h"
#include "dsl/parse.h"

namespace tw::bench {
namespace {

constexpr size_t conv_columns = 13, product_columns = 5;

Result<std::string> read_text(const std::string& path, std::string_view remedy) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file)
    return fail(ErrorCode::Usage, fmt::format("[bench] '{}' cannot be read: {}", path, remedy));
  return text.str();
}

Result<Item> conv_item(const std::string& name, const std::vector<int64_t>& v) {
  const dsl::Attributes shape = {{"n", v[0]},        {"c", v[1]},      {"h", v[2]},
                                 {"w", v[3]},        {"k", v[4]},      {"r", v[5]},
                                 {"s", v[6]},        {"stride", v[7]}, {"pad", v[8]},
                                 {"dilation", v[9]}, {"groups", v[10]}};
  TW_TRY(dsl::Workload workload, dsl::make_workload("conv2d", shape));
  return Item{name, std::move(workload), v[11]};
}

Result<Item> product_item(const std::string& name, const std::vector<int64_t>& v) {
  dsl::Attributes shape = {{"m", v[1]}, {"n", v[2]}, {"k", v[3]}};
  if (v[0] != 1) shape["b"] = v[0];
  TW_TRY(dsl::Workload workload, dsl::make_workload(v[0] == 1 ? "dense" : "batch_matmul", shape));
  return Item{name, std::move(workload), 1};
}

Result<Item> parse_row(const std::vector<std::string>& cells) {
  const size_t columns = cells.size();
  if (columns != conv_columns && columns != product_columns)
    return fail(ErrorCode::Invalid,
                fmt::format("{} columns: expected {} (a convolution) or {} (a product)", columns,
                            conv_columns, product_columns));
  std::vector<int64_t> values;
  for (size_t i = 1; i < columns; ++i) {
    const std::optional<int64_t> value = parse_int(cells[i]);
    if (!value || *value < 0)
      return fail(ErrorCode::Invalid,
                  fmt::format("'{}': expected a whole number, 0 or more", cells[i]));
    values.push_back(*value);
  }
  return columns == conv_columns ? conv_item(cells[0], values) : product_item(cells[0], values);
}

std::vector<std::string> suites_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".tsv") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<std::vector<Item>> parse_suite(std::string_view text) {
  std::vector<Item> items;
  std::set<std::string> names;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (trim(line).empty() || line[0] == '#') continue;
    auto item = parse_row(split(trim(line), '\t'));
    if (!item)
      return fail(ErrorCode::Invalid,
                  fmt::format("[suite] line {}: {}", number, item.error().message));
    if (!names.insert(item->name).second)
      return fail(
          ErrorCode::Invalid,
          fmt::format("[suite] line {}: a second row '{}': names are unique", number, item->name));
    items.push_back(std::move(*item));
  }
  return items;
}

Result<std::vector<Item>> load_suite(const std::string& folder, const std::string& name) {
  const std::vector<std::string> known = suites_in(folder);
  if (std::find(known.begin(), known.end(), name) == known.end())
    return fail(ErrorCode::Usage, fmt::format("[bench] there is no suite '{}' in '{}'; known: {}",
                                              name, folder, join(known, ", ")));
  TW_TRY(const std::string text,
         read_text(fmt::format("{}/{}.tsv", folder, name), "make it readable"));
  return parse_suite(text);
}

Result<Item> load_expression(const std::string& path) {
  TW_TRY(const std::string text, read_text(path, "name a file with an expression"));
  const auto compute = dsl::parse_compute(text);
  if (!compute)
    return fail(compute.error().code,
                fmt::format("[bench] '{}': {}", path, compute.error().message));
  TW_TRY(dsl::Workload workload, dsl::workload(*compute));
  return Item{std::filesystem::path(path).stem().string(), std::move(workload), 1};
}

Result<std::vector<Item>> select(std::vector<Item> items, std::string_view names) {
  if (trim(names).empty()) return items;
  std::set<std::string> wanted;
  for (const std::string& name : split(names, ',')) wanted.emplace(trim(name));
  std::vector<Item> chosen;
  std::vector<std::string> known;
  for (Item& item : items) {
    known.push_back(item.name);
    if (wanted.erase(item.name)) chosen.push_back(std::move(item));
  }
  if (wanted.empty()) return chosen;
  return fail(ErrorCode::Usage,
              fmt::format("[bench] --only '{}': the suite has no such row; known: {}",
                          *wanted.begin(), join(known, ", ")));
}

}  // namespace tw::bench

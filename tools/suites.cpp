// SPDX-License-Identifier: Apache-2.0
#include "tools/suites.h"

#include <fmt/format.h>

#include <optional>
#include <set>

#include "base/text.h"
#include "tools/suite_tables.h"

namespace tw::tools {
namespace {

constexpr size_t operator_columns = 3, product_columns = 5, conv_columns = 13;

using Cells = std::vector<std::string>;

Result<std::vector<int64_t>> whole_numbers(const Cells& cells) {
  std::vector<int64_t> values;
  for (size_t i = 1; i < cells.size(); ++i) {
    const std::optional<int64_t> value = parse_int(cells[i]);
    if (!value || *value < 0)
      return fail(ErrorCode::Invalid,
                  fmt::format("'{}': expected a whole number, 0 or more", cells[i]));
    values.push_back(*value);
  }
  return values;
}

Result<SuiteItem> parse_conv(const Cells& cells, dsl::Accuracy accuracy) {
  TW_TRY(const std::vector<int64_t> v, whole_numbers(cells));
  const dsl::Attributes shape = {{"n", v[0]},        {"c", v[1]},      {"h", v[2]},
                                 {"w", v[3]},        {"k", v[4]},      {"r", v[5]},
                                 {"s", v[6]},        {"stride", v[7]}, {"pad", v[8]},
                                 {"dilation", v[9]}, {"groups", v[10]}};
  TW_TRY(dsl::Workload workload, dsl::make_workload("conv2d", shape, Float32, accuracy));
  return SuiteItem{cells[0], std::move(workload), v[11]};
}

Result<SuiteItem> parse_product(const Cells& cells, dsl::Accuracy accuracy) {
  TW_TRY(const std::vector<int64_t> v, whole_numbers(cells));
  dsl::Attributes shape = {{"m", v[1]}, {"n", v[2]}, {"k", v[3]}};
  if (v[0] != 1) shape["b"] = v[0];
  const std::string_view op = v[0] == 1 ? "dense" : "batch_matmul";
  TW_TRY(dsl::Workload workload, dsl::make_workload(op, shape, Float32, accuracy));
  return SuiteItem{cells[0], std::move(workload), 1};
}

Result<SuiteItem> parse_operator(const Cells& cells, dsl::Accuracy accuracy) {
  TW_TRY(const dsl::Attributes shape, dsl::parse_shape(cells[2], cells[1]));
  TW_TRY(dsl::Workload workload, dsl::make_workload(cells[1], shape, Float32, accuracy));
  return SuiteItem{cells[0], std::move(workload), 1};
}

Result<SuiteItem> parse_row(const Cells& cells, dsl::Accuracy accuracy) {
  switch (cells.size()) {
    case operator_columns:
      return parse_operator(cells, accuracy);
    case product_columns:
      return parse_product(cells, accuracy);
    case conv_columns:
      return parse_conv(cells, accuracy);
  }
  return fail(
      ErrorCode::Invalid,
      fmt::format("{} columns: expected {} (a convolution), {} (a product) or {} (any operator)",
                  cells.size(), conv_columns, product_columns, operator_columns));
}

std::string_view summary_of(std::string_view table) {
  const std::string_view first = table.substr(0, table.find('\n'));
  return trim(first.substr(std::min(first.size(), first.find_first_not_of("# "))));
}

}  // namespace

const std::vector<SuiteInfo>& suites() {
  static const std::vector<SuiteInfo> all = [] {
    std::vector<SuiteInfo> infos;
    for (const SuiteTable& table : suite_tables())
      infos.push_back({table.name, summary_of(table.text)});
    return infos;
  }();
  return all;
}

Result<std::vector<SuiteItem>> parse_suite(std::string_view text, dsl::Accuracy accuracy) {
  std::vector<SuiteItem> items;
  std::set<std::string> names;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (trim(line).empty() || line[0] == '#') continue;
    auto item = parse_row(split(trim(line), '\t'), accuracy);
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

Result<std::vector<SuiteItem>> suite(std::string_view name, dsl::Accuracy accuracy) {
  std::vector<std::string> known;
  for (const SuiteTable& table : suite_tables()) {
    if (table.name == name) return parse_suite(table.text, accuracy);
    known.emplace_back(table.name);
  }
  const auto guess = nearest(name, known);
  return fail(ErrorCode::Usage,
              fmt::format("[suite] '{}' is no suite: use one of {}{}", name, join(known, ", "),
                          guess ? fmt::format("; did you mean '{}'?", *guess) : ""));
}

}  // namespace tw::tools

// SPDX-License-Identifier: Apache-2.0
#include "bench/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/text.h"
#include "dsl/parse.h"

namespace tw::bench {
namespace {

Result<std::string> read_text(const std::string& path, std::string_view remedy) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file)
    return fail(ErrorCode::Usage, fmt::format("[bench] '{}' cannot be read: {}", path, remedy));
  return text.str();
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

Result<std::vector<Item>> load_suite(const std::string& folder, const std::string& name) {
  const std::vector<std::string> known = suites_in(folder);
  if (std::find(known.begin(), known.end(), name) == known.end())
    return fail(ErrorCode::Usage, fmt::format("[bench] there is no suite '{}' in '{}'; known: {}",
                                              name, folder, join(known, ", ")));
  TW_TRY(const std::string text,
         read_text(fmt::format("{}/{}.tsv", folder, name), "make it readable"));
  return tools::parse_suite(text);
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

Result<std::vector<Item>> variants(const std::vector<Item>& items, int64_t batch, DType dtype) {
  std::vector<Item> changed;
  for (Item item : items) {
    dsl::Workload& w = item.workload;
    if (batch != 1 && w.op != "conv2d" && w.op != "qlinear_conv2d")
      return fail(
          ErrorCode::Usage,
          fmt::format("[bench] --batch {}: {} is no convolution, expected 1", batch, item.name));
    if (batch != 1 || dtype != w.dtype) {
      dsl::Attributes attributes = w.attributes;
      if (batch != 1) {
        attributes["n"] = batch;
        item.name += fmt::format("_n{}", batch);
      }
      TW_TRY(w, dsl::make_workload(w.op, attributes, dtype, w.accuracy));
    }
    changed.push_back(std::move(item));
  }
  return changed;
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

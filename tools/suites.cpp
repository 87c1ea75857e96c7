// SPDX-License-Identifier: Apache-2.0
#include "tools/suites.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tw::tools {
namespace {

struct Row {
  std::string_view suite, name, op, attributes;
  int count;
};

constexpr Row table[] = {
#define X(suite, name, op, attributes, count) {suite, name, op, attributes, count},
#include "tools/suites.def"
#undef X
};

}  // namespace

const std::vector<SuiteInfo>& suites() {
  static const std::vector<SuiteInfo> all = {
      {"gemm", "matrix products: square, skinny, of transformers, with a vector"},
      {"odd_conv",
       "convolutions that libraries neglect: depthwise, grouped, dilated, odd channels"},
      {"other", "pooling, softmax, normalisation, reductions, elementwise, transposition"},
      {"resnet50_conv", "the 23 distinct convolutions of ResNet-50 v1.5"},
  };
  return all;
}

Result<std::vector<SuiteItem>> suite(std::string_view name, dsl::Accuracy accuracy) {
  std::vector<SuiteItem> items;
  for (const Row& row : table) {
    if (row.suite != name) continue;
    TW_TRY(const dsl::Attributes attributes, dsl::parse_shape(row.attributes, row.op));
    TW_TRY(dsl::Workload workload, dsl::make_workload(row.op, attributes, Float32, accuracy));
    items.push_back({std::string(row.name), std::move(workload), row.count});
  }
  if (!items.empty()) return items;
  std::vector<std::string> known;
  for (const SuiteInfo& info : suites()) known.emplace_back(info.name);
  const auto guess = nearest(name, known);
  return fail(ErrorCode::Usage,
              fmt::format("[suite] '{}' is no suite: use one of {}{}", name, join(known, ", "),
                          guess ? fmt::format("; did you mean '{}'?", *guess) : ""));
}

}  // namespace tw::tools

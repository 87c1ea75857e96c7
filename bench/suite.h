// SPDX-License-Identifier: Apache-2.0
#pragma once
// Suites: tables of workloads in bench/workloads, and expressions in files. Free functions;
// thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/workload.h"

namespace tw::bench {

struct Item {
  std::string name;
  dsl::Workload workload;
  int64_t count = 1;  ///< occurrences in the network, 1 where there is none
};

/// The rows of a table whose columns workloads/README.md describes, told apart by their number.
/// Invalid, with the line and what was expected, for any other text.
Result<std::vector<Item>> parse_suite(std::string_view text);

/// "resnet50_conv" is the file resnet50_conv.tsv of the folder. Usage, with the names that there
/// are, for another name.
Result<std::vector<Item>> load_suite(const std::string& folder, const std::string& name);

/// The compute in a .tw file, named after the file.
Result<Item> load_expression(const std::string& path);

/// Those in `names` (comma-separated), in the suite's order; all for an empty text. Usage for a
/// name that the suite lacks.
Result<std::vector<Item>> select(std::vector<Item> items, std::string_view names);

}  // namespace tw::bench

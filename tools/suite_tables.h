// SPDX-License-Identifier: Apache-2.0
#pragma once
// The texts of the tables bench/workloads/*.tsv, compiled into the program so that an installed
// program has its suites. Sorted by name. Thread-safe.

#include <span>
#include <string_view>

namespace tw::tools {

struct SuiteTable {
  std::string_view name, text;
};
std::span<const SuiteTable> suite_tables();

}  // namespace tw::tools

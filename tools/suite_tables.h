// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text of bench/workloads/*.tsv as of the build, so that an installed program knows its suites.
// Sorted by name. Thread-safe.

#include <span>
#include <string_view>

namespace tw::tools {

struct SuiteTable {
  std::string_view name, text;
};
std::span<const SuiteTable> suite_tables();

}  // namespace tw::tools

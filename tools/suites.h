// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named lists of workloads, the tables of bench/workloads, so that tuning, benchmarks and reports
// speak of the same work. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/workload.h"

namespace tw::tools {

/// The name is that of the table's file, the summary its first line.
struct SuiteInfo {
  std::string_view name, summary;
};
const std::vector<SuiteInfo>& suites();

struct SuiteItem {
  std::string name;
  dsl::Workload workload;
  int64_t count = 1;  ///< occurrences in the network, 1 where there is none
};

/// The rows of a table whose columns bench/workloads/README.md describes, told apart by their
/// number. Invalid, with the line and what was expected, for any other text.
Result<std::vector<SuiteItem>> parse_suite(std::string_view text,
                                           dsl::Accuracy accuracy = dsl::Accuracy::Fast);

/// In the order of the table. Usage, with the nearest name, when there is no such suite.
Result<std::vector<SuiteItem>> suite(std::string_view name,
                                     dsl::Accuracy accuracy = dsl::Accuracy::Fast);

}  // namespace tw::tools

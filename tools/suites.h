// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named lists of workloads (suites.def), so that tuning, benchmarks and reports speak of the same
// work. Thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/workload.h"

namespace tw::tools {

struct SuiteInfo {
  std::string_view name, summary;
};
const std::vector<SuiteInfo>& suites();

struct SuiteItem {
  std::string name;
  dsl::Workload workload;
  int count = 1;  ///< occurrences in the network
};

/// In the order of suites.def. Usage, with the nearest name, when there is no such suite.
Result<std::vector<SuiteItem>> suite(std::string_view name,
                                     dsl::Accuracy accuracy = dsl::Accuracy::Fast);

}  // namespace tw::tools

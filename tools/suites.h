// SPDX-License-Identifier: Apache-2.0
#pragma once
// Suites are named lists of workloads, such as the layers of a network. Each suite is a table in
// bench/workloads. `tune` and `bench` accept the name of a suite. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/workload.h"

namespace tw::tools {

/// A suite: `name` is the name of the table's file, `summary` the first line of the table.
struct SuiteInfo {
  std::string_view name, summary;
};
const std::vector<SuiteInfo>& suites();

struct SuiteItem {
  std::string name;
  dsl::Workload workload;
  int64_t count = 1;  ///< number of occurrences in the network; 1 for suites that are no network
};

/// Parses a table as bench/workloads/README.md describes it. The number of columns of a row
/// determines the kind of its workload. Fails with Invalid for other text; the message has the line
/// number and what was expected.
Result<std::vector<SuiteItem>> parse_suite(std::string_view text,
                                           dsl::Accuracy accuracy = dsl::Accuracy::Fast);

/// Returns the workloads of a suite, in the order of the table. Fails with Usage if there is no
/// suite of that name; the message lists the suites and suggests the most similar name.
Result<std::vector<SuiteItem>> suite(std::string_view name,
                                     dsl::Accuracy accuracy = dsl::Accuracy::Fast);

}  // namespace tw::tools

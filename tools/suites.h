// SPDX-License-Identifier: Apache-2.0
#pragma once
// Suites are named lists of workloads, such as the layers of a network. Each suite is a table of
// bench/workloads. The verbs that tune, measure and report take the name of a suite. Thread-safe.

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

/// Parses a table as bench/workloads/README.md describes it; the number of columns of a row says
/// which kind of workload it is. Invalid for other text; the message has the line and what was
/// expected.
Result<std::vector<SuiteItem>> parse_suite(std::string_view text,
                                           dsl::Accuracy accuracy = dsl::Accuracy::Fast);

/// The workloads of a suite, in the order of the table. If there is no suite of that name: Usage,
/// naming the most similar suite.
Result<std::vector<SuiteItem>> suite(std::string_view name,
                                     dsl::Accuracy accuracy = dsl::Accuracy::Fast);

}  // namespace tw::tools

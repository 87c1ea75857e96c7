// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text that names a workload of records in commands and lists. It is the key of the workload.
// If layouts were asked for its inputs and outputs, they follow in braces. Free functions;
// thread-safe.
//
//   conv2d n=1 c=64 ... f32 fast {in=NCHW16c out=NHWC}

#include <string>
#include <string_view>

#include "db/record.h"

namespace tw::db {

struct WorkloadName {
  std::string key;
  std::string layouts;  ///< as in Record::layouts; empty: free
  friend bool operator==(const WorkloadName&, const WorkloadName&) = default;
};

std::string workload_text(const WorkloadName& name);
std::string workload_text(const Record& record);

/// Splits a text that names a workload into key and layouts. A text without braces at its end is a
/// key alone.
WorkloadName parse_workload_text(std::string_view text);

}  // namespace tw::db

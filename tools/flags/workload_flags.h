// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags that select the workload of a verb (an operator and its shape, an expression, or a
// workload's key), and the target and number of threads of its kernel. Not thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/target.h"
#include "dsl/cache_state.h"
#include "dsl/workload.h"
#include "tools/surroundings.h"
#include "tools/verb.h"

namespace tw::tools {

struct WorkloadFlags {
  std::string op, shape, expression, key;
  std::vector<std::string> attributes, layouts;
  DType dtype = Float32;
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;
  dsl::CacheState state = dsl::CacheState::Hot;

  bool is_given() const {
    return !op.empty() || !shape.empty() || !expression.empty() || !key.empty() ||
           !attributes.empty() || !layouts.empty() || state != dsl::CacheState::Hot;
  }
};
std::vector<Flag> flags_of(WorkloadFlags& flags);
/// Returns the workload that the flags name, with the layouts and the state of the caches that they
/// ask for. If an operator is named without a shape, its example shape is used. Fails with Usage if
/// the flags name no workload or its tensors cannot have the layouts, and with the parser's error
/// if a flag cannot be parsed.
Result<dsl::Workload> chosen_workload(const WorkloadFlags& flags);

struct TargetFlags {
  std::string target;  ///< empty: --target is not given
  int64_t threads = 1;

  std::string target_or_host() const { return target.empty() ? "host" : target; }
};
std::vector<Flag> flags_of(TargetFlags& flags);

/// Reads a small text file, or standard input if the path is "-". Of a text longer than 1 MiB it
/// returns only the first 1 MiB and one byte, which the parsers refuse as too long. Fails with
/// Invalid if the file cannot be read or is empty. The message begins with `operation` in brackets,
/// and advises to name a file with `expected`.
Result<std::string> read_text(const std::string& path, std::string_view operation,
                              std::string_view expected);
/// Returns the name that messages use for a file of read_text(): its path, or "standard input" for
/// "-".
std::string source_name(const std::string& path);

/// Joins the lists of flags into one list, in order.
std::vector<Flag> concatenated(std::vector<std::vector<Flag>> lists);

}  // namespace tw::tools

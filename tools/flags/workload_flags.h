// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags that select what a verb works on: an operator and its shape, an expression, or a workload's
// key; and the target and the threads of its kernel. Not thread-safe.

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
    return !op.empty() || !expression.empty() || !key.empty() || !layouts.empty() ||
           state != dsl::CacheState::Hot;
  }
};
std::vector<Flag> flags_of(WorkloadFlags& flags);
/// The operator's own example where no shape is given; with the layouts and the state that are
/// asked for.
Result<dsl::Workload> chosen_workload(const WorkloadFlags& flags);

struct TargetFlags {
  std::string target;  ///< empty: none is given
  int64_t threads = 1;

  std::string target_or_host() const { return target.empty() ? "host" : target; }
};
std::vector<Flag> flags_of(TargetFlags& flags);

/// Text of a small file, or of standard input where the path is "-". Invalid where it cannot be
/// read or is empty; the message begins with [operation] and says what was expected.
Result<std::string> read_text(const std::string& path, std::string_view operation,
                              std::string_view expected);
/// The name of such a file in messages.
std::string source_name(const std::string& path);

/// One list of flags after the other.
std::vector<Flag> concatenated(std::vector<std::vector<Flag>> lists);

}  // namespace tw::tools

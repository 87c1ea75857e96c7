// SPDX-License-Identifier: Apache-2.0
#pragma once
// A schedule that a person wrote: --schedule FILE of tune, show, explain, run, compile and bench.
// Not thread-safe.

#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "tools/verb.h"

namespace tw::tools {

struct HandSchedule {
  std::string source;              ///< name of the file, or "standard input"
  std::string text;                ///< canonical, as the database stores it
  std::vector<std::string> notes;  ///< what adapting it to the workload changed or left out
};

/// --schedule FILE.
Flag schedule_flag(std::string& path);

/// The schedule in the file, which is legal for the workload on the target. Invalid where it is
/// not, with line and column if the text is wrong or does not fit the workload.
Result<HandSchedule> read_hand_schedule(const std::string& path, const dsl::Workload& workload,
                                        const Target& target);

/// The same for a schedule that was written for another workload: factors and tails are adapted
/// (schedules/adapt.h), and steps that do not apply are left out. Invalid where the text is wrong
/// or what remains is illegal.
Result<HandSchedule> adapt_hand_schedule(const std::string& path, const dsl::Workload& workload,
                                         const Target& target);

}  // namespace tw::tools

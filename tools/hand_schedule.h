// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads a schedule that a person wrote, from the file of the flag --schedule of tune, show,
// explain, run, compile and bench. Not thread-safe.

#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "tools/verb.h"

namespace tw::tools {

struct HandSchedule {
  std::string source;              ///< name of the file, or "standard input"
  std::string text;                ///< the steps, in the canonical form that databases store
  std::vector<std::string> notes;  ///< what adapting it to the workload changed or left out
};

/// Returns the flag --schedule FILE, which sets `path`.
Flag schedule_flag(std::string& path);

/// Reads a schedule and checks that it is legal for the workload on the target. Fails with Invalid
/// if the file cannot be read or the schedule is not legal. If the text is wrong or does not fit
/// the workload, the message has the line and column.
Result<HandSchedule> read_hand_schedule(const std::string& path, const dsl::Workload& workload,
                                        const Target& target);

/// Reads a schedule that was written for another workload, and adapts its split factors and tails
/// to this workload (schedules/adapt.h). Steps that do not apply are left out. Fails with Invalid
/// if the file cannot be read, the text is wrong or the adapted schedule is illegal.
Result<HandSchedule> adapt_hand_schedule(const std::string& path, const dsl::Workload& workload,
                                         const Target& target);

}  // namespace tw::tools

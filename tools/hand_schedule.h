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
  std::string text;                ///< in the canonical form that the database stores
  std::vector<std::string> notes;  ///< what adapting it to the workload changed or left out
};

/// The flag --schedule FILE, which sets `path`.
Flag schedule_flag(std::string& path);

/// Reads a schedule and checks that it is legal for the workload on the target. Invalid if it is
/// not; the message has the line and column if the text is wrong or does not fit the workload.
Result<HandSchedule> read_hand_schedule(const std::string& path, const dsl::Workload& workload,
                                        const Target& target);

/// Reads a schedule that was written for another workload: its factors and tails are adapted to
/// this workload (schedules/adapt.h), and steps that do not apply are left out. Invalid if the text
/// is wrong or the adapted schedule is illegal.
Result<HandSchedule> adapt_hand_schedule(const std::string& path, const dsl::Workload& workload,
                                         const Target& target);

}  // namespace tw::tools

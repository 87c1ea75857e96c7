// SPDX-License-Identifier: Apache-2.0
#pragma once
// Claims: runs that tune one workload on devices of one class, and share a database, divide the
// schedules among them. Before a run builds a schedule it claims it. A claim ends with the run that
// has it, or when it expires: a run that was killed keeps nobody from its schedules for longer. The
// clock is that of the database, so that clocks of hosts need not agree.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "db/record.h"

namespace tw::db {

/// Seconds after which a claim expires that its run does not renew.
inline constexpr double claim_s = 120;

/// The name of a claim that is of no schedule: the comparison of the fastest kernels at the end of
/// a run.
inline constexpr std::string_view finals_claim = "finals";

/// The records that other sessions stored at a place.
struct News {
  std::vector<Record> records;  ///< in the order in which they were stored
  int64_t last = 0;             ///< number of the last row of the database that was looked at
};

}  // namespace tw::db

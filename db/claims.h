// SPDX-License-Identifier: Apache-2.0
#pragma once
// Claims: runs that tune one workload on devices of one class, and share a database, divide the
// schedules among them. Before a run builds a schedule it claims it. A claim ends with the run that
// has it, or when it expires: a run that was killed keeps nobody from its schedules for longer. The
// clock is that of the database, so that clocks of hosts need not agree. Not thread-safe, as the
// Store.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

class Store;
struct Key;

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

/// Claims schedules of a place, given by schedule_key(), for a session on a host, in one durable
/// transaction, and renews the session's other claims there. Returns for each schedule whether it
/// was granted: no other session has a claim of it, and the trials of others have not settled it
/// (TriedSchedules). For example, a schedule is refused that another session timed, and granted
/// where one session of another host alone has seen it crash. TryLater as Store::append().
Result<std::vector<bool>> claim(Store& store, const Key& place,
                                std::span<const std::string> schedules, const std::string& session,
                                const std::string& host);
/// True if another session has a claim of the schedule that has not expired.
Result<bool> is_claimed(Store& store, const Key& place, const std::string& schedule,
                        const std::string& session);
/// Ends the claims of a session at a place, if it has any. TryLater as Store::append().
Status release(Store& store, const Key& place, const std::string& session);
/// The number of the row that was stored last; 0: there is none.
Result<int64_t> last_row(Store& store);
/// The records of other sessions at a place that were stored after row `after`.
Result<News> news(Store& store, const Key& place, int64_t after, const std::string& session);

}  // namespace tw::db

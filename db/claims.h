// SPDX-License-Identifier: Apache-2.0
#pragma once
// Claims of schedules. Runs that tune the same workload on the same class of devices and share a
// database divide the schedules among them: a run claims a schedule before it builds the schedule.
// A claim ends with its run, or expires if the run was killed. Expiry follows the clock of the
// database, so that the clocks of hosts need not agree. Like the Store, not thread-safe.

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

/// Seconds after which a claim expires unless its run renews it.
inline constexpr double claim_s = 120;

/// The name of the claim, in place of a schedule, for the comparison of the fastest kernels at the
/// end of a run.
inline constexpr std::string_view finals_claim = "finals";

/// The records that other sessions have stored at a place.
struct News {
  std::vector<Record> records;  ///< in the order in which they were stored
  int64_t last = 0;  ///< number of the last row that was looked at, to be passed to the next news()
};

/// Claims schedules at a place for a session on a host, and renews the other claims of the session
/// there, in one durable transaction. `schedules` are given by schedule_key(). Returns for each
/// schedule true if the claim was granted: no other session has claimed the schedule, and the
/// trials of other sessions have not settled it (TriedSchedules). For example, a schedule that
/// another session has timed is refused; a schedule that crashed in a single session, on another
/// host, is granted. TryLater as Store::append().
Result<std::vector<bool>> claim(Store& store, const Key& place,
                                std::span<const std::string> schedules, const std::string& session,
                                const std::string& host);
/// True if another session has claimed the schedule and the claim has not expired.
Result<bool> is_claimed(Store& store, const Key& place, const std::string& schedule,
                        const std::string& session);
/// Ends all claims of a session at a place; does nothing if there are none. TryLater as
/// Store::append().
Status release(Store& store, const Key& place, const std::string& session);
/// The number of the record's row that was stored last; 0 if there is none.
Result<int64_t> last_row(Store& store);
/// The records of other sessions at a place that were stored after row number `after`.
Result<News> news(Store& store, const Key& place, int64_t after, const std::string& session);

}  // namespace tw::db

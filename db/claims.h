// SPDX-License-Identifier: Apache-2.0
#pragma once
// Claims of schedules. Several runs may tune the same workload on the same class of devices and
// share a database. They divide the schedules among themselves: a run, called a session here,
// claims a schedule before it builds the schedule. The run releases its claims at its end. If it
// was killed, its claims expire. Expiry follows the clock of the database, so the clocks of hosts
// need not agree. Like a Store, these functions are not thread-safe.

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

/// Text that a run claims in place of a schedule while it compares its fastest kernels at its end
/// (the finals). This claim ensures that no two runs do so at the same time.
inline constexpr std::string_view finals_claim = "finals";

/// The records that other sessions have stored for the workload, target, device, threads and
/// layouts of a key.
struct News {
  std::vector<Record> records;  ///< in the order in which they were stored
  int64_t last = 0;             ///< row number to pass to the next call of news()
};

/// Claims schedules for a session on a host, in one durable transaction. The claims are for the
/// workload, target, device, threads and layouts of `place`. The session's other claims for this
/// place are renewed. Each of `schedules` is a result of schedule_key(). Returns for each schedule
/// true if the claim was granted. A claim is granted if no other session has claimed the schedule,
/// and trials of other sessions have not settled it (TriedSchedules). For example, a schedule that
/// another session has timed is refused. A schedule that crashed in a single session on another
/// host is granted. Fails with TryLater if another process holds the database for writing too long.
Result<std::vector<bool>> claim(Store& store, const Key& place,
                                std::span<const std::string> schedules, const std::string& session,
                                const std::string& host);
/// True if a session other than `session` has claimed the schedule and the claim has not expired.
Result<bool> is_claimed(Store& store, const Key& place, const std::string& schedule,
                        const std::string& session);
/// Ends all claims of a session at a place; does nothing if there are none. Fails with TryLater if
/// another process holds the database for writing too long.
Status release(Store& store, const Key& place, const std::string& session);
/// Returns the row number of the record that was stored last; 0 if there are no records.
Result<int64_t> last_row(Store& store);
/// Returns the records that sessions other than `session` have stored for a place. Only rows after
/// row `after` are read, which is a result of last_row() or News::last.
Result<News> news(Store& store, const Key& place, int64_t after, const std::string& session);

}  // namespace tw::db

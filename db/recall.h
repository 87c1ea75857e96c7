// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trials of a place (workload, target, device, layouts; see Place), for a run that continues
// tuning there or starts from the results of similar workloads. Apart from one short index entry
// for each trial of the place, the cost does not grow with the number of trials. Values are
// thread-safe; functions that take a Store are not.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/overview.h"
#include "db/record.h"
#include "db/trust.h"

namespace tw::db {

class Store;
struct Key;

/// A trial, judged by all trials of its group (trust.h).
struct RecalledTrial {
  Record record;
  Doubt doubt = Doubt::None;
};

struct RecalledTrials {
  int64_t known = 0;  ///< number of all trials of the place
  /// Sorted by latency, then by hash. If the place has more trials than were asked for, three
  /// quarters of these are the fastest trials with status Ok, and the others are a sample of all
  /// trials. Trials with status Unstable are then always doubted.
  std::vector<RecalledTrial> trials;
};

/// 16 bytes that identify a schedule: the first half of the SHA-256 of its text.
std::string schedule_key(std::string_view schedule);

/// The schedules of a place that were tried, given by schedule_key().
struct TriedSchedules {
  int64_t known = 0;  ///< number of schedules that have a trial
  /// Schedules that need no further trial. A schedule is settled by a trial that proves something
  /// else than that it is wrong, or by two sessions that prove it wrong, or by one such session on
  /// the host that asks.
  std::set<std::string> settled;
};

/// The trials at the place of the key, on exactly the key's device; at most `most`. They are judged
/// by all trials of the place.
Result<RecalledTrials> recall(Store& store, const Key& place, int64_t most);
/// As recall(), for the layers below the database. `most` and the judgements are of each layer
/// alone.
RecalledTrials recall_below(Store& store, const Key& place, int64_t most);
/// The schedules that have trials at the place. `host` is the host that asks (Environment::host).
/// If it is empty, a schedule that a single session proves wrong is settled too.
Result<TriedSchedules> tried(Store& store, const Key& place, const std::string& host);
/// The places at which an operator has an answer for this number of threads and this codegen_abi,
/// in this database and in the layers below, sorted. Each database contributes at most 2 * `most`
/// places: the `most` whose workloads are nearest to `flops` operations from above, and the `most`
/// that are nearest from below.
Result<std::vector<Place>> places(Store& store, const std::string& op, int64_t threads,
                                  int64_t codegen_abi, double flops, int64_t most);

}  // namespace tw::db

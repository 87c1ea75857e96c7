// SPDX-License-Identifier: Apache-2.0
#pragma once
// The knowledge of a database about a place, as a run needs it that goes on there or nearby. The
// cost does not grow with the trials of the place, but for one short entry of an index for each of
// them. Values are thread-safe; functions over a
// Store are not, as it is not.

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

/// A trial and what the rule of trust says of it, by all trials of its group.
struct RecalledTrial {
  Record record;
  Doubt doubt = Doubt::None;
};

struct RecalledTrials {
  int64_t known = 0;  ///< trials of the place
  /// Sorted by latency, then by hash. Where the place has more trials than were asked for, three
  /// quarters are the fastest ones with status Ok, and the others a sample of all. Trials with
  /// status Unstable are then in doubt.
  std::vector<RecalledTrial> trials;
};

/// 16 bytes that name a schedule, given by its text: the first half of its SHA-256.
std::string schedule_key(std::string_view schedule);

/// The schedules of a place by schedule_key().
struct TriedSchedules {
  int64_t known = 0;  ///< schedules that have a trial
  /// Schedules that need no further trial: one of their trials proves something, and where it
  /// proves the schedule wrong, it is of the host that asks, or two sessions agree.
  std::set<std::string> settled;
};

/// The trials of the place that the key names, with its device alone; at most `most`, judged by
/// all of them.
Result<RecalledTrials> recall(Store& store, const Key& place, int64_t most);
/// The same of the layers below, each judged by itself.
RecalledTrials recall_below(Store& store, const Key& place, int64_t most);
/// The schedules that have trials at the place. `host` is the one that asks
/// (Environment::host); empty: a schedule that one session alone proves wrong is settled, too.
Result<TriedSchedules> tried(Store& store, const Key& place, const std::string& host);
/// The places at which an operator has an answer for this number of threads, also of layers
/// below; in order. Of each database at most 2 * `most`: those whose workloads have the next
/// larger, and the next smaller, number of operations.
Result<std::vector<Place>> places(Store& store, const std::string& op, int64_t threads,
                                  int64_t codegen_abi, double flops, int64_t most);

}  // namespace tw::db

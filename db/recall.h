// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the trials of a place (a workload, target, device and layouts; see Place). A run reads them
// to continue tuning at this place, or to start from the results of similar workloads. Functions
// read at most one short index entry for each trial of the place. All other costs do not grow with
// the number of trials. Values are thread-safe; functions that take a Store are not.

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
  /// Trials, sorted by latency, then by hash. If the place has more trials than were asked for,
  /// these are only some of them. Three quarters are then the fastest trials with status Ok, and
  /// one quarter is a sample of all trials. A trial with status Unstable is then always doubted.
  std::vector<RecalledTrial> trials;
};

/// Returns 16 bytes that identify a schedule: the first half of the SHA-256 of its text.
std::string schedule_key(std::string_view schedule);

/// The schedules of a place that were tried.
struct TriedSchedules {
  int64_t known = 0;  ///< number of schedules that have a trial
  /// The schedule_key() of each schedule that needs no further trial. A schedule is settled if a
  /// trial has a status for which neither proves_wrong() nor proves_nothing() is true, such as Ok.
  /// It is also settled if two sessions have proved it wrong, or one session on the host that asks.
  std::set<std::string> settled;
};

/// Returns at most `most` trials of the workload, target, device, threads and layouts of the key,
/// on exactly this device. Each trial is judged by all trials of its group.
Result<RecalledTrials> recall(Store& store, const Key& place, int64_t most);
/// Does the same as recall() for the layers below the database. Each layer contributes at most
/// `most` trials, which are judged by the trials of this layer alone. A record that several layers
/// have is returned once. A layer that cannot be read is left out.
RecalledTrials recall_below(Store& store, const Key& place, int64_t most);
/// Returns the schedules that have trials at a place. `host` is the host that asks
/// (Environment::host). If `host` is empty, a proof by any one session that a schedule is wrong
/// settles the schedule.
Result<TriedSchedules> tried(Store& store, const Key& place, const std::string& host);
/// Returns the places at which an operator has an answer for the given number of threads and
/// codegen_abi, in this database and in the layers below, in the order of Place. Each database
/// contributes the places whose workloads have numbers of operations nearest to `flops`: at most
/// `most` places with at least `flops` operations, and at most `most` with fewer.
Result<std::vector<Place>> places(Store& store, const std::string& op, int64_t threads,
                                  int64_t codegen_abi, double flops, int64_t most);

}  // namespace tw::db

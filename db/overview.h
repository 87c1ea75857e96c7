// SPDX-License-Identifier: Apache-2.0
#pragma once
// Summaries of a database that are small enough to list: one for each group of trials with its
// answer, and one for each trial with the time at which it was made. Values are thread-safe;
// functions over a Store are not, as it is not.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/record.h"
#include "db/trust.h"

namespace tw::db {

class Store;

/// Characters of a workload's key or of layouts, and of any other text, that a summary keeps. Keys
/// of long expressions are longer.
inline constexpr int64_t most_key_characters = 1024;
inline constexpr int64_t most_text_characters = 256;

/// The trials of one workload that compare with each other, and the best of them.
struct GroupSummary {
  std::string workload_hash;  ///< SHA-256 of the workload's key in hex
  std::string workload;       ///< the key, or the beginning of a longer one
  std::string op, target, device, layouts;
  int64_t threads = 0;
  int64_t codegen_abi = 0;
  int64_t trials = 0;
  int64_t newest_ms = 0;  ///< when the trial that was stored last was made
  std::string best;       ///< hash of the best record; empty where none is believed
  double latency_ns = 0;  ///< measured latency of the best record; 0: there is none
  double efficiency = 0;  ///< of the best one; 0 where it is unknown
};

/// The part of a GroupSummary by which lists sort and filter. Texts are valid during the visit.
struct GroupEntry {
  int64_t id = 0;                  ///< workload_groups() takes it
  std::string_view workload_hash;  ///< 32 bytes
  std::string_view layouts, op, device;
  int64_t trials = 0;
  int64_t newest_ms = 0;
  double latency_ns = 0;  ///< as in GroupSummary
  double efficiency = 0;
};
using VisitEntry = std::function<void(const GroupEntry&)>;

/// Workload, target, device and layouts of trials. Latencies at one place are comparable.
struct Place {
  std::string workload, target, device, layouts;
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// One trial, without what was run.
struct TrialSummary {
  std::string hash;
  std::string target, device, session;
  int64_t threads = 0;
  int64_t codegen_abi = 0;
  std::optional<TrialStatus> status;  ///< none: a status of a newer program
  double latency_ns = 0;
  Doubt doubt = Doubt::None;  ///< why it is not used, by all that its group measured
  double counted_ns = 0;      ///< Ranking::counted_ns of the trial (trust.h)
  int64_t created_ms = 0;
};

/// Every group of trials with its answer, without reading trials.
/// The group whose trial was stored last comes first; at most `limit`.
Result<std::vector<GroupSummary>> groups(Store& store, int64_t limit);
/// Visits the entries of the same groups in the same order, in one state of the database and
/// without keeping them in memory. Entries without answers have no latency and no efficiency,
/// and of a file an index has all of them.
Status for_each_group(Store& store, int64_t limit, bool with_answers, const VisitEntry& visit);
/// The groups that have the workload and the layouts of the group with this id, the one whose
/// trial was stored last first; at most `limit`. Empty where no group has the id.
Result<std::vector<GroupSummary>> workload_groups(Store& store, int64_t id, int64_t limit);
/// The same for a workload, given by the hash of its key, under these layouts.
Result<std::vector<GroupSummary>> workload_groups(Store& store, const std::string& workload_hash,
                                                  const std::string& layouts, int64_t limit);
/// The ids of the groups in whose workload_text() the part occurs, whatever the case of its
/// letters from a to z, in order. Reads the workloads of all groups.
Result<std::vector<int64_t>> groups_named(Store& store, const std::string& part);
/// The ids of all groups, sorted by workload_text(). Reads the workloads of all groups.
Result<std::vector<int64_t>> groups_by_name(Store& store);
/// The trials of a workload, given by the hash of its key, under these layouts: those that were
/// stored last, at most `limit`, the oldest of them first. Each is judged by all of its group.
/// They are not checked against their hashes.
Result<std::vector<TrialSummary>> trials(Store& store, const std::string& workload_hash,
                                         const std::string& layouts, int64_t limit);

}  // namespace tw::db

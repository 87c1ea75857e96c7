// SPDX-License-Identifier: Apache-2.0
#pragma once
// Summaries of a database that are small enough to list: one for each group of comparable trials,
// with the best record of the group, and one for each trial. Values are thread-safe; functions that
// take a Store are not.

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

/// Longer texts are cut in summaries: the key of a workload and layouts after `most_key_characters`
/// characters, all other texts after `most_text_characters`. So keys of long expressions may be
/// cut.
inline constexpr int64_t most_key_characters = 1024;
inline constexpr int64_t most_text_characters = 256;

/// Summary of a group, which has the trials of one workload whose latencies are comparable: those
/// of one target, device, layouts, number of threads and code generator.
struct GroupSummary {
  std::string workload_hash;  ///< SHA-256 of the workload's key in hex
  std::string workload;       ///< the key, or the beginning of a longer one
  std::string op, target, device, layouts;
  int64_t threads = 0;
  int64_t codegen_abi = 0;
  int64_t trials = 0;
  int64_t newest_ms = 0;  ///< time of the trial that was stored last, in ms since 1970
  std::string best;       ///< hash of the best record; empty if no record is believed
  double latency_ns = 0;  ///< measured latency of the best record; 0 if there is none
  double efficiency = 0;  ///< efficiency of the best record; 0 if unknown
};

/// The part of a GroupSummary by which lists sort and filter. Its texts are valid only while the
/// callback runs.
struct GroupEntry {
  int64_t id = 0;                  ///< id of the group, for workload_groups()
  std::string_view workload_hash;  ///< 32 bytes
  std::string_view layouts, op, device;
  int64_t trials = 0;
  int64_t newest_ms = 0;
  double latency_ns = 0;  ///< as in GroupSummary
  double efficiency = 0;
};
using VisitEntry = std::function<void(const GroupEntry&)>;

/// A place: the workload, target, device and layouts of trials. Latencies of trials at one place
/// are comparable if the numbers of threads and the code generators are equal.
struct Place {
  std::string workload, target, device, layouts;
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// Summary of one trial, without its workload and schedule.
struct TrialSummary {
  std::string hash;
  std::string target, device, session;
  int64_t threads = 0;
  int64_t codegen_abi = 0;
  std::optional<TrialStatus> status;  ///< nullopt: a status that only a newer program knows
  double latency_ns = 0;
  Doubt doubt = Doubt::None;  ///< why the trial is not used, judged by all trials of its group
  double counted_ns = 0;      ///< Ranking::counted_ns of the trial (trust.h)
  int64_t created_ms = 0;
};

/// Returns at most `limit` groups of trials with their best records. The group in which a trial was
/// stored last comes first. Reads no trials.
Result<std::vector<GroupSummary>> groups(Store& store, int64_t limit);
/// Visits the groups that groups() returns, in the same order, in one state of the database and
/// without keeping all groups in memory. If `with_answers` is false, the entries have no latency
/// and no efficiency. In a database file, such entries are read from an index alone, which is
/// faster.
Status for_each_group(Store& store, int64_t limit, bool with_answers, const VisitEntry& visit);
/// Returns at most `limit` of the groups that have the workload and the layouts of the group `id`.
/// The group in which a trial was stored last comes first. Empty if no group has this id.
Result<std::vector<GroupSummary>> workload_groups(Store& store, int64_t id, int64_t limit);
/// Returns at most `limit` of the groups of a workload, given by the hash of its key (64 hex
/// digits), and of its layouts. The order is that of workload_groups() above.
Result<std::vector<GroupSummary>> workload_groups(Store& store, const std::string& workload_hash,
                                                  const std::string& layouts, int64_t limit);
/// Returns, in increasing order, the ids of the groups whose workload_text() contains `part`. Of a
/// longer key or layouts, only the first most_key_characters are searched. The letters a to z match
/// in either case. Reads the workloads of all groups.
Result<std::vector<int64_t>> groups_named(Store& store, const std::string& part);
/// Returns the ids of all groups, sorted by workload_text(). Reads the workloads of all groups.
Result<std::vector<int64_t>> groups_by_name(Store& store);
/// Returns the `limit` trials that were stored last for a workload and layouts. The workload is
/// given by the hash of its key (64 hex digits). The trial that was stored first comes first. Each
/// trial is judged by all trials of its group. Trials are not checked against their hashes.
Result<std::vector<TrialSummary>> trials(Store& store, const std::string& workload_hash,
                                         const std::string& layouts, int64_t limit);

}  // namespace tw::db

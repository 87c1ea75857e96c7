// SPDX-License-Identifier: Apache-2.0
#pragma once
// Judges trials. Each trial is believed, or doubted for a reason. The judgement depends on all
// trials of its group (the comparable trials of one workload). docs/database_format.md, "Best",
// states the rule. A doubted trial stays in the database and is listed with the reason. It is used
// again once more measurements support it. This header also has the types of the evidence for an
// answer. Plain values; thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "db/record.h"

namespace tw::db {

// Columns: enumerator; text in messages; true if `db quarantine` lists the trials with this doubt.
// A doubt that is not listed is not a sign of a wrong measurement.
#define TW_DOUBTS(X)                           \
  X(None, "believed", false)                   \
  X(NotTimed, "not timed", false)              \
  X(Disturbed, "disturbed", false)             \
  X(Refuted, "schedule proven wrong", true)    \
  X(PeakUnknown, "peak unknown", false)        \
  X(PeakDisturbed, "peak disturbed", true)     \
  X(BeyondPeak, "beyond the peak", true)       \
  X(BeyondBandwidth, "beyond bandwidth", true) \
  X(SessionOutvoted, "session outvoted", true) \
  X(Outlier, "outlier", true)                  \
  X(Unconfirmed, "to be confirmed", true)      \
  X(Contradicted, "contradicted", true)

enum class Doubt : uint8_t {
#define X(enumerator, text, is_listed) enumerator,
  TW_DOUBTS(X)
#undef X
};

std::string_view to_string(Doubt doubt);
bool is_listed(Doubt doubt);

/// The judgement of one trial.
struct Judgement {
  Doubt doubt = Doubt::None;
  /// The number that is the reason for the doubt; describe() puts it into words. For example, 7.2
  /// for a trial that claims 7.2 times its peak. 0 if the doubt has no number.
  double ratio = 0;
  double latency_ns = 0;  ///< latency scaled to the peak of the group; 0 if not timed
};

/// Judges each record of a group. Requires: `group` has all known records of one workload, target,
/// device, threads, codegen_abi and layouts.
std::vector<Judgement> judge_records(std::span<const Record> group);

/// The answer of a group, and the latencies from which it follows.
struct Ranking {
  std::optional<size_t> best;         ///< index of the answer; nullopt if no record is believed
  std::vector<Judgement> judgements;  ///< one for each record
  /// For each record, the latency in ns that the rule uses for the schedule of the record, scaled
  /// to the peak that was measured with the answer. So the smallest number above 0 is the latency
  /// of the answer. 0 for a record that is not believed.
  std::vector<double> counted_ns;
};
/// Ranks the records of a group. Requires: `group` has all known records of the group, as for
/// judge_records().
Ranking rank_records(std::span<const Record> group);

/// Returns the doubt as a clause for messages, such as "it claims 7.2 times the peak that was
/// measured with it".
std::string describe(const Judgement& judgement);

/// Similarity between the device of a record and the device of a lookup.
enum class Likeness : uint8_t {
  Exact,       ///< same model, cores and caches
  SameClass,   ///< same model; cores, caches or memory differ
  OtherClass,  ///< another model: the schedule is a start for tuning, its latency says little
};
/// Returns "exact", "same class" or "warm start".
std::string_view to_string(Likeness likeness);
/// Returns the model of a device, which is the part of the device's text before the first
/// semicolon. Devices of one model form a class.
std::string_view model_of(std::string_view device);
/// Returns the likeness of the device of a record, `device`, to the device of a lookup, `asking`.
Likeness likeness_of(std::string_view device, std::string_view asking);

/// A record that is not used, and the reason.
struct Doubted {
  Record record;
  Doubt doubt = Doubt::None;
  std::string why;
};

/// The largest ratio between the latencies of two sessions that count as agreeing. Sessions with
/// the same toolchain on one machine differ by a tenth if other users keep the machine busy. With a
/// wrong clock, or on machines of different speeds, they differ by more than this ratio.
inline constexpr double session_agreement = 1.3;

/// The best record for a key and the evidence for it.
struct Explanation {
  Record record;
  Likeness likeness = Likeness::Exact;
  std::string layer = {};  ///< layer below the database that answers; empty: the database itself
  int64_t sessions = 0;    ///< believed sessions that timed the record's schedule
  int64_t hosts = 0;       ///< machines of these sessions
  int64_t trials = 0;      ///< trials of these sessions
  /// Latency of the record: the median over these sessions. Of an even number of sessions, it is
  /// the slower of the two middle ones. All times of this struct are scaled to the peak that was
  /// measured with the record.
  double latency_ns = 0;
  /// Latency by the fastest of these sessions; with a single session, the low end of its interval.
  double low_ns = 0;
  /// Latency by the slowest of these sessions; with a single session, the high end of its interval.
  double high_ns = 0;
  /// Records with a smaller latency that are not used, fastest first, up to the limit of explain().
  std::vector<Doubted> not_used;
  int64_t not_used_count = 0;  ///< number of all records with a smaller latency that are not used
  /// Trials that prove the answer's schedule wrong. All are of one session, which is not enough to
  /// ban the schedule (Doubt::Contradicted).
  std::vector<Doubted> against;
};

}  // namespace tw::db

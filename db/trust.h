// SPDX-License-Identifier: Apache-2.0
#pragma once
// Judgement of trials: each trial is believed or doubted for a reason. Also the evidence for an
// answer of the database. docs/database_format.md, "Best", states the rule. A doubtful trial stays
// in the database, is listed with its reason, and is used again once more measurements support it.
// Plain values; thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "db/record.h"

namespace tw::db {

// enumerator, text, true if trials with this doubt are listed with the quarantine. A doubt that is
// not listed is no sign of a wrong measurement.
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
  double ratio = 0;       ///< the number that the doubt rests on; describe() names it
  double latency_ns = 0;  ///< normalised to the group's peak; 0 if not timed
};

/// Judges each record of a group. Requires: all known records of one workload, target, device,
/// threads, codegen_abi and layouts.
std::vector<Judgement> judge_records(std::span<const Record> group);

/// The answer of a group, and the latencies from which it follows.
struct Ranking {
  std::optional<size_t> best;         ///< index of the answer; nullopt if no record is believed
  std::vector<Judgement> judgements;  ///< one for each record
  /// The latency in ns that counts for the schedule of each record, on the clock of the answer, so
  /// that the smallest one is the latency of the answer; 0 for a record that is not believed.
  std::vector<double> counted_ns;
};
/// Ranks the records of a group. Requires: as judge_records().
Ranking rank_records(std::span<const Record> group);

/// The doubt as a clause, such as "it claims 7.2 times the peak that was measured with it".
std::string describe(const Judgement& judgement);

/// Similarity between the device of a record and the device of a lookup.
enum class Likeness : uint8_t {
  Exact,       ///< same model, cores and caches
  SameClass,   ///< same model; cores, caches or memory differ
  OtherClass,  ///< another model: the schedule is a start for tuning, its latency says little
};
/// "exact", "same class", "warm start"
std::string_view to_string(Likeness likeness);
/// The model of a device, by which devices are classed: the part of its text before the first
/// semicolon.
std::string_view model_of(std::string_view device);
/// The likeness of `device`, that of a record, to `asking`, that of a lookup.
Likeness likeness_of(std::string_view device, std::string_view asking);

/// A record that is not used, and the reason.
struct Doubted {
  Record record;
  Doubt doubt = Doubt::None;
  std::string why;
};

/// The largest ratio between two sessions that still agree. Sessions with one toolchain on one
/// machine differ by a tenth if another tenant of the machine is busy; a wrong clock, or a machine
/// of another speed, makes them differ by more than this ratio.
inline constexpr double session_agreement = 1.3;

/// The best record for a key and the evidence for it.
struct Explanation {
  Record record;
  Likeness likeness = Likeness::Exact;
  std::string layer = {};  ///< layer below the database that answers; empty: the database itself
  int64_t sessions = 0;    ///< believed sessions that timed the record's schedule
  int64_t hosts = 0;       ///< machines of these sessions
  int64_t trials = 0;      ///< trials of these sessions
  /// Latency of the record. It is the median of these sessions, or the slower of the two middle
  /// sessions. All times of this struct are scaled to the peak that was measured with the record.
  double latency_ns = 0;
  /// Fastest of these sessions; with a single session, the low end of its interval.
  double low_ns = 0;
  /// Slowest of these sessions; with a single session, the high end of its interval.
  double high_ns = 0;
  /// Records with a smaller latency that are not used, fastest first, up to the limit of explain().
  std::vector<Doubted> not_used;
  int64_t not_used_count = 0;  ///< number of these records without the limit
  /// Trials of a single session by which the answer's schedule is wrong (Doubt::Contradicted).
  std::vector<Doubted> against;
};

}  // namespace tw::db

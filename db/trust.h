// SPDX-License-Identifier: Apache-2.0
#pragma once
// Judgements of trials, each believed or doubted for a reason, and the evidence for an answer of
// the database. docs/database_format.md, "Best", states the rule. A doubtful trial stays in the
// database, is listed with its reason, and is used again once more measurements support it. Plain
// values; thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "db/record.h"

namespace tw::db {

// enumerator, text, whether it is listed with the quarantine. A doubt that is not listed is no sign
// that anybody measured wrongly.
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

/// Judgement of one trial by the rule.
struct Judgement {
  Doubt doubt = Doubt::None;
  double ratio = 0;       ///< the number that the doubt rests on; describe() names it
  double latency_ns = 0;  ///< normalised to the group's peak; 0 where it was not timed
};

/// Judges each record of a group. Requires: records of one workload, target, device, threads,
/// codegen_abi and layouts, all that are known.
std::vector<Judgement> judge_records(std::span<const Record> group);

/// The answer of a group, and the latencies from which it follows.
struct Ranking {
  std::optional<size_t> best;         ///< index of the answer; none where no record is believed
  std::vector<Judgement> judgements;  ///< one for each record
  /// The latency in ns that counts for the schedule of each record, on the clock of the answer, so
  /// that the smallest one is the latency of the answer; 0 for a record that is not believed.
  std::vector<double> counted_ns;
};
/// Ranks the records of a group. Requires the same as judge_records().
Ranking rank_records(std::span<const Record> group);

/// The doubt as a clause: "it claims 7.2 times the peak that was measured with it".
std::string describe(const Judgement& judgement);

/// Similarity between the device of a record and the device of a lookup.
enum class Likeness : uint8_t {
  Exact,       ///< same model, cores and caches
  SameClass,   ///< same model; cores, caches or memory differ
  OtherClass,  ///< another model: the schedule is a start for tuning, its latency says little
};
/// "exact", "same class", "warm start"
std::string_view to_string(Likeness likeness);
/// The model of a device, which is its class: what precedes the first semicolon of its text.
std::string_view model_of(std::string_view device);
/// Compares device texts by model.
Likeness likeness_of(std::string_view device, std::string_view asking);

/// A record and why it is not used.
struct Doubted {
  Record record;
  Doubt doubt = Doubt::None;
  std::string why;
};

/// Sessions with one toolchain on one machine differ by a tenth where a neighbour is busy; a clock
/// that is wrong, or a machine of another speed, differs by more than this.
inline constexpr double session_agreement = 1.3;

/// The best record for a key and the evidence for it.
struct Explanation {
  Record record;
  Likeness likeness = Likeness::Exact;
  std::string layer = {};  ///< layer below the database that answers; empty: the database itself
  int64_t sessions = 0;    ///< sessions that timed its schedule and are believed
  int64_t hosts = 0;       ///< machines of these sessions
  int64_t trials = 0;      ///< trials of these sessions
  /// Latency of the record, which is the median of these sessions, the slower one of two middle
  /// sessions. All times here are on the clock of the record: at the peak that was measured with
  /// it.
  double latency_ns = 0;
  double low_ns = 0;   ///< fastest of these sessions; with one, the low end of its interval
  double high_ns = 0;  ///< slowest of these sessions; with one, the high end of its interval
  /// Records with a smaller latency, fastest first; where a limit was given, the first of them.
  std::vector<Doubted> not_used;
  int64_t not_used_count = 0;  ///< number of these records, whatever the limit
  /// Trials of one session that say that the schedule of the answer is wrong (Doubt::Contradicted).
  std::vector<Doubted> against;
};

}  // namespace tw::db

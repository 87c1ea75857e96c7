// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Record is one trial: the measurement of one schedule of one workload on one device. A stored
// record never changes, and its hash covers every field, so databases merge as sets of records. The
// hash is that of the canonical text, which docs/database_format.md defines. All functions are
// thread-safe.
//
//   Record record;                         // fill in what was measured
//   record = seal(std::move(record));      // derives the three hashes
//   TW_RETURN_IF_ERROR(check(record));     // what a store would quarantine
//   std::string line = to_json(record);    // one line; from_json(line) gives the record back

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::db {

// Columns: enumerator; text in records; meaning; true if the status proves the schedule wrong.
#define TW_TRIAL_STATUSES(X)                                                                     \
  X(Ok, "ok", "measured, and its result is correct", false)                                      \
  X(Wrong, "wrong", "result differs from the reference", true)                                   \
  X(Nondeterministic, "nondeterministic", "two runs differ", true)                               \
  X(MutatesInput, "mutates_input", "wrote to an input", true)                                    \
  X(Oob, "oob", "read or wrote outside its buffers", true)                                       \
  X(Crash, "crash", "died by a signal", true)                                                    \
  X(Timeout, "timeout", "did not end before its deadline", false)                                \
  X(Resource, "resource", "exceeded memory, process, file or network limits", false)             \
  X(CompileError, "compile_error", "the compiler refused it, died or timed out", false)          \
  X(Illegal, "illegal", "the schedule does not apply to the workload", false)                    \
  X(Unstable, "unstable", "timed only while something else disturbed it, if at all", false)      \
  X(TooFast, "too_fast", "below what the timer resolves", false)                                 \
  X(Hopeless, "hopeless", "stopped early, clearly slower than the incumbent", false)             \
  X(Duplicate, "duplicate", "the machine code of an earlier trial, whose latency it has", false) \
  X(Lost, "lost", "its worker or device was lost twice: nothing is known of it", false)

enum class TrialStatus : uint8_t {
#define X(enumerator, text, meaning, proves_wrong) enumerator,
  TW_TRIAL_STATUSES(X)
#undef X
};

std::string_view to_string(TrialStatus status);
std::optional<TrialStatus> parse_trial_status(std::string_view text);
/// True if the status shows that the schedule must not be used, however fast it is: a result was
/// wrong, or the kernel crashed.
bool proves_wrong(TrialStatus status);
/// True if the status shows nothing about the schedule (Unstable, Lost). A later run tries such a
/// schedule again, and cost models do not learn from the trial.
bool proves_nothing(TrialStatus status);

// Columns: a field that the hash covers; the record version that added this field. The rows have
// the order of the canonical text. Short fields come first, so that a query that reads only numbers
// does not read the pages that hold long texts. Fields of later versions are appended, so that the
// canonical text and the hash of older records stay the same.
#define TW_RECORD_FIELDS(X) \
  X(op, 1)                  \
  X(target, 1)              \
  X(device, 1)              \
  X(toolchain, 1)           \
  X(codegen_abi, 1)         \
  X(threads, 1)             \
  X(layouts, 1)             \
  X(status, 1)              \
  X(latency_ns, 1)          \
  X(latency_low_ns, 1)      \
  X(latency_high_ns, 1)     \
  X(flops, 1)               \
  X(peak_gflops, 1)         \
  X(noise, 1)               \
  X(verified_error, 1)      \
  X(program_version, 1)     \
  X(host, 1)                \
  X(session, 1)             \
  X(seed, 1)                \
  X(trial, 1)               \
  X(created_ms, 1)          \
  X(reason, 1)              \
  X(samples_ns, 1)          \
  X(workload, 1)            \
  X(schedule, 1)            \
  X(machine, 2)             \
  X(configuration, 2)       \
  X(bytes, 3)               \
  X(peak_gb_per_s, 3)

/// The newest record version.
inline constexpr int record_version = 3;

struct Record {
  std::string workload;  ///< the workload's key, a canonical text
  std::string op;
  std::string target;  ///< canonical Target text
  std::string device;  ///< model, cores, caches
  std::string toolchain;
  int64_t codegen_abi = 1;
  int64_t threads = 1;
  /// Layouts that the caller asked for, such as "in=NCHW16c out=NHWC". If the kernel was not timed
  /// with hot caches, the state of the caches follows. Empty if the schedule was free to choose all
  /// layouts and was timed hot.
  std::string layouts;
  std::string schedule;  ///< begins with its language version, "tw1"
  /// Text that identifies the description of the machine (Machine) for which the schedule was
  /// tuned: microarchitecture, origin, and the beginning of the hash of the description. Empty in
  /// records of version 1.
  std::string machine;
  /// The point of the search space from which the schedule was constructed. Empty if the schedule
  /// came from elsewhere, and in records of version 1.
  std::string configuration;

  TrialStatus status = TrialStatus::Ok;
  std::string reason;  ///< why the status is not Ok
  std::vector<double> samples_ns;
  double latency_ns = 0;
  double latency_low_ns = 0;
  double latency_high_ns = 0;
  double flops = 0;        ///< floating-point operations of the workload's direct algorithm
  double peak_gflops = 0;  ///< peak of the machine, measured with the trial; 0: unknown
  /// Compulsory traffic of the workload in bytes: every input element that is read and every output
  /// element, each counted once. 0 if unknown, and in records of versions 1 and 2.
  double bytes = 0;
  /// Largest bandwidth of loads and stores according to the description of the machine, in GB/s
  /// (1e9 bytes/s). For processors, it is the bandwidth between all cores and their L1 caches; for
  /// GPUs, that of the L2 cache. 0 if unknown, and in records of versions 1 and 2.
  double peak_gb_per_s = 0;
  double noise = 0;  ///< relative noise of the samples
  double verified_error = 0;

  std::string program_version;
  std::string host;  ///< hash of the host name
  std::string session;
  int64_t seed = 0;
  int64_t trial = 0;       ///< number of the trial in its session
  int64_t created_ms = 0;  ///< time of the trial, in ms since 1970; no lookup depends on it

  // Derived by seal(): SHA-256 in hex.
  std::string workload_hash;
  std::string schedule_hash;
  std::string hash;  ///< of canonical_text(); the identity of the record

  friend bool operator==(const Record&, const Record&) = default;
};

/// Calls visit(name, member) for each field that the hash of records of `version` covers, in the
/// order of the canonical text. `AnyRecord` is Record or const Record.
template <typename AnyRecord, typename Visitor>
void visit_fields(AnyRecord& record, Visitor&& visit, int version = record_version) {
#define X(field, since) \
  if (since <= version) visit(#field, record.field);
  TW_RECORD_FIELDS(X)
#undef X
}

/// Returns the lowest record version that has every field that is set in the record, i.e. neither
/// empty nor 0. The canonical text and the hash of the record are those of this version.
int record_version_of(const Record& record);

/// True if the latency measures the speed of the schedule: the latency is positive, and the trial
/// is Ok, Hopeless, or a Duplicate of an Ok or Hopeless trial.
bool is_timed(const Record& record);

/// Returns the share of the peak that the kernel reached: the direct algorithm's floating-point
/// operations (`flops`) per nanosecond, divided by the peak in GFLOP/s. May exceed 1, because other
/// algorithms need fewer operations. 0 if the latency, the operations or the peak are unknown.
double efficiency(const Record& record);

std::string canonical_text(const Record& record);

/// Returns the record with its three hashes set. A verified_error that is not finite becomes the
/// largest double, because check() refuses numbers that are not finite.
Record seal(Record record);

/// Ok if the hashes of the record are right and its values are possible; otherwise an error that
/// says what is wrong (docs/database_format.md, "What is refused").
Status check(const Record& record);

/// Returns the record as one line of JSON without a line feed. Requires: check(record) is Ok. In
/// any other record, NaN and bytes that are not UTF-8 are replaced, because JSON cannot hold them.
std::string to_json(const Record& record);

/// Parses a line that to_json() wrote. Takes the hash from the line without checking it: call
/// check() on the result. Fails with Invalid if the line is malformed, longer than 1 MiB, nested or
/// of a newer record version.
Result<Record> from_json(std::string_view line);

inline constexpr size_t max_line_bytes = 1 << 20;

}  // namespace tw::db

// SPDX-License-Identifier: Apache-2.0
#include "db/record.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "base/hash.h"
#include "base/text.h"
#include "db/exchange/json_fields.h"
#include "db/fields.h"
#include "db/record_check.h"
#include "dsl/least_flops.h"

namespace tw::db {
namespace {

using Json = nlohmann::ordered_json;

// The efficiency above which a record is refused. Efficiencies are computed from the operations of
// the direct algorithm, although other algorithms need fewer. So Winograd variants, and products of
// split bf16 on matrix units, reach about five times the f32 peak. No kernel reaches ten times.
constexpr double impossible_efficiency = 10;
// The multiple of the machine's bandwidth above which a record is refused. The bandwidth is
// computed for the clock under load, and no machine has a clock that is ten times as high.
constexpr double impossible_bandwidth = 10;

constexpr size_t max_long_text_bytes = 256 << 10;  // limit for workload, schedule and configuration
constexpr size_t max_samples = 10'000;

// A record is one object with numbers, texts and one list of samples.
constexpr int depth_of_record = 2;

void append_real(std::string& text, double value) { append_double(text, value == 0 ? 0.0 : value); }

std::string_view text_of(const std::string& value) { return value; }
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(double value) {
  std::string text;
  append_real(text, value);
  return text;
}
std::string_view text_of(TrialStatus value) { return to_string(value); }

// Largest number of characters for a double and the space after it: a sign, 17 digits, a point and
// an exponent.
constexpr size_t longest_real = 25;

std::string text_of(const std::vector<double>& values) {
  std::string text;
  text.reserve(values.size() * longest_real);
  for (const double value : values) {
    if (!text.empty()) text += ' ';
    append_real(text, value);
  }
  return text;
}

bool finite(const std::vector<double>& values) {
  for (const double value : values)
    if (!std::isfinite(value)) return false;
  return true;
}

// A visitor of the fields of a record. After the visit, `problem` says what is impossible about the
// first field that is not valid; empty if all fields are valid.
struct FieldCheck {
  std::string problem;

  void operator()(std::string_view name, const std::string& text) {
    const bool is_long = name == "workload" || name == "schedule" || name == "configuration";
    if (text.size() > (is_long ? max_long_text_bytes : max_text_bytes))
      say(name, fmt::format("is {} bytes long", text.size()));
    else if (!is_valid_text(text))
      say(name, "is not UTF-8 text");
  }
  void operator()(std::string_view name, double value) {
    if (!std::isfinite(value))
      say(name, "is not a finite number");
    else if (value < 0)
      say(name, fmt::format("is negative ({})", value));
  }
  void operator()(std::string_view name, const std::vector<double>& values) {
    if (values.size() > max_samples)
      say(name, fmt::format("has {} values", values.size()));
    else if (!finite(values))
      say(name, "holds a value that is not a finite number");
  }
  void operator()(std::string_view name, int64_t value) {
    if (name == "threads" && value < 1) say(name, "is below 1");
  }
  void operator()(std::string_view, TrialStatus) {}

  void say(std::string_view name, std::string_view what) {
    if (problem.empty()) problem = fmt::format("{} {}", name, what);
  }
};

std::string problem_of_measurement(const Record& record) {
  const bool may_be_best = record.status == TrialStatus::Ok ||
                           (record.status == TrialStatus::Unstable && record.latency_ns > 0);
  if (!may_be_best) return {};
  if (record.latency_ns <= 0) return fmt::format("latency_ns is {}", record.latency_ns);
  for (const double sample : record.samples_ns)
    if (sample <= 0) return fmt::format("samples_ns holds {}", sample);
  if (record.latency_low_ns > record.latency_ns || record.latency_high_ns < record.latency_ns)
    return "the interval does not hold latency_ns";
  if (const double all = efficiency(record); all > impossible_efficiency) {
    const double needed = all * dsl::needed_share(record.workload);
    if (needed > impossible_efficiency)
      return fmt::format("{:.3g} times the machine's peak", needed);
  }
  const double cost = record.latency_ns * record.peak_gflops;
  if (record.peak_gflops > 0 && !std::isnormal(cost))
    return fmt::format("latency_ns times peak_gflops is {}", cost);
  const double bandwidth = record.peak_gb_per_s * record.latency_ns;
  if (record.peak_gb_per_s > 0 && record.bytes > impossible_bandwidth * bandwidth)
    return fmt::format("{:.3g} times the machine's bandwidth", record.bytes / bandwidth);
  return {};
}

std::string problem_of_identity(const Record& record) {
  if (record.workload.empty()) return "workload is empty";
  if (!record.schedule.starts_with("tw1")) return "schedule does not begin with tw1";
  if (record.workload_hash != sha256_hex(record.workload))
    return "its workload_hash is not that of its workload";
  if (record.schedule_hash != sha256_hex(record.schedule))
    return "its schedule_hash is not that of its schedule";
  if (record.hash != sha256_hex(canonical_text(record)))
    return "its hash is not that of its content";
  return {};
}

Json json_value(const std::string& value) { return value; }
Json json_value(int64_t value) { return value; }
Json json_value(double value) { return value == 0 ? 0.0 : value; }
Json json_value(TrialStatus value) { return std::string(to_string(value)); }
Json json_value(const std::vector<double>& values) { return values; }

double real_from(const Json& value, const char* name) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number())
    throw std::invalid_argument(fmt::format("{} has a value that is not a number", name));
  return value.get<double>();
}

// The read_field() functions throw std::invalid_argument, which from_json() turns into an error.
void read_field(const Json& object, const char* name, std::string& out) {
  out = text_field(object, name);
}
void read_field(const Json& object, const char* name, int64_t& out) {
  out = integer_field(object, name);
}
void read_field(const Json& object, const char* name, double& out) {
  out = real_from(field_of(object, name), name);
}
void read_field(const Json& object, const char* name, TrialStatus& out) {
  const std::string text = text_field(object, name);
  const auto status = parse_trial_status(text);
  if (!status) throw std::invalid_argument("unknown status " + text);
  out = *status;
}
void read_field(const Json& object, const char* name, std::vector<double>& out) {
  const Json& list = field_of(object, name);
  if (!list.is_array()) throw std::invalid_argument(fmt::format("{} is not a list", name));
  out.clear();
  for (const Json& item : list) out.push_back(real_from(item, name));
}

Record record_from(const Json& object) {
  const int64_t version = integer_field(object, "record");
  if (version < 1 || version > record_version)
    throw std::invalid_argument(fmt::format("another record version: {}", version));
  Record record;
  visit_fields(
      record, [&](const char* name, auto& member) { read_field(object, name, member); },
      static_cast<int>(version));
  record.workload_hash = sha256_hex(record.workload);
  record.schedule_hash = sha256_hex(record.schedule);
  record.hash = text_field(object, "hash");
  return record;
}

/// Returns the error for a record with this problem; Ok if `problem` is empty.
Status status_of(const std::string& problem) {
  if (problem.empty()) return {};
  return fail(
      ErrorCode::Invalid,
      fmt::format("[record] {}: no measurement gives such a record, so it was changed or damaged; "
                  "take it from its source again, or leave it out",
                  problem));
}

}  // namespace

std::string_view to_string(TrialStatus status) {
  switch (status) {
#define X(enumerator, text, meaning, proves_wrong) \
  case TrialStatus::enumerator:                    \
    return text;
    TW_TRIAL_STATUSES(X)
#undef X
  }
  return "?";
}

std::optional<TrialStatus> parse_trial_status(std::string_view text) {
#define X(enumerator, name, meaning, proves_wrong) \
  if (text == name) return TrialStatus::enumerator;
  TW_TRIAL_STATUSES(X)
#undef X
  return std::nullopt;
}

bool proves_wrong(TrialStatus status) {
  switch (status) {
#define X(enumerator, text, meaning, proves) \
  case TrialStatus::enumerator:              \
    return proves;
    TW_TRIAL_STATUSES(X)
#undef X
  }
  return true;
}

bool proves_nothing(TrialStatus status) {
  return status == TrialStatus::Unstable || status == TrialStatus::Lost;
}

bool is_timed(const Record& record) {
  const bool may_be = record.status == TrialStatus::Ok || record.status == TrialStatus::Hopeless ||
                      record.status == TrialStatus::Duplicate;
  return may_be && record.latency_ns > 0;
}

double efficiency(const Record& record) {
  if (record.peak_gflops <= 0 || record.latency_ns <= 0) return 0;
  return record.flops / record.latency_ns / record.peak_gflops;
}

int record_version_of(const Record& record) {
  if (record.bytes != 0 || record.peak_gb_per_s != 0) return 3;
  return record.machine.empty() && record.configuration.empty() ? 1 : 2;
}

std::string canonical_text(const Record& record) {
  constexpr size_t usual_bytes = 1024;  // size of all fields except the long ones
  const int version = record_version_of(record);
  std::string text;
  text.reserve(usual_bytes + record.workload.size() + record.schedule.size() +
               record.configuration.size() + record.samples_ns.size() * longest_real);
  fmt::format_to(std::back_inserter(text), "tilewright-record {}\n", version);
  visit_fields(
      record,
      [&](const char* name, const auto& member) { append_field(text, name, text_of(member)); },
      version);
  return text;
}

Record seal(Record record) {
  if (!std::isfinite(record.verified_error))
    record.verified_error = std::numeric_limits<double>::max();
  record.workload_hash = sha256_hex(record.workload);
  record.schedule_hash = sha256_hex(record.schedule);
  record.hash = sha256_hex(canonical_text(record));
  return record;
}

Status check_facts(const Record& record) {
  FieldCheck fields;
  visit_fields(record, fields);
  return status_of(fields.problem.empty() ? problem_of_measurement(record) : fields.problem);
}

Status check(const Record& record) {
  TW_RETURN_IF_ERROR(check_facts(record));
  return status_of(problem_of_identity(record));
}

std::string to_json(const Record& record) {
  Json object;
  object["record"] = record_version_of(record);
  visit_fields(
      record, [&](const char* name, const auto& member) { object[name] = json_value(member); },
      record_version_of(record));
  object["hash"] = record.hash;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Record> from_json(std::string_view line) {
  const auto invalid = [](std::string_view what) {
    return fail(ErrorCode::Invalid,
                fmt::format("[record] {}; a line written by `tilewright db export` was expected; "
                            "export it again",
                            what));
  };
  if (line.size() > max_line_bytes) return invalid("the line is longer than 1 MiB");
  try {
    return record_from(parse_object(line, depth_of_record));
  } catch (const std::exception& error) {
    return invalid(error.what());
  }
}

}  // namespace tw::db

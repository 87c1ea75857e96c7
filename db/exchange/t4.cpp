// SPDX-License-Identifier: Apache-2.0
#include "db/exchange/t4.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "db/exchange/json_fields.h"

namespace tw::db {
namespace {

using Json = nlohmann::ordered_json;
using Event = Json::parse_event_t;

constexpr const char* line_name = "record_line";

double in_ms(double ns) { return ns * 1e-6; }

Json measurement(const char* name, const Json& value, const char* unit) {
  return {{"name", name}, {"value", value}, {"unit", unit}};
}

Json measurements(const Record& r) {
  Json list = {measurement("time", in_ms(r.latency_ns), "ms"),
               measurement("time_low", in_ms(r.latency_low_ns), "ms"),
               measurement("time_high", in_ms(r.latency_high_ns), "ms"),
               measurement("noise", r.noise, ""),
               measurement("flops", r.flops, "FLOP"),
               measurement("peak", r.peak_gflops, "GFLOP/s"),
               measurement("verified_error", r.verified_error, "")};
  for (const auto& [name, text] :
       {std::pair{"status", std::string(to_string(r.status))}, std::pair{"reason", r.reason},
        std::pair{"device", r.device}, std::pair{"session", r.session}, std::pair{"record", r.hash},
        std::pair{line_name, to_json(r)}})
    list.push_back(measurement(name, text, ""));
  return list;
}

/// Returns the record of a result, from the line that to_t4() puts among the measurements.
Result<Record> record_in(const Json& result) {
  const auto all = result.find("measurements");
  if (all != result.end() && all->is_array())
    for (const Json& one : *all)
      if (one.is_object() && one.value("name", Json()) == line_name && one.contains("value") &&
          one["value"].is_string())
        return from_json(one["value"].get<std::string>());
  return fail(ErrorCode::Invalid,
              fmt::format("[record] a result without a measurement '{}': only what `tilewright db "
                          "export NAME.json` wrote can be taken over",
                          line_name));
}

/// An exception with an error of OnResult. It is thrown because the parser cannot be stopped in
/// another way.
struct Stopped {
  Error why;
};

// Depths of nesting in a document: of the list of results, of a result, and of the deepest value in
// to_t4(), which is the value of a measurement.
constexpr int depth_of_list = 1, depth_of_result = 2, most_depth = 5;

/// Finds the results of a document in the events of the JSON parser.
class ResultReader {
 public:
  explicit ResultReader(const OnResult& on_result) : on_result_(on_result) {}

  /// The callback of the parser. Returns false to make the parser drop the value. A result is
  /// dropped after on_result_ has seen it, because a document may be larger than memory. Values
  /// that are nested deeper than those of to_t4() are dropped, because dump() calls itself for each
  /// level.
  bool take(int depth, Event event, const Json& parsed) {
    if (depth == depth_of_list) {
      if (event == Event::key) is_named_results_ = parsed == "results";
      is_in_list_ = is_named_results_ && event == Event::array_start;
      has_results_ |= is_in_list_;
    }
    const bool is_result =
        is_in_list_ && depth == depth_of_result &&
        (event == Event::object_end || event == Event::array_end || event == Event::value);
    if (!is_result) return depth <= most_depth;
    const Status taken = on_result_(record_in(parsed), parsed.dump(-1, ' ', true));
    if (!taken) throw Stopped{taken.error()};
    return false;
  }
  bool has_results() const { return has_results_; }

 private:
  const OnResult& on_result_;
  /// True while the parser reads the member `results` of the document.
  bool is_named_results_ = false;
  bool is_in_list_ = false;
  bool has_results_ = false;
};

}  // namespace

std::string utc_text(int64_t milliseconds) {
  using namespace std::chrono;
  // The first and last millisecond of the years 1 to 9999, which have four digits. A record that
  // was read from a file may have any time.
  constexpr int64_t first = -62'135'596'800'000, last = 253'402'300'799'999;
  const sys_time<std::chrono::milliseconds> time{
      std::chrono::milliseconds(std::clamp(milliseconds, first, last))};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

std::string_view t4_invalidity(TrialStatus status) {
  switch (status) {
    case TrialStatus::Ok:
    case TrialStatus::Hopeless:
    case TrialStatus::Duplicate:
      return "correct";
    case TrialStatus::Wrong:
    case TrialStatus::Nondeterministic:
    case TrialStatus::MutatesInput:
      return "correctness";
    case TrialStatus::Oob:
    case TrialStatus::Crash:
    case TrialStatus::Resource:
    case TrialStatus::Unstable:
    case TrialStatus::TooFast:
    case TrialStatus::Lost:
      return "runtime";
    case TrialStatus::Timeout:
      return "timeout";
    case TrialStatus::CompileError:
      return "compile";
    case TrialStatus::Illegal:
      return "constraints";
  }
  return "runtime";
}

std::string to_t4(const Record& record) {
  Json samples = Json::array();
  for (const double sample : record.samples_ns) samples.push_back(in_ms(sample));
  const Json result = {{"timestamp", utc_text(record.created_ms)},
                       {"configuration",
                        {{"workload", record.workload},
                         {"layouts", record.layouts},
                         {"target", record.target},
                         {"threads", record.threads},
                         {"schedule", record.schedule},
                         {"point", record.configuration}}},
                       {"objectives", {"time"}},
                       {"times", {{"runtimes", samples}}},
                       {"invalidity", t4_invalidity(record.status)},
                       {"correctness", proves_wrong(record.status) ? 0 : 1},
                       {"measurements", measurements(record)}};
  return result.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status read_t4(std::istream& in, const std::string& name, const OnResult& on_result) try {
  ResultReader reader(on_result);
  const Json rest = Json::parse(
      in, [&](int depth, Event event, Json& parsed) { return reader.take(depth, event, parsed); });
  if (reader.has_results()) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[import] {} holds no records, as it has no list of results: a document "
                          "that `tilewright db export NAME.json` wrote was expected",
                          name));
} catch (const Stopped& stopped) {
  return tl::unexpected(stopped.why);
} catch (const Json::parse_error& wrong) {
  return fail(ErrorCode::Invalid, fmt::format("[import] {} is no JSON: {}", name,
                                              syntax_problem(wrong.byte, in.eof())));
} catch (const Json::exception&) {
  return fail(ErrorCode::Invalid, fmt::format("[import] {} has a number that is too large", name));
}

}  // namespace tw::db

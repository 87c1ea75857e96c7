// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/explanation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "db/exchange/t4.h"
#include "tools/reports/report.h"

namespace tw::tools {

std::string show_likeness(const db::Explanation& e) {
  switch (e.likeness) {
    case db::Likeness::Exact:
      return "exact: measured on this device or one like it";
    case db::Likeness::SameClass:
      return "same class: measured on another device of this model";
    case db::Likeness::OtherClass:
      return "warm start: measured on another model; tune here before the latency is believed";
  }
  return "?";
}

namespace {

/// Returns a clause about a session that found the answer's schedule to be wrong. Empty if there is
/// no such session.
std::string show_contradiction(const db::Explanation& e) {
  if (e.against.empty()) return "";
  return fmt::format(
      "; one session says that it is wrong ({}), which counts once a second one does",
      show_status(e.against.front().record.status));
}

nlohmann::json doubted_json(const db::Doubted& doubted) {
  nlohmann::json json = as_json(doubted.record);
  json["doubt"] = db::to_string(doubted.doubt);
  json["why"] = doubted.why;
  return json;
}

}  // namespace

std::string show_agreement(const db::Explanation& e) {
  const std::string interval = fmt::format("{} to {}", time_text(e.low_ns), time_text(e.high_ns));
  if (e.sessions < 2)
    return fmt::format("one session, {}, {}; no other session has confirmed it{}",
                       counted(e.trials, "trial"), interval, show_contradiction(e));
  return fmt::format("{} of {}, {}: {}{}{}", counted(e.sessions, "session"),
                     counted(e.hosts, "machine"), counted(e.trials, "trial"), interval,
                     e.high_ns > db::session_agreement * e.low_ns ? ", they disagree" : "",
                     show_contradiction(e));
}

nlohmann::json as_json(const db::Explanation& e, size_t count) {
  nlohmann::json answer = as_json(e.record);
  answer["likeness"] = db::to_string(e.likeness);
  answer["layer"] = e.layer;
  answer["host"] = e.record.host;
  answer["created_ms"] = e.record.created_ms;
  answer["created"] = db::utc_text(e.record.created_ms);
  answer["samples"] = e.record.samples_ns.size();
  answer["noise"] = e.record.noise;
  nlohmann::json not_used = nlohmann::json::array(), against = nlohmann::json::array();
  for (size_t i = 0; i < count; ++i) not_used.push_back(doubted_json(e.not_used[i]));
  for (const db::Doubted& doubted : e.against) against.push_back(doubted_json(doubted));
  return {{"answer", answer},
          {"agreement",
           {{"sessions", e.sessions},
            {"hosts", e.hosts},
            {"trials", e.trials},
            {"latency_ns", e.latency_ns},
            {"low_ns", e.low_ns},
            {"high_ns", e.high_ns}}},
          {"against", against},
          {"not_used_records", e.not_used_count},
          {"not_used", not_used}};
}

}  // namespace tw::tools

// SPDX-License-Identifier: Apache-2.0
#include "bench/search/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "tools/reports/report.h"

namespace tw::bench {
namespace {

using Json = nlohmann::json;

// Largest element of share_trials that a table shows.
constexpr int64_t most_shown = 64;

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json moment_json(const std::optional<Moment>& moment) {
  if (!moment) return {};
  return {{"trials", moment->trials}, {"seconds", moment->seconds}};
}

Json trace_json(const SearchRow& row, const Trace& trace) {
  Json json = {{"strategy", trace.strategy}};
  if (!trace.error.empty()) {
    json["error"] = trace.error;
    return json;
  }
  json.update({{"seconds", trace.end.seconds}, {"trials", trace.end.trials}});
  if (!trace.schedule.empty()) json["schedule"] = trace.schedule;
  if (!row.error.empty()) return json;
  json.update({{"final_us", us(trace.final_ns)},
               {"alone", trace.alone},
               {"share", row.best_ns() / trace.final_ns},
               {"to_95", moment_json(trace.reach(row.best_ns() / 0.95))},
               {"to_98", moment_json(trace.reach(row.best_ns() / 0.98))},
               {"to_onednn", moment_json(trace.reach(row.onednn_ns))},
               {"points", Json::array()}});
  for (const Moment& claim : trace.claims) {
    const Moment point = trace.scaled(claim);
    json["points"].push_back({point.seconds, point.trials, us(point.ns)});
  }
  return json;
}

Json row_json(const SearchRow& row) {
  Json json = {{"name", row.name}, {"workload", row.workload}, {"threads", row.threads}};
  if (row.error.empty()) {
    json.update({{"best_us", us(row.best_ns())},
                 {"onednn_us", row.onednn_ns > 0 ? Json(us(row.onednn_ns)) : Json()},
                 {"onednn", row.onednn},
                 {"flops", row.flops},
                 {"peak_gflops", row.peak_gflops},
                 {"peak_share", row.flops / row.best_ns() / row.peak_gflops},
                 {"error_ours", row.agreement.ours},
                 {"error_peer", row.agreement.peer},
                 {"apart", row.agreement.apart}});
    if (row.known_ns > 0) json["known_us"] = us(row.known_ns);
    if (!row.disturbed.empty()) json["disturbed"] = row.disturbed;
  } else {
    json["error"] = row.error;
  }
  for (const Trace& trace : row.traces) json["traces"].push_back(trace_json(row, trace));
  return json;
}

Json reached_json(const Reached& reached) {
  return {{"reached", reached.reached},
          {"trials", optional_json(reached.trials)},
          {"seconds", optional_json(reached.seconds)}};
}

Json summary_json(const SearchSummary& summary) {
  Json json = {{"strategy", summary.strategy},
               {"threads", summary.threads},
               {"rows", summary.rows},
               {"failed", summary.failed},
               {"first", optional_json(summary.first)},
               {"winner", optional_json(summary.winner)},
               {"to_95", reached_json(summary.to_95)},
               {"to_98", reached_json(summary.to_98)},
               {"to_onednn", reached_json(summary.to_onednn)}};
  for (size_t i = 0; i < summary.shares.size(); ++i)
    json["shares"][std::to_string(share_trials[i])] = optional_json(summary.shares[i]);
  return json;
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}", 100 * *share) : "-";
}

std::string number(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string by_strategy(const SearchRow& row) {
  std::string text;
  for (const Trace& trace : row.traces) {
    const std::string figure = !trace.error.empty()
                                   ? trace.error
                                   : fmt::format("{:.1f}", 100 * row.best_ns() / trace.final_ns);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", trace.strategy, figure);
  }
  return text;
}

tools::Table rows_table(const std::vector<SearchRow>& rows) {
  tools::Table table;
  table.header = {"workload",  "threads", "best µs",
                  "oneDNN µs", "% peak",  "winners, % of the best known"};
  for (const SearchRow& row : rows) {
    if (!row.error.empty()) {
      table.rows.push_back({row.name, std::to_string(row.threads), "-", "-", "-", row.error});
      continue;
    }
    table.rows.push_back(
        {row.name, std::to_string(row.threads), fmt::format("{:.1f}", us(row.best_ns())),
         fmt::format("{}{}", row.onednn_ns > 0 ? fmt::format("{:.1f}", us(row.onednn_ns)) : "-",
                     row.disturbed.empty() ? "" : "*"),
         fmt::format("{:.0f}", 100 * row.flops / row.best_ns() / row.peak_gflops),
         by_strategy(row)});
  }
  return table;
}

tools::Table summary_table(const std::vector<SearchSummary>& summaries) {
  tools::Table table;
  table.header = {"strategy", "threads", "rows", "first"};
  for (const int64_t trials : share_trials)
    if (trials <= most_shown) table.header.push_back(std::to_string(trials));
  for (const char* name : {"winner", "95 % after", "s", "98 % after", "s", "oneDNN after s"})
    table.header.emplace_back(name);
  for (const SearchSummary& s : summaries) {
    std::vector<std::string> cells = {s.strategy, std::to_string(s.threads), std::to_string(s.rows),
                                      percent(s.first)};
    for (size_t i = 0; i < s.shares.size(); ++i)
      if (share_trials[i] <= most_shown) cells.push_back(percent(s.shares[i]));
    cells.push_back(percent(s.winner));
    for (const Reached* reached : {&s.to_95, &s.to_98}) {
      cells.push_back(number(reached->trials, 0));
      cells.push_back(number(reached->seconds, 1));
    }
    cells.push_back(number(s.to_onednn.seconds, 1));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

Json as_json(const std::vector<SearchRow>& rows) {
  Json json = {{"rows", Json::array()}, {"summary", Json::array()}};
  for (const SearchRow& row : rows) json["rows"].push_back(row_json(row));
  for (const SearchSummary& summary : summarize(rows))
    json["summary"].push_back(summary_json(summary));
  return json;
}

std::string as_table(const std::vector<SearchRow>& rows, bool color) {
  std::string text = tools::as_text(rows_table(rows), color);
  text +=
      "\nshares of the best known in %, geometric means: of the first valid candidate, after "
      "1, 2, ... trials, of the winner;\nmedian trials and seconds to 95 % and 98 % of the best "
      "known, and to oneDNN's speed\n\n";
  text += tools::as_text(summary_table(summarize(rows)), color);
  for (const SearchRow& row : rows)
    if (!row.disturbed.empty()) text += disturbed_line(row.name, row.disturbed);
  return text;
}

Json as_json(const Replays& replays) {
  Json json = {{"trials", replayed_trials}, {"seeds", replays.seeds}, {"guides", Json::object()}};
  for (size_t g = 0; g < replays.guides.size(); ++g) {
    Json guide = Json::object();
    for (const int64_t trials : share_trials) {
      if (trials > replayed_trials) break;
      const auto count = static_cast<size_t>(trials);
      guide["shares"][std::to_string(trials)] = replays.replayed[g].share(count);
      for (size_t i = 0; i < replays.recordings.size(); ++i) {
        const std::vector<double>& shares = replays.replayed[g].shares[i];
        guide["workloads"][replays.recordings[i].workload][std::to_string(trials)] =
            shares[std::min(count, shares.size()) - 1];
      }
    }
    json["guides"][std::string(to_string(replays.guides[g]))] = std::move(guide);
  }
  return json;
}

std::string as_table(const Replays& replays, bool color) {
  tools::Table table;
  table.header = {"guide"};
  for (const int64_t trials : share_trials)
    if (trials <= replayed_trials) table.header.push_back(std::to_string(trials));
  for (size_t g = 0; g < replays.guides.size(); ++g) {
    std::vector<std::string> cells = {std::string(to_string(replays.guides[g]))};
    for (const int64_t trials : share_trials)
      if (trials <= replayed_trials)
        cells.push_back(
            fmt::format("{:.2f}", 100 * replays.replayed[g].share(static_cast<size_t>(trials))));
    table.rows.push_back(std::move(cells));
  }
  return tools::as_text(table, color) +
         fmt::format(
             "share of the best recorded in % after so many trials: geometric means over "
             "{} workloads and {} seeds\n",
             replays.recordings.size(), replays.seeds.size());
}

}  // namespace tw::bench

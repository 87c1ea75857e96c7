// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/time_text.h"
#include "db/answers.h"
#include "db/overview.h"
#include "tools/reports/explanation.h"
#include "tools/reports/report.h"
#include "tools/web/history_chart.h"
#include "tools/web/listing.h"
#include "tools/web/pages.h"

namespace tw::tools::web {
namespace {

// Number of groups on a page. It is small because the answer of a group is explained from all
// trials of the group.
constexpr int64_t groups_a_page = 20;
constexpr int64_t most_groups_shown = 5'000;
constexpr size_t most_history = 20'000;
constexpr size_t most_leads = 50;

/// A group of records with the explanation of its answer. The explanation is nullopt if no record
/// of the group is believed.
struct Known {
  const db::GroupSummary* group;
  std::optional<db::Explanation> explanation;
};

Result<std::optional<db::Explanation>> explained(db::Store& store, const std::string& hash) {
  TW_TRY(const std::optional<db::Record> best, store.find(hash));
  if (!best) return std::optional<db::Explanation>();
  return db::explain(store,
                     {.workload = best->workload,
                      .target = best->target,
                      .device = best->device,
                      .threads = best->threads,
                      .codegen_abi = best->codegen_abi,
                      .layouts = best->layouts},
                     1);
}

/// Returns the groups on page `page` (the first page is 1). The groups of all pages are sorted:
/// groups with an answer come first, sorted by the efficiency of the answer, the highest first.
Result<std::vector<Known>> known_of(db::Store& store, const Workload& row, int64_t page) {
  std::vector<const db::GroupSummary*> groups;
  for (const db::GroupSummary& group : row.groups) groups.push_back(&group);
  std::ranges::stable_sort(groups, [](const db::GroupSummary* a, const db::GroupSummary* b) {
    return std::pair(!a->best.empty(), a->efficiency) > std::pair(!b->best.empty(), b->efficiency);
  });
  std::vector<Known> known;
  const int64_t last = std::min(page * groups_a_page, std::ssize(groups));
  for (int64_t i = (page - 1) * groups_a_page; i < last; ++i) {
    const db::GroupSummary* const group = groups[static_cast<size_t>(i)];
    known.push_back({group, {}});
    if (group->best.empty()) continue;
    TW_TRY(known.back().explanation, explained(store, group->best));
  }
  return known;
}

Html sureness(const db::Explanation& e) {
  const char* const kind = e.sessions >= 3 ? "sure" : e.sessions == 2 ? "fair" : "weak";
  Html text = html("<span class=\"{}\">{}</span>", kind, show_agreement(e));
  if (e.not_used_count > 0)
    text += html("<br><a href=\"/records/{}#why\">{} with a smaller latency {} not used</a>",
                 e.record.hash, counted(e.not_used_count, "record"),
                 e.not_used_count == 1 ? "is" : "are");
  return text;
}

/// Returns the beginning of a text. The browser shows the whole text while the mouse points at it.
Html shortened(const std::string& text) {
  return html("<span title=\"{}\">{}</span>", one_line(text), one_line(text, 40));
}

Html known_row(const Known& known, const TimeUnit& unit) {
  const db::GroupSummary& group = *known.group;
  const Html place = html("<td>{}</td><td>{}<br><small>{}, code generator {}</small></td>",
                          device_text(group.device), shortened(group.target),
                          counted(group.threads, "thread"), group.codegen_abi);
  if (!known.explanation)
    return html("<tr>{}<td class=\"number\" colspan=\"2\">none is believed</td><td>{}</td></tr>",
                place, counted(group.trials, "trial"));
  const db::Explanation& e = *known.explanation;
  return html(
      "<tr>{}<td class=\"number\"><a href=\"/records/{}\">{}</a></td><td class=\"number\">{}</td>"
      "<td>{}</td></tr>",
      place, e.record.hash, unit.text(e.latency_ns), share_text(group.efficiency), sureness(e));
}

nlohmann::json json_of(const Known& known) {
  nlohmann::json json = {
      {"device", known.group->device},   {"target", known.group->target},
      {"threads", known.group->threads}, {"codegen_abi", known.group->codegen_abi},
      {"trials", known.group->trials},   {"efficiency", known.group->efficiency}};
  if (known.explanation)
    json.update(as_json(*known.explanation, known.explanation->not_used.size()));
  return json;
}

Html leads_table(const std::vector<Series>& series) {
  Html rows;
  size_t count = 0;
  std::vector<double> times;
  for (const Series& s : series)
    for (const size_t lead : s.leads) times.push_back(s.trials[lead].counted_ns);
  const TimeUnit unit(times);
  for (const Series& s : series)
    for (const size_t lead : s.leads) {
      if (++count > most_leads) break;
      const db::TrialSummary& trial = s.trials[lead];
      rows += html(
          "<tr><td class=\"when\">{}</td><td class=\"number\"><a href=\"/records/{}\">{}</a></td>"
          "<td>{}</td><td>{}</td></tr>",
          moment(trial.created_ms), trial.hash, unit.text(trial.counted_ns), one_line(s.name, 80),
          one_line(trial.session, 40));
    }
  return html(
      "<details><summary>The best so far, step by step</summary><table><thead><tr><th>When "
      "(UTC)</th><th>Latency</th><th>Device</th><th>Session</th></tr></thead><tbody>{}</tbody>"
      "</table></details>",
      rows);
}

Html history(const std::vector<Series>& series, size_t trials) {
  if (series.empty()) return html("<p>No trial is timed.</p>");
  const Html cut = trials >= most_history
                       ? html("<p>Only the {} trials that were stored last.</p>", trials)
                       : Html{};
  return html("{}{}{}", history_chart(series), cut, leads_table(series));
}

nlohmann::json json_of(const db::TrialSummary& trial) {
  return {{"record", trial.hash},
          {"status", trial.status ? db::to_string(*trial.status) : "unknown"},
          {"doubt", db::to_string(trial.doubt)},
          {"latency_ns", trial.latency_ns},
          {"counted_ns", trial.counted_ns},
          {"created_ms", trial.created_ms},
          {"device", trial.device},
          {"target", trial.target},
          {"threads", trial.threads},
          {"session", trial.session}};
}

Html group_pager(const Workload& row, int64_t page) {
  const int64_t pages = (std::ssize(row.groups) + groups_a_page - 1) / groups_a_page;
  if (pages < 2) return {};
  Html links = html("<span>page {} of {}</span>", page, pages);
  const auto at = [&](int64_t number) {
    return address_of("/workloads/" + row.hash,
                      {{"layouts", row.layouts}, {"page", std::to_string(number)}});
  };
  if (page > 1) links += link(at(page - 1), "← before");
  if (page < pages) links += link(at(page + 1), "after →");
  return html("<nav class=\"pager\">{}</nav>", links);
}

}  // namespace

Result<Answer> workload_page(db::Store& store, const std::string& hash, const Request& request) {
  TW_TRY(std::vector<db::GroupSummary> groups,
         db::workload_groups(store, hash, request.parameter("layouts"), most_groups_shown));
  if (groups.empty())
    return fail(ErrorCode::NoCandidate, "[workload] the database has no trial of such a workload");
  const Workload row = make_workload(std::move(groups));
  TW_TRY(const int64_t page, number_of(request, "page", 1, std::ssize(row.groups)));
  TW_TRY(const std::vector<Known> known, known_of(store, row, page));
  TW_TRY(const std::vector<db::TrialSummary> trials,
         db::trials(store, row.hash, row.layouts, most_history));
  Html rows;
  nlohmann::json best = nlohmann::json::array(), points = nlohmann::json::array();
  std::vector<double> times;
  for (const Known& group : known)
    if (group.explanation) times.push_back(group.explanation->latency_ns);
  const TimeUnit unit(times);
  for (const Known& group : known) {
    rows += known_row(group, unit);
    best.push_back(json_of(group));
  }
  for (const db::TrialSummary& trial : trials) points.push_back(json_of(trial));
  Answer answer;
  answer.title = one_line(row.name, 400);
  answer.body = html(
      "<h2>Best by device</h2><div class=\"wide\"><table><thead><tr><th>Device</th><th>Target</th>"
      "<th>Latency</th><th>Of the peak</th><th>How sure</th></tr></thead><tbody>{}</tbody></table>"
      "</div>{}{}<h2>History</h2>{}",
      rows, group_pager(row, page), note_beyond_peak(row.efficiency),
      history(series_of(trials), trials.size()));
  answer.json = text_of({{"workload", row.name},
                         {"hash", row.hash},
                         {"layouts", row.layouts},
                         {"op", row.op},
                         {"best", best},
                         {"history", points}});
  return answer;
}

}  // namespace tw::tools::web

// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/time_text.h"
#include "tools/reports/report.h"
#include "tools/web/history_chart.h"
#include "tools/web/listing.h"
#include "tools/web/pages.h"

namespace tw::tools::web {
namespace {

constexpr size_t most_name_characters = 160;
constexpr size_t most_class_columns = 12;

Html workload_link(const Workload& row) {
  return link(workload_address(row), one_line(row.name, most_name_characters));
}

/// Returns a number with its noun: "<b>1</b> class" or "<b>2</b> classes". Without `many`, the
/// plural is `one` with an "s".
Html bold_count(int64_t count, std::string_view one, std::string_view many = {}) {
  const std::string plural = many.empty() ? std::string(one) + "s" : std::string(many);
  return html("<b>{}</b> {}", count, count == 1 ? one : std::string_view(plural));
}

Html summary(const Overview& overview) {
  const bool has_layouts = overview.keys < std::ssize(overview.workloads);
  return html(
      "<p class=\"summary\">{}{}, {}, {} of devices{}</p>", bold_count(overview.keys, "workload"),
      has_layouts
          ? html(" in {} with their layouts", bold_count(std::ssize(overview.workloads), "row"))
          : Html{},
      bold_count(overview.trials, "trial"),
      bold_count(std::ssize(overview.classes), "class", "classes"),
      overview.is_cut ? "; of the database, the groups that were stored last" : "");
}

/// Returns the device and the number of threads of the fastest answer; empty if the workload has
/// fewer than two groups or no answer. The whole text of the device is shown, because devices of
/// one model differ only in the rest of the text, such as the number of cores.
Html fastest_place(const Workload& row) {
  if (row.groups.size() < 2 || row.latency_ns <= 0) return {};
  const db::GroupSummary& group = row.groups[row.fastest];
  return html("<small class=\"place\">{}, {}</small>", one_line(group.device, 100),
              counted(group.threads, "thread"));
}

Html workload_row(const Workload& row, const TimeUnit& unit) {
  const std::string more =
      row.classes.size() > 1 ? fmt::format(" and {} more", row.classes.size() - 1) : "";
  return html(
      "<tr><td class=\"name\">{}</td><td class=\"number\">{}{}</td><td class=\"number\">{}</td>"
      "<td>{}{}</td><td class=\"number\">{}</td><td class=\"when\">{}</td></tr>",
      workload_link(row), unit.text(row.latency_ns), fastest_place(row), share_text(row.efficiency),
      one_line(row.classes.front(), 40), more, row.trials, moment(row.newest_ms));
}

/// Returns the row as JSON. If there is an answer, the JSON has the device and the threads of the
/// fastest answer.
nlohmann::json json_of(const Workload& row) {
  nlohmann::json json = {{"workload", row.name},          {"hash", row.hash},
                         {"layouts", row.layouts},        {"op", row.op},
                         {"device_classes", row.classes}, {"trials", row.trials},
                         {"latency_ns", row.latency_ns},  {"efficiency", row.efficiency},
                         {"newest_ms", row.newest_ms}};
  if (row.latency_ns <= 0) return json;
  json["device"] = row.groups[row.fastest].device;
  json["threads"] = row.groups[row.fastest].threads;
  return json;
}

nlohmann::json json_of(const Listing& listing) {
  return {{"matches", listing.matches}, {"page", listing.page},
          {"pages", listing.pages()},   {"size", listing.size},
          {"sort", listing.sort},       {"ascending", listing.is_ascending}};
}

const db::GroupSummary* best_on(const Workload& row, const std::string& model) {
  const db::GroupSummary* best = nullptr;
  for (const db::GroupSummary& group : row.groups) {
    if (db::model_of(group.device) != model) continue;
    if (!best || group.efficiency > best->efficiency ||
        (group.efficiency == best->efficiency && !group.best.empty() && best->best.empty()))
      best = &group;
  }
  return best;
}

/// Returns the cell for the best group of a workload on a class of devices; null: no group. The
/// shade of the cell shows the share of the peak in steps of a tenth.
Html coverage_cell(const db::GroupSummary* best) {
  if (!best) return html("<td class=\"none\">·</td>");
  if (best->best.empty())
    return html("<td class=\"tried\" title=\"{}, none believed\">tried</td>",
                counted(best->trials, "trial"));
  const int shade = std::clamp(static_cast<int>(10 * best->efficiency), 0, 9);
  const std::string text =
      best->efficiency > 0 ? share_text(best->efficiency) : time_text(best->latency_ns);
  return html("<td class=\"c{}\"><a href=\"/records/{}\" title=\"{}, {}\">{}</a></td>", shade,
              best->best, time_text(best->latency_ns), counted(best->trials, "trial"), text);
}

nlohmann::json json_of(const db::GroupSummary& best) {
  return {{"record", best.best},
          {"latency_ns", best.latency_ns},
          {"efficiency", best.efficiency},
          {"trials", best.trials},
          {"device", best.device}};
}

std::vector<std::string> shown_classes(const Listing& listing) {
  if (!listing.device.empty()) return {listing.device};
  std::vector<std::string> classes = listing.overview->classes;
  if (classes.size() > most_class_columns) classes.resize(most_class_columns);
  return classes;
}

}  // namespace

Result<Answer> workloads_page(OverviewCache& cache, const Request& request) {
  TW_TRY(const Listing listing, listing_of(cache, request, "/workloads"));
  const Overview& overview = *listing.overview;
  Html rows;
  nlohmann::json list = nlohmann::json::array();
  double most_efficient = 0;
  std::vector<double> times;
  for (const auto& row : listing.rows) times.push_back(row->latency_ns);
  const TimeUnit unit(times);
  for (const auto& row : listing.rows) {
    rows += workload_row(*row, unit);
    list.push_back(json_of(*row));
    most_efficient = std::max(most_efficient, row->efficiency);
  }
  const Html head =
      html("<tr>{}{}{}{}{}{}</tr>", sort_heading(listing, "name", "Workload"),
           sort_heading(listing, "latency", "Best"), sort_heading(listing, "peak", "Of the peak"),
           sort_heading(listing, "devices", "Devices"), sort_heading(listing, "trials", "Trials"),
           sort_heading(listing, "newest", "Last trial"));
  Answer answer;
  answer.title = "Workloads";
  answer.body = html(
      "{}{}<div class=\"wide\"><table><thead>{}</thead><tbody>{}</tbody></table>"
      "</div>{}{}",
      summary(overview), filter_form(listing), head, rows, pager(listing),
      note_beyond_peak(most_efficient));
  answer.json = text_of({{"list", json_of(listing)},
                         {"trials", overview.trials},
                         {"operators", overview.operators},
                         {"device_classes", overview.classes},
                         {"workloads", list}});
  return answer;
}

Result<Answer> coverage_page(OverviewCache& cache, const Request& request) {
  TW_TRY(const Listing listing, listing_of(cache, request, "/coverage"));
  const Overview& overview = *listing.overview;
  const std::vector<std::string> classes = shown_classes(listing);
  Html head = sort_heading(listing, "name", "Workload");
  for (const std::string& model : classes)
    head += html("<th scope=\"col\">{}</th>", one_line(model, 40));
  Html rows;
  nlohmann::json list = nlohmann::json::array();
  double most_efficient = 0;
  for (const auto& row : listing.rows) {
    Html cells;
    nlohmann::json measured = nlohmann::json::object();
    for (const std::string& model : classes) {
      const db::GroupSummary* const best = best_on(*row, model);
      cells += coverage_cell(best);
      if (!best) continue;
      measured[model] = json_of(*best);
      most_efficient = std::max(most_efficient, best->efficiency);
    }
    rows += html("<tr><td class=\"name\">{}</td>{}</tr>", workload_link(*row), cells);
    list.push_back({{"workload", row->name}, {"hash", row->hash}, {"measured", measured}});
  }
  const size_t hidden = listing.device.empty() ? overview.classes.size() - classes.size() : 0;
  Answer answer;
  answer.title = "Coverage";
  answer.body = html(
      "<p class=\"summary\">Which workloads were measured on which class of devices, and what "
      "share "
      "of the peak their best kernel reaches there{}.</p>{}<div class=\"wide\"><table "
      "class=\"coverage\"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>{}{}",
      hidden > 0 ? fmt::format("; {} with fewer workloads {} not shown: choose one",
                               hidden == 1 ? "a class" : fmt::format("{} classes", hidden),
                               hidden == 1 ? "is" : "are")
                 : "",
      filter_form(listing), head, rows, pager(listing), note_beyond_peak(most_efficient));
  answer.json = text_of(
      {{"list", json_of(listing)}, {"device_classes", overview.classes}, {"workloads", list}});
  return answer;
}

}  // namespace tw::tools::web

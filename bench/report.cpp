// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tools/reports/report.h"
#include "tuner/workers/device.h"

namespace tw::bench {
namespace {

using Json = nlohmann::json;

Json row_json(const Row& row) {
  Json json = {{"name", row.name},
               {"workload", row.workload},
               {"count", row.count},
               {"threads", row.threads}};
  if (!row.schedule.empty()) json["schedule"] = row.schedule;
  if (!row.error.empty()) {
    json["error"] = row.error;
    return json;
  }
  const Versus& v = row.versus;
  json.update({{"ours_us", us(v.a_ns.value)},
               {"ours_low_us", us(v.a_ns.low)},
               {"ours_high_us", us(v.a_ns.high)},
               {"ours_least_us", us(v.a_least_ns)},
               {"peer_us", us(v.b_ns.value)},
               {"peer_low_us", us(v.b_ns.low)},
               {"peer_high_us", us(v.b_ns.high)},
               {"peer_least_us", us(v.b_least_ns)},
               {"ratio", v.ratio.value},
               {"ratio_low", v.ratio.low},
               {"ratio_high", v.ratio.high},
               {"rounds", v.rounds},
               {"flops", row.flops},
               {"gflops", row.gflops()},
               {"peer_gflops", row.flops / v.b_ns.value},
               {"peak_gflops", row.peak_gflops},
               {"peak_share", row.peak_share()},
               {"memory", tools::memory_json(row.roofline)},
               {"layouts", row.layouts},
               {"peer", row.peer},
               {"error_ours", row.agreement.ours},
               {"error_peer", row.agreement.peer},
               {"apart", row.agreement.apart}});
  if (row.peer_call_ns > 0) json["peer_call_us"] = us(row.peer_call_ns);
  if (!row.wrong_forms.empty()) json["peer_forms_wrong"] = row.wrong_forms;
  for (const auto& [form, ns] : row.forms) json["peer_forms_us"][form] = us(ns);
  if (!row.disturbed.empty()) json["disturbed"] = row.disturbed;
  return json;
}

/// Returns "<" if the row's kernel is bound by memory, else an empty text.
std::string_view memory_mark(const Row& row) { return row.roofline.is_memory_bound() ? "<" : ""; }

std::vector<std::string> row_cells(const Row& row) {
  const Versus& v = row.versus;
  if (!row.error.empty())
    return {row.name, std::to_string(row.threads), "-", "-", "-", "-", "-", "-", "-", "-",
            row.error};
  return {row.name,
          std::to_string(row.threads),
          fmt::format("{:.1f}", us(v.a_ns.value)),
          fmt::format("{:.1f}", us(v.b_ns.value)),
          fmt::format("{:.3f}{}", v.ratio.value, row.disturbed.empty() ? "" : "*"),
          fmt::format("{:.3f}-{:.3f}", v.ratio.low, v.ratio.high),
          fmt::format("{:.1f}", row.gflops()),
          fmt::format("{:.0f}", 100 * row.peak_share()),
          fmt::format("{:.1f}", row.roofline.gb_per_s()),
          row.roofline.level_gb_per_s > 0
              ? fmt::format("{:.0f}{}", 100 * row.roofline.level_share(), memory_mark(row))
              : "-",
          row.peer};
}

std::string summary_line(int threads, const Summary& s) {
  std::string line = counted(threads, "thread") + ": ";
  if (s.rows == 0) return line + fmt::format("nothing timed, {} failed\n", s.failed);
  line += fmt::format("geometric mean {:.3f} of {} rows", s.geomean, s.rows);
  if (s.failed > 0) line += fmt::format(" ({} more failed)", s.failed);
  if (s.high > 0 && s.high < s.rows)
    line +=
        fmt::format(", {:.3f} without the {} above {}", s.geomean_without_high, s.high, high_ratio);
  return line + fmt::format("; sum ours {:.0f} µs, peer {:.0f} µs\n", us(s.ours_ns), us(s.peer_ns));
}

/// Returns the geometric mean of `count` numbers from the sum of their logarithms; 0 if `count` is
/// 0.
double mean_of_logs(double sum, int64_t count) {
  return count > 0 ? std::exp(sum / static_cast<double>(count)) : 0;
}

/// Returns the line about the peak of a GPU, which is the same for all rows of one type.
std::string peak_line(const Target& gpu, const std::vector<Row>& rows) {
  double peak = 0;
  for (const Row& row : rows) peak = std::max(peak, row.peak_gflops);
  if (peak == 0) return "";
  return fmt::format(
      "{}: {:.0f} GFLOP/s of multiply-adds: the measured peak of f32, scaled to tensor cores where "
      "they multiply the type\n",
      gpu.cpu, peak);
}

}  // namespace

std::map<int, Summary> summarize(const std::vector<Row>& rows) {
  std::map<int, Summary> summaries;
  for (const Row& row : rows) {
    Summary& s = summaries[row.threads];
    if (!row.error.empty()) {
      ++s.failed;
      continue;
    }
    ++s.rows;
    const double ratio = row.versus.ratio.value;
    s.geomean += std::log(ratio);
    if (ratio > high_ratio)
      ++s.high;
    else
      s.geomean_without_high += std::log(ratio);
    s.ours_ns += row.versus.a_ns.value * static_cast<double>(row.count);
    s.peer_ns += row.versus.b_ns.value * static_cast<double>(row.count);
  }
  for (auto& [threads, s] : summaries) {
    s.geomean = mean_of_logs(s.geomean, s.rows);
    s.geomean_without_high = mean_of_logs(s.geomean_without_high, s.rows - s.high);
  }
  return summaries;
}

std::string disturbed_line(const std::string& row, const std::string& what) {
  return fmt::format("* {}: {}; take it again on a quiet machine\n", row, what);
}

Json machine_json(const Target& target) {
  return {{"cpu", target.cpu},
          {"target", target.to_string()},
          {"device", tuner::device_text(target)},
          {"cores", target.machine.cores},
          {"features", target.features},
          {"l1_bytes", target.machine.l1_bytes()},
          {"l2_bytes", target.machine.l2_bytes()},
          {"l3_bytes", target.machine.l3_bytes()}};
}

Json as_json(const Heading& heading, const std::vector<Row>& rows) {
  const bool searched = std::ranges::any_of(rows, &Row::searched);
  Json json = {{"schema_version", results_schema_version},
               {"suite", heading.suite},
               {"date", heading.date},
               {"program_version", heading.program_version},
               {"machine", machine_json(heading.target)},
               {"peer", {{"name", heading.peer}, {"version", heading.peer_version}}},
               {"options",
                {{"rounds", heading.rounds},
                 {"budget_s", searched ? heading.budget_s : 0},
                 {"cache", to_string(heading.cache)},
                 {"interface", heading.interface}}},
               {"rows", Json::array()},
               {"summary", Json::object()}};
  if (heading.target.is_gpu()) json["options"]["graphs"] = heading.graphs;
  for (const Row& row : rows) json["rows"].push_back(row_json(row));
  for (const auto& [threads, s] : summarize(rows))
    json["summary"][std::to_string(threads)] = {{"geomean", s.geomean},
                                                {"geomean_without_high", s.geomean_without_high},
                                                {"high", s.high},
                                                {"rows", s.rows},
                                                {"failed", s.failed},
                                                {"ours_sum_us", us(s.ours_ns)},
                                                {"peer_sum_us", us(s.peer_ns)}};
  return json;
}

std::string as_table(const Heading& heading, const std::vector<Row>& rows, bool color) {
  tools::Table table;
  table.header = {heading.suite,
                  "threads",
                  "ours µs",
                  "peer µs",
                  "ratio",
                  "interval",
                  "GF/s",
                  "% peak",
                  "GB/s",
                  "% level",
                  heading.peer + " " + heading.peer_version};
  std::string disturbed;
  for (const Row& row : rows) {
    table.rows.push_back(row_cells(row));
    if (!row.disturbed.empty()) disturbed += disturbed_line(row.name, row.disturbed);
  }
  std::string text = tools::as_text(table, color);
  for (const auto& [threads, s] : summarize(rows)) text += summary_line(threads, s);
  if (heading.target.is_gpu()) text += peak_line(heading.target, rows);
  return text + disturbed;
}

}  // namespace tw::bench

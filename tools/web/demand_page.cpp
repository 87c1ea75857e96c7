// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text.h"
#include "base/time_text.h"
#include "db/demand.h"
#include "db/workload_text.h"
#include "tools/reports/demand.h"
#include "tools/reports/report.h"
#include "tools/web/history_chart.h"
#include "tools/web/listing.h"
#include "tools/web/pages.h"
#include "tuner/demand.h"

namespace tw::tools::web {
namespace {

constexpr int64_t most_demands = 200;
constexpr size_t most_wanted_kernels = 200;
constexpr size_t most_demand_characters = 160;

/// A demand, with the times of a call that follow from the trials in the database.
struct Wanted {
  db::Demand demand;
  tuner::DemandTimes times;
  double expected_saving = 0;
};

Wanted wanted_of(db::Demand demand) {
  Wanted wanted{std::move(demand), {}, 0};
  wanted.times = tuner::times_of(wanted.demand);
  wanted.expected_saving = tuner::expected_saving(wanted.demand);
  return wanted;
}

/// Returns the speed-up of a call since the demand was stored last: the time with the kernels used
/// then, divided by the time with the best kernels known now. 0 if the speed-up is unknown, because
/// no kernel has measurements of both times.
double speed_up(const tuner::DemandTimes& times) {
  return times.measured_share > 0 && times.best_ns > 0 ? times.used_ns / times.best_ns : 0;
}

std::string gain_text(const tuner::DemandTimes& times) {
  return times.used_ns > 0 ? show_share(1 - times.best_ns / times.used_ns) : "";
}

std::string asked_text(int64_t asked) {
  return asked == 1 ? "once" : fmt::format("{} times", asked);
}

/// Returns the speed-up of a call since the demand was stored first: the time that was expected
/// then, divided by the time with the best kernels known now. 0 if the expected time is unknown or
/// no kernel is measured. A network's demand is stored again whenever the network is planned.
/// speed_up() has the gain since the last time, this function the gain since the first time.
double speed_up_since_first(const Wanted& wanted) {
  const bool is_known = wanted.demand.first_ns > 0 && count_measured(wanted.demand) > 0;
  return is_known && wanted.times.best_ns > 0 ? wanted.demand.first_ns / wanted.times.best_ns : 0;
}

/// The geometric mean, minimum and maximum of several speed-ups. Speed-ups of 0, which means
/// unknown, are left out.
struct Factors {
  int64_t count = 0;
  double mean = 1;  ///< geometric mean
  double least = 0, most = 0;
};

Factors factors_of(const std::vector<double>& values) {
  Factors factors;
  double logarithms = 0;
  for (const double value : values) {
    if (value <= 0) continue;
    factors.least = factors.count == 0 ? value : std::min(factors.least, value);
    factors.most = std::max(factors.most, value);
    logarithms += std::log(value);
    ++factors.count;
  }
  if (factors.count > 0) factors.mean = std::exp(logarithms / static_cast<double>(factors.count));
  return factors;
}

/// The speed-ups of all demands of a list, by speed_up() (`since_last`) and by
/// speed_up_since_first().
struct TeamGain {
  Factors since_last, since_first;
};

TeamGain team_gain(const std::vector<Wanted>& list) {
  std::vector<double> last, first;
  for (const Wanted& wanted : list) {
    last.push_back(speed_up(wanted.times));
    first.push_back(speed_up_since_first(wanted));
  }
  return {factors_of(last), factors_of(first)};
}

Html how_to_leave() {
  return html(
      "<p>No network or operator has left the kernels that it uses. <code>tilewright tune --model "
      "FILE --effort none</code> with this database plans a network and leaves them; a run of "
      "<code>tune</code> that its budget cuts short does, too.</p>");
}

/// Returns a text about several speed-ups, such as "<b>1.42 times</b> as fast as SINCE (geometric
/// mean of 12; 1.00 to 3.10)". SINCE is the text `since`.
Html factors_text(const Factors& factors, std::string_view since) {
  const std::string range = factors.count == 1
                                ? "of one of them"
                                : fmt::format("geometric mean of {}; {:.2f} to {:.2f}",
                                              factors.count, factors.least, factors.most);
  return html("<b>{} times</b> as fast as {} ({})", fmt::format("{:.2f}", factors.mean), since,
              range);
}

Html team_gain_text(const TeamGain& gain) {
  if (gain.since_first.count == 0 && gain.since_last.count == 0)
    return html(
        "<p class=\"summary\">No kernel of them is measured yet. <code>tilewright tune "
        "--demand</code> measures what is wanted of the machine that it runs on.</p>");
  Html sentences;
  if (gain.since_first.count > 0)
    sentences += html("With the best kernels that are known now, calls are {}. ",
                      factors_text(gain.since_first,
                                   "was expected when their demand was left for the first time"));
  if (gain.since_last.count > 0)
    sentences += html(
        "They are {}.",
        factors_text(gain.since_last, "with the kernels that were used when it was left last"));
  return html("<p class=\"summary\">{}</p>", sentences);
}

Html demand_row(const Wanted& wanted, const TimeUnit& unit) {
  const db::Demand& demand = wanted.demand;
  return html(
      "<tr><td class=\"name\">{}</td><td>{}<br><small>{}</small></td><td class=\"number\">{} of "
      "{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
      "<td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"when\">{}</td><td "
      "class=\"when\">{}<br><small>{}"
      "</small></td></tr>",
      link("/demand/" + demand.hash, one_line(demand.name, most_demand_characters)),
      one_line(std::string(db::model_of(demand.device)), 60), counted(demand.threads, "thread"),
      count_measured(demand), demand.kernels.size(), unit.text(demand.first_ns),
      unit.text(wanted.times.used_ns), unit.text(wanted.times.best_ns), gain_text(wanted.times),
      show_share(wanted.expected_saving), moment(demand.first_ms), moment(demand.asked_ms),
      asked_text(demand.asked));
}

Html demands_table(const std::vector<Wanted>& list) {
  std::vector<double> times;
  for (const Wanted& wanted : list)
    for (const double ns : {wanted.demand.first_ns, wanted.times.used_ns, wanted.times.best_ns})
      if (ns > 0) times.push_back(ns);
  const TimeUnit unit(times);
  Html rows;
  for (const Wanted& wanted : list) rows += demand_row(wanted, unit);
  return html(
      "<div class=\"wide\"><table><thead><tr><th>Network or operator</th><th>Device</th>"
      "<th>Measured</th><th>At first</th><th>Used</th><th>Best now</th><th>Gained</th>"
      "<th>Expected</th><th>First left (UTC)</th><th>Last left</th></tr></thead><tbody>{}</tbody>"
      "</table></div><p class=\"note\"><small>At first: the time that was expected of a call when "
      "the demand was left for the first time. Used: the kernels of one call as they were used "
      "when "
      "it was left last. Best now: the same with the best kernels that the database knows. Gained: "
      "the share by which that is shorter than used. Times of kernels are measured where that was "
      "done, and expected ones otherwise. Expected: the share of a call that another minute of "
      "tuning each kernel is expected to save.</small></p>",
      rows);
}

Html name_form(const std::string& part) {
  return html(
      "<form class=\"filter\" action=\"/demand\"><input type=\"search\" name=\"q\" value=\"{}\" "
      "placeholder=\"part of a name\" aria-label=\"Part of a name\"><button>Filter</button></form>",
      part);
}

nlohmann::json json_of(const Factors& factors) {
  return {{"demands", factors.count},
          {"speed_up", factors.mean},
          {"least_speed_up", factors.least},
          {"most_speed_up", factors.most}};
}

nlohmann::json json_of(const TeamGain& gain) {
  return {{"since_first", json_of(gain.since_first)}, {"since_last", json_of(gain.since_last)}};
}

/// Returns a link to the page of the kernel's workload. If the database has no trials of the
/// workload on the demand's device, returns only the name of the workload.
Html wanted_workload(const db::WantedKernel& kernel) {
  const std::string name =
      one_line(db::workload_text(db::WorkloadName{kernel.workload, kernel.layouts}), 400);
  if (kernel.trials == 0) return html("{}", name);
  return link(workload_address({.hash = sha256_hex(kernel.workload), .layouts = kernel.layouts}),
              name);
}

Html wanted_table(const db::Demand& demand) {
  std::vector<const db::WantedKernel*> kernels = by_saving(demand);
  const size_t all = kernels.size();
  kernels.resize(std::min(all, most_wanted_kernels));
  std::vector<double> times;
  for (const db::WantedKernel* kernel : kernels)
    for (const double ns : {kernel->latency_ns, kernel->used_ns, kernel->best_ns})
      if (ns > 0) times.push_back(ns);
  const TimeUnit unit(times);
  Html rows;
  for (const db::WantedKernel* kernel : kernels)
    rows += html(
        "<tr><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}{}</td>"
        "<td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
        "<td>{}</td></tr>",
        format_double(kernel->runs), kernel->trials, unit.text(kernel->latency_ns),
        kernel->is_measured ? Html{} : html("<br><small>predicted</small>"),
        unit.text(kernel->used_ns), unit.text(kernel->best_ns),
        show_share(tuner::expected_saving(*kernel, demand)), wanted_workload(*kernel));
  const Html cut = all > kernels.size()
                       ? html("<p>... {} more, which are expected to save less.</p>",
                              static_cast<int64_t>(all - kernels.size()))
                       : Html{};
  return html(
      "<div class=\"wide\"><table><thead><tr><th>Runs a call</th><th>Trials</th><th>When it was "
      "left</th><th>Used</th><th>Best now</th><th>Expected</th><th>Kernel</th></tr></thead><tbody>"
      "{}</tbody></table></div>{}",
      rows, cut);
}

Html speed_text(const tuner::DemandTimes& times) {
  const double factor = speed_up(times);
  if (factor <= 0) return html("unknown: no kernel of it is measured");
  return html("{}, {} times as fast; both times are measured for {} of the time", gain_text(times),
              fmt::format("{:.2f}", factor), show_share(times.measured_share));
}

Html since_first_text(const Wanted& wanted) {
  const double factor = speed_up_since_first(wanted);
  return factor > 0 ? html("{} times as fast as was expected then", fmt::format("{:.2f}", factor))
                    : Html{};
}

Html demand_facts(const Wanted& wanted) {
  const db::Demand& d = wanted.demand;
  return facts_list(
      {{"Device", device_text(d.device)},
       {"Target",
        html("{}, {}, code generator {}", d.target, counted(d.threads, "thread"), d.codegen_abi)},
       {"Kernels", html("{}, {} of them measured", d.kernels.size(), count_measured(d))},
       {"Left first", html("{} UTC, when a call was expected to take {}", moment(d.first_ms),
                           time_text(d.first_ns))},
       {"Left last", html("{} UTC, when a call was expected to take {}; left {}",
                          moment(d.asked_ms), time_text(d.latency_ns), asked_text(d.asked))},
       {"Kernels that were used", html("{} of one call", time_text(wanted.times.used_ns))},
       {"Best kernels now", html("{} of one call", time_text(wanted.times.best_ns))},
       {"Gained", speed_text(wanted.times)},
       {"Since the first time", since_first_text(wanted)},
       {"Expected", html("another minute of tuning each kernel saves {} of a call",
                         show_share(wanted.expected_saving))},
       {"Hash", html("<code>{}</code>", d.hash)}});
}

}  // namespace

Result<Answer> demands_page(db::Store& store, const Request& request) {
  const std::string part = request.parameter("q");
  db::DemandFilter filter{.limit = most_demands + 1};
  if (!part.empty()) filter.part_of_name = part;
  TW_TRY(std::vector<db::Demand> demands, db::demands(store, filter));
  const bool is_cut = std::ssize(demands) > most_demands;
  if (is_cut) demands.pop_back();
  std::vector<Wanted> list;
  nlohmann::json rows = nlohmann::json::array();
  for (db::Demand& demand : demands) {
    list.push_back(wanted_of(std::move(demand)));
    rows.push_back(summary_json(list.back().demand));
  }
  const TeamGain gain = team_gain(list);
  const Html count =
      html("<p class=\"summary\"><b>{}</b> {} the kernels that {}{}.</p>", list.size(),
           list.size() == 1 ? "network or operator has left" : "networks and operators have left",
           list.size() == 1 ? "it uses" : "they use",
           is_cut ? "; only the 200 that left them last are shown" : "");
  Answer answer;
  answer.title = "Demand";
  answer.body = !list.empty()  ? html("{}{}{}{}", count, team_gain_text(gain), name_form(part),
                                      demands_table(list))
                : part.empty() ? how_to_leave()
                               : html("{}<p>No name has this part.</p>", name_form(part));
  answer.json = text_of({{"is_cut", is_cut}, {"gain", json_of(gain)}, {"demands", rows}});
  return answer;
}

Result<Answer> demand_page(db::Store& store, const std::string& hash) {
  TW_TRY(std::vector<db::Demand> found, db::demands(store, {.hash = hash, .limit = 1}));
  if (found.empty())
    return fail(ErrorCode::NoCandidate, "[demand] the database has no demand with this hash");
  const Wanted wanted = wanted_of(std::move(found.front()));
  Answer answer;
  answer.title = one_line(wanted.demand.name, 400);
  answer.body = html("{}<h2>Its kernels</h2>{}", demand_facts(wanted), wanted_table(wanted.demand));
  answer.json = text_of(as_json(wanted.demand));
  return answer;
}

}  // namespace tw::tools::web

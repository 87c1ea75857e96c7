// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "base/target.h"
#include "base/text.h"
#include "base/time_text.h"
#include "db/answers.h"
#include "db/workload_text.h"
#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "tools/reports/explanation.h"
#include "tools/reports/report.h"
#include "tools/web/history_chart.h"
#include "tools/web/pages.h"
#include "tuner/workers/device.h"

namespace tw::tools::web {
namespace {

constexpr int64_t most_not_used = 20;
constexpr size_t most_shown_bytes = 1 << 20;

Result<db::Record> found_record(db::Store& store, const std::string& hash) {
  TW_TRY(std::optional<db::Record> record, store.find(hash));
  if (record) return std::move(*record);
  return fail(ErrorCode::NoCandidate, "[record] the database has no record with this hash");
}

Html code(std::string_view text) {
  const bool is_cut = text.size() > most_shown_bytes;
  return html("<pre class=\"code\"><code>{}</code></pre>{}", text.substr(0, most_shown_bytes),
              is_cut ? "The rest is left out." : "");
}

std::string peak_text(const db::Record& record) {
  if (record.peak_gflops <= 0) return "not measured with it";
  return fmt::format("{:.1f} GFLOP/s measured with it, {:.1f} % of it used", record.peak_gflops,
                     100 * db::efficiency(record));
}

Html facts_of(const db::Record& r) {
  const std::string latency = fmt::format(
      "{} [{}, {}]", show_latency(r), time_text(r.latency_low_ns), time_text(r.latency_high_ns));
  const std::string status = show_status(r.status) + (r.reason.empty() ? "" : ": " + r.reason);
  return facts_list(
      {{"Status", html("{}", status)},
       {"Latency", html("{}", latency)},
       {"Speed", html("{} GFLOP/s", fmt::format("{:.1f}", gflops(r.flops, r.latency_ns)))},
       {"Peak", html("{}", peak_text(r))},
       {"Samples", html("{}, noise {}", r.samples_ns.size(), show_share(r.noise))},
       {"Device", device_text(r.device)},
       {"Target",
        html("{}, {}, code generator {}", r.target, counted(r.threads, "thread"), r.codegen_abi)},
       {"Tuned for", html("{}", r.machine)},
       {"Session", html("{}, trial {}, seed {}", r.session, r.trial, r.seed)},
       {"Machine", html("{}", r.host)},
       {"When", html("{} UTC", moment(r.created_ms))},
       {"Toolchain", html("{}; tilewright {}", r.toolchain, r.program_version)},
       {"Point", html("{}", r.configuration)},
       {"Hash", html("<code>{}</code>", r.hash)}});
}

Html not_used_table(const db::Explanation& e) {
  if (e.not_used.empty())
    return html("<p>No record of this workload, device and number of threads looks better.</p>");
  Html rows;
  std::vector<double> times;
  for (const db::Doubted& other : e.not_used) times.push_back(other.record.latency_ns);
  const TimeUnit unit(times);
  for (const db::Doubted& other : e.not_used)
    rows += html(
        "<tr><td class=\"number\"><a href=\"/records/{}\">{}</a></td><td>{}</td><td>{}</td><td>{}"
        "</td></tr>",
        other.record.hash, show_latency(other.record, unit), one_line(other.record.session, 40),
        other.doubt == db::Doubt::None ? "" : db::to_string(other.doubt), other.why);
  const int64_t more = e.not_used_count - std::ssize(e.not_used);
  return html(
      "<p>{} with a smaller latency, and why they are not the answer:</p><div "
      "class=\"wide\"><table>"
      "<thead><tr><th>Latency</th><th>Session</th><th>Doubt</th><th>Why</th></tr></thead><tbody>{}"
      "</tbody></table></div>{}",
      counted(e.not_used_count, "record"), rows,
      more > 0 ? fmt::format("... {} more: `db explain --limit 0` lists them", more) : "");
}

/// Returns a paragraph that says whether the record is the answer of its group, and on which
/// measurements the answer is based.
Html judgement_of(const db::Record& record, const std::optional<db::Explanation>& e) {
  if (!e)
    return html("<p>No record of this workload, device and number of threads is believed.</p>");
  if (e->record.hash == record.hash)
    return html("<p>This is the answer for its workload, device and number of threads: {}.</p>{}",
                show_agreement(*e), not_used_table(*e));
  Html why;
  for (const db::Doubted& other : e->not_used)
    if (other.record.hash == record.hash) why = html(" This record is not used: {}.", other.why);
  return html(
      "<p>The answer for its workload, device and number of threads is <a href=\"/records/{}\">"
      "another record</a>, {}: {}.{}</p>",
      e->record.hash, time_text(e->latency_ns), show_agreement(*e), why);
}

nlohmann::json json_of(const db::Record& record, const std::optional<db::Explanation>& e,
                       const std::string& replay) {
  nlohmann::json json = as_json(record, true);
  json["is_answer"] = e && e->record.hash == record.hash;
  json["replay"] = replay;
  if (e) json["group"] = as_json(*e, e->not_used.size());
  return json;
}

/// Returns the loops to which the record's schedule is lowered, as `show --program` prints them.
Result<std::string> loops_of(const db::Record& record) {
  TW_TRY(dsl::Workload plain, dsl::parse_workload(record.workload));
  TW_TRY(const dsl::Workload workload, dsl::with_asked(std::move(plain), record.layouts));
  TW_TRY(const Target target, parse_target(record.target));
  TW_TRY(const schedules::Schedule schedule,
         schedules::parse_schedule(workload.compute, record.schedule));
  TW_TRY(const schedules::Program program,
         schedule.program(schedules::limits_of(tuner::described_by(target, record.device))));
  return schedules::to_string(program);
}

}  // namespace

Result<Answer> record_page(db::Store& store, const std::string& hash, const std::string& replay) {
  TW_TRY(const db::Record record, found_record(store, hash));
  TW_TRY(const std::optional<db::Explanation> explanation,
         db::explain(store,
                     {.workload = record.workload,
                      .target = record.target,
                      .device = record.device,
                      .threads = record.threads,
                      .codegen_abi = record.codegen_abi,
                      .layouts = record.layouts},
                     most_not_used));
  const std::string name = db::workload_text(record);
  const std::string workload =
      address_of("/workloads/" + record.workload_hash, {{"layouts", record.layouts}});
  Answer answer;
  answer.title = fmt::format("Record {}", record.hash.substr(0, 16));
  answer.body = html(
      "<p class=\"summary\">of {}</p>{}<h2 id=\"why\">Is it the answer?</h2>{}<h2>Measure it "
      "again</h2><pre class=\"copy\"><code>{}</code></pre><h2>Schedule</h2><p><a "
      "href=\"/records/{}/program\">The loops that it means</a></p>{}",
      link(workload, one_line(name, 400)), facts_of(record), judgement_of(record, explanation),
      replay, record.hash, code(record.schedule));
  answer.json = text_of(json_of(record, explanation, replay));
  return answer;
}

Result<Answer> program_page(db::Store& store, const std::string& hash) {
  TW_TRY(const db::Record record, found_record(store, hash));
  const Result<std::string> loops = loops_of(record);
  if (!loops) return fail(ErrorCode::Invalid, loops.error().message);
  Answer answer;
  answer.title = fmt::format("Loops of record {}", record.hash.substr(0, 16));
  answer.body = html(
      "<p class=\"summary\">What the schedule of <a href=\"/records/{}\">this "
      "record</a> means, as <code>show --program</code> prints it.</p>{}",
      record.hash, code(*loops));
  answer.json = text_of({{"record", record.hash}, {"program", *loops}});
  return answer;
}

}  // namespace tw::tools::web

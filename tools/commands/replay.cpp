// SPDX-License-Identifier: Apache-2.0
// tilewright replay: builds, verifies and measures a stored schedule again.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tools/selection.h"
#include "tools/verbs.h"

namespace tw::tools {
namespace {

struct ReplayFlags {
  SelectionFlags selection;
  Format format = Format::Table;
};

Table as_sheet(const db::Record& stored, const db::Record& again) {
  const auto row = [](const char* name, const db::Record& r) {
    return std::vector<std::string>{name,
                                    format_double(r.latency_ns),
                                    format_double(r.latency_low_ns),
                                    format_double(r.latency_high_ns),
                                    format_double(gflops(r.flops, r.latency_ns)),
                                    format_double(r.peak_gflops)};
  };
  return {{"measured", "latency_ns", "latency_low_ns", "latency_high_ns", "gflops", "peak_gflops"},
          {row("stored", stored), row("now", again)}};
}

Result<int> replay_command(const ReplayFlags& flags, const Surroundings& here) {
  TW_TRY(const Selection s, select(flags.selection, here));
  if (!s.runs_here)
    return fail(ErrorCode::Unsupported,
                fmt::format("[replay] the record is of {}, which cannot run here, as this machine "
                            "lacks {}: use `compile` or `show`",
                            s.target.to_string(), s.missing));
  TW_TRY(const db::Record again,
         tuner::measure_schedule(s.workload, s.record->schedule, s.target, s.threads,
                                 tuning_environment(flags.selection.place, here, s.device)));
  const db::Record& stored = *s.record;
  const double ratio = stored.latency_ns > 0 ? again.latency_ns / stored.latency_ns : 0;
  const TimeUnit unit(std::array{stored.latency_ns, stored.latency_low_ns, stored.latency_high_ns,
                                 again.latency_ns, again.latency_low_ns, again.latency_high_ns});
  const auto row = [&unit](const char* name, const db::Record& r) {
    return std::vector<std::string>{
        name, unit.text(r.latency_ns),
        fmt::format("[{}, {}]", unit.text(r.latency_low_ns), unit.text(r.latency_high_ns)),
        fmt::format("{:.1f}", gflops(r.flops, r.latency_ns)),
        fmt::format("{:.1f}", 100 * db::efficiency(r))};
  };
  const Table table{{"", "latency", "interval", "GFLOP/s", "% of peak"},
                    {row("stored", stored), row("now", again)}};
  if (flags.format == Format::Json)
    TW_RETURN_IF_ERROR(print_json("replay", {{"stored", as_json(stored)},
                                             {"now", as_json(again)},
                                             {"measured_here", s.other_device.empty()},
                                             {"likeness", db::to_string(s.other_device.likeness)},
                                             {"ratio", ratio},
                                             {"sandbox", !flags.selection.place.no_sandbox},
                                             {"verified_error", again.verified_error}}));
  else if (flags.format == Format::Csv)
    TW_RETURN_IF_ERROR(print_csv(as_sheet(stored, again)));
  else
    TW_RETURN_IF_ERROR(print(fmt::format(
        "{}{}\nnow / stored: {:.3f}\n{}", as_text(table, here),
        s.other_device.empty()
            ? ""
            : fmt::format("stored was measured on: {}\n", show_other_device(s.other_device)),
        ratio, as_text(sandbox_facts(flags.selection.place)))));
  return 0;
}

}  // namespace

Verb replay_verb() {
  auto f = std::make_shared<ReplayFlags>();
  Flag hash = hash_operand(f->selection);
  hash.help = "the beginning of a record's hash";
  hash.required = true;
  return {.name = "replay",
          .summary = "build, verify and measure a stored schedule again",
          .flags = concatenated({flags_of(f->selection.place), {format_flag(f->format)}}),
          .operands = {hash},
          .run = [f](const Surroundings& here) { return replay_command(*f, here); }};
}

}  // namespace tw::tools

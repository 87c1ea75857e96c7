// SPDX-License-Identifier: Apache-2.0
// tilewright show: prints a record and its schedule, or the program to which the schedule is
// lowered, as loops, as text in C, CUDA or OpenCL, or as instructions.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/backend.h"
#include "codegen/c_emitter.h"
#include "codegen/gpu/emitter.h"
#include "codegen/inspect.h"
#include "db/workload_text.h"
#include "schedules/schedule.h"
#include "tools/flags/command_line.h"
#include "tools/flags/quote.h"
#include "tools/model_files.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tools/reports/roofline.h"
#include "tools/selection.h"
#include "tools/verbs.h"

namespace tw::tools {
namespace {

struct ShowFlags {
  SelectionFlags selection;
  bool steps = false;
  std::string view = {};  ///< "program", "c", "asm" or the name of a back end; empty: none
  Format format = Format::Table;
};

std::string with_newline(std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::string facts_of(const Selection& s) {
  if (!s.record)
    return as_text(Facts{{"workload", s.workload.text()},
                         {"target", s.target.to_string()},
                         {"tuned for", describe(s.target.machine)},
                         {"schedule", show_source(s)}});
  const db::Record& r = *s.record;
  Facts facts = {
      {"workload", db::workload_text(r)},
      {"record", r.hash},
      {"status", show_status(r.status) + (r.reason.empty() ? "" : ": " + r.reason)},
      {"target", r.target},
      {"device", r.device},
      {"threads", std::to_string(r.threads)},
      {"latency", fmt::format("{} [{}, {}]", time_text(r.latency_ns), time_text(r.latency_low_ns),
                              time_text(r.latency_high_ns))},
      {"speed", leading_speed(roofline(r, s.workload, s.target))},
      {"toolchain", r.toolchain},
      {"session", fmt::format("{}, trial {}, seed {}", r.session, r.trial, r.seed)}};
  if (!s.other_device.empty()) facts.emplace_back("measured on", show_other_device(s.other_device));
  if (!s.layer.empty()) facts.emplace_back("layer", s.layer);
  if (s.by_hand) facts.emplace_back("schedule", show_source(s));
  return as_text(facts);
}

Result<std::string> instructions(const ShowFlags& flags, const Surroundings& here,
                                 const Selection& s, const std::string& schedule) {
  if (s.target.is_gpu())
    return fail(ErrorCode::Usage,
                fmt::format("[show] --asm shows the instructions of processors; the kernels of {} "
                            "are shown by --{}",
                            s.target.to_string(), codegen::backend_of(s.target).name));
  TW_TRY(const runtime::Artifact artifact,
         tuner::build_schedule(s.workload, schedule, s.target, s.threads, false,
                               tuning_environment(flags.selection.place, here, s.device)));
  return codegen::disassemble(artifact.object, s.target);
}

Result<std::string> text_of(const schedules::Program& program, const std::string& view) {
  if (view == "c") return codegen::emit_c(program, "kernel");
  for (const codegen::Backend& backend : codegen::backends()) {
    if (backend.name != view) continue;
    TW_TRY(codegen::GpuCode code, codegen::emit_gpu(program, "kernel", backend.dialect));
    return std::move(code.text);
  }
  return schedules::to_string(program);
}

Result<std::string> shown(const ShowFlags& flags, const Surroundings& here, const Selection& s,
                          const std::string& schedule) {
  if (flags.view == "asm") return instructions(flags, here, s, schedule);
  TW_TRY(const schedules::Schedule parsed, schedules::parse_schedule(s.workload.compute, schedule));
  TW_TRY(const schedules::Program program, parsed.program(schedules::limits_of(s.target)));
  return text_of(program, flags.view);
}

/// Prints the record, the schedule and its loops as JSON, and also the view that a flag such as
/// --asm asks for.
Status show_json(const ShowFlags& flags, const Surroundings& here, const Selection& s,
                 const std::string& schedule) {
  nlohmann::json json;
  if (s.record) json = as_json(*s.record, true);
  json["workload"] = s.workload.key();
  json["layouts"] = s.workload.asked();
  json["target"] = s.target.to_string();
  json["tuned_for"] = describe(s.target.machine);
  json["known"] = s.record.has_value();
  if (s.record) {
    json["likeness"] = db::to_string(s.other_device.likeness);
    json["layer"] = s.layer;
  }
  json["schedule_from"] = schedule_source(s);
  if (s.by_hand) json["adaptation"] = s.by_hand->notes;
  json["schedule"] = schedule;
  TW_TRY(json["program"], shown({}, here, s, schedule));
  if (!flags.view.empty()) {
    TW_TRY(json[flags.view], shown(flags, here, s, schedule));
  }
  return print_json("show", json);
}

Result<int> show_network(const ShowFlags& flags, const Surroundings& here) {
  const std::string view = flags.steps ? "steps" : flags.view;
  if (typed_flags(here.arguments).contains("--" + view))
    return fail(ErrorCode::Usage,
                fmt::format("[show] --{} shows a kernel, and {} is a network: leave the flag out",
                            view, shell_quoted(flags.selection.hash)));
  return show_model(flags.selection.hash, flags.format, here);
}

Result<int> show_command(const ShowFlags& flags, const Surroundings& here) {
  TW_TRY(const bool is_network, names_network(flags.selection, NetworkUse::Print, here));
  if (is_network) return show_network(flags, here);
  TW_TRY(Selection s, select(flags.selection, here));
  TW_TRY(const std::string schedule, schedule_of(s, here));
  if (s.by_hand)
    for (const std::string& line : s.by_hand->notes) note(line);
  if (flags.format == Format::Json) {
    TW_RETURN_IF_ERROR(show_json(flags, here, s, schedule));
    return 0;
  }
  if (!flags.view.empty()) {
    TW_TRY(const std::string text, shown(flags, here, s, schedule));
    note("the schedule is " + show_source(s));
    TW_RETURN_IF_ERROR(print(with_newline(text)));
    return 0;
  }
  if (flags.steps) note("the schedule is " + show_source(s));
  TW_RETURN_IF_ERROR(print((flags.steps ? "" : facts_of(s) + "\n") + with_newline(schedule)));
  return 0;
}

/// Returns a flag for each view, such as --program or --asm. At most one of these flags may be
/// given.
std::vector<Flag> view_flags(ShowFlags* flags) {
  std::vector<Flag> views;
  const auto add = [&](std::string_view name, const std::string& help) {
    for (Flag& before : views) before.excludes.emplace_back(name);
    views.push_back({std::string(name), Switch(&flags->view, std::string(name)), help});
  };
  views.push_back({"steps", Switch{&flags->steps}, "only the text of the schedule"});
  add("program", "the loops that it means");
  add("c", "the same as C");
  for (const codegen::Backend& backend : codegen::backends())
    if (!backend.language.empty())
      add(backend.name, "the same as " + std::string(backend.language));
  add("asm", "compile it and show the instructions");
  views.back().excludes = {"format"};
  return views;
}

}  // namespace

Verb show_verb() {
  auto f = std::make_shared<ShowFlags>();
  f->selection.adapts_schedule = true;
  std::vector<Flag> own = view_flags(f.get());
  own.push_back({"format", Choice(&f->format, {{"table", Format::Table}, {"json", Format::Json}}),
                 "json: the record, the schedule and its loops"});
  return {.name = "show",
          .summary = "a record, its schedule, loops, C, GPU text or instructions",
          .flags = concatenated({flags_of(f->selection), own}),
          .operands = {hash_operand(f->selection)},
          .run = [f](const Surroundings& here) { return show_command(*f, here); }};
}

}  // namespace tw::tools

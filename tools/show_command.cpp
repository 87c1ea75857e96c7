// SPDX-License-Identifier: Apache-2.0
// tilewright show: a record, and what its schedule means: loops, C, kernels of a GPU, instructions.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/c_emitter.h"
#include "codegen/gpu_emitter.h"
#include "codegen/inspect.h"
#include "schedules/schedule.h"
#include "tools/report.h"
#include "tools/roofline.h"
#include "tools/selection.h"
#include "tools/verbs.h"

namespace tw::tools {
namespace {

struct ShowFlags {
  SelectionFlags selection;
  bool schedule = false, program = false, c = false, cuda = false, opencl = false;
  bool assembly = false, json = false;
};

std::string with_newline(std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::string facts(const Selection& s) {
  if (!s.record)
    return as_text(Facts{{"workload", s.workload.key()},
                         {"target", s.target.to_string()},
                         {"known", "nothing: this is the default schedule"}});
  const db::Record& r = *s.record;
  return as_text(Facts{
      {"workload", r.workload},
      {"record", r.hash},
      {"status", std::string(db::to_string(r.status)) + (r.reason.empty() ? "" : ": " + r.reason)},
      {"target", r.target},
      {"device", r.device},
      {"threads", std::to_string(r.threads)},
      {"latency", fmt::format("{} [{}, {}]", show_time(r.latency_ns), show_time(r.latency_low_ns),
                              show_time(r.latency_high_ns))},
      {"speed", leading_speed(roofline(r, s.workload, s.target))},
      {"toolchain", r.toolchain},
      {"session", fmt::format("{}, trial {}, seed {}", r.session, r.trial, r.seed)}});
}

Status show_json(const Selection& s) {
  nlohmann::json json;
  if (s.record) json = as_json(*s.record, true);
  json["workload"] = s.workload.key();
  json["known"] = s.record.has_value();
  json["schedule"] = schedule_of(s);
  TW_TRY(const schedules::Schedule schedule,
         schedules::parse_schedule(s.workload.compute, schedule_of(s)));
  TW_TRY(const schedules::Program program, schedule.program(schedules::limits_of(s.target)));
  json["program"] = schedules::to_string(program);
  return print_json("show", json);
}

Result<std::string> instructions(const ShowFlags& flags, const Surroundings& here,
                                 const Selection& s) {
  TW_TRY(const runtime::Artifact artifact,
         tuner::build_schedule(s.workload, schedule_of(s), s.target, s.threads, false,
                               tuning_environment(flags.selection.place, here)));
  return codegen::disassemble(artifact.object, s.target);
}

Result<std::string> text_of(const schedules::Program& program, const ShowFlags& flags) {
  if (flags.c) return codegen::emit_c(program, "kernel");
  if (!flags.cuda && !flags.opencl) return schedules::to_string(program);
  TW_TRY(codegen::GpuCode code,
         codegen::emit_gpu(program, "kernel",
                           flags.cuda ? codegen::GpuDialect::Cuda : codegen::GpuDialect::OpenCl));
  return std::move(code.text);
}

Result<int> show_command(const ShowFlags& flags, const Surroundings& here) {
  TW_TRY(const Selection s, select(flags.selection, here));
  if (flags.json) {
    TW_RETURN_IF_ERROR(show_json(s));
    return 0;
  }
  if (flags.assembly) {
    TW_TRY(const std::string text, instructions(flags, here, s));
    TW_RETURN_IF_ERROR(print(with_newline(text)));
    return 0;
  }
  const std::string text = schedule_of(s);
  if (flags.program || flags.c || flags.cuda || flags.opencl) {
    TW_TRY(const schedules::Schedule schedule, schedules::parse_schedule(s.workload.compute, text));
    TW_TRY(const schedules::Program program, schedule.program(schedules::limits_of(s.target)));
    TW_TRY(const std::string shown, text_of(program, flags));
    TW_RETURN_IF_ERROR(print(with_newline(shown)));
    return 0;
  }
  TW_RETURN_IF_ERROR(print((flags.schedule ? "" : facts(s) + "\n") + with_newline(text)));
  return 0;
}

}  // namespace

Verb show_verb() {
  auto f = std::make_shared<ShowFlags>();
  std::vector<Flag> own = {
      {"schedule",
       Switch{&f->schedule},
       "only the schedule",
       {"program", "c", "cuda", "opencl", "asm", "json"}},
      {"program",
       Switch{&f->program},
       "the loops that it means",
       {"c", "cuda", "opencl", "asm", "json"}},
      {"c", Switch{&f->c}, "the same as C", {"cuda", "opencl", "asm", "json"}},
      {"cuda", Switch{&f->cuda}, "the same as CUDA C++", {"opencl", "asm", "json"}},
      {"opencl", Switch{&f->opencl}, "the same as OpenCL C", {"asm", "json"}},
      {"asm", Switch{&f->assembly}, "compile it and show the instructions", {"json"}},
      {"json", Switch{&f->json}, "the record, schedule and loops as JSON"},
  };
  return {.name = "show",
          .summary = "a record, its schedule, loops, C, GPU text or instructions",
          .flags = together({flags_of(f->selection), own}),
          .operands = {hash_operand(f->selection)},
          .run = [f](const Surroundings& here) { return show_command(*f, here); }};
}

}  // namespace tw::tools

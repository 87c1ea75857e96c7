// SPDX-License-Identifier: Apache-2.0
// tilewright compile: the kernel of a record as a file that the runtime loads.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tools/quote.h"
#include "tools/report.h"
#include "tools/selection.h"
#include "tools/verbs.h"

namespace tw::tools {
namespace {

struct CompileFlags {
  SelectionFlags selection;
  std::string output, format = "table";
};

Result<int> compile_command(const CompileFlags& flags, const Surroundings& here) {
  const PlaceFlags& place = flags.selection.place;
  if (!flags.output.empty()) TW_RETURN_IF_ERROR(check_output(flags.output));
  TW_TRY(const Selection s, select(flags.selection, here));
  if (s.workload.is_empty()) {
    if (!flags.output.empty()) return nothing_to_write("compile", flags.output, s.workload);
    note(fmt::format("{} is empty: it needs no kernel", s.workload.text()));
    if (flags.format == "json")
      TW_RETURN_IF_ERROR(
          print_json("compile", {{"artifact", nullptr}, {"workload", s.workload.key()}}));
    return 0;
  }
  if (!s.record && !s.by_hand)
    return fail(
        ErrorCode::NoCandidate,
        fmt::format("[compile] {} has no kernel of '{}' for this target and {}: tune it, or "
                    "compile what the cost model prefers with `tilewright tune --compile-only`",
                    shell_quoted(shown_database(place, here)), s.workload.text(),
                    show_count(s.threads, "thread")));
  TW_TRY(const std::string schedule, schedule_of(s));
  TW_TRY(const runtime::Artifact artifact,
         tuner::build_schedule(s.workload, schedule, s.target, s.threads, s.runs_here,
                               tuning_environment(place, here, s.device)));
  std::string path = flags.output;
  if (path.empty()) {
    TW_TRY(path, store_in_cache(place, here, artifact));
  } else {
    TW_RETURN_IF_ERROR(runtime::write_artifact(path, artifact));
  }
  if (flags.format == "json")
    TW_RETURN_IF_ERROR(print_json("compile", {{"artifact", path},
                                              {"record", s.record ? s.record->hash : ""},
                                              {"schedule_from", schedule_source(s)},
                                              {"workload", s.workload.key()},
                                              {"layouts", s.workload.asked()},
                                              {"target", s.target.to_string()},
                                              {"spills", artifact.info.spills},
                                              {"object_bytes", artifact.object.size()},
                                              {"verified", s.runs_here}}));
  else
    TW_RETURN_IF_ERROR(print(path + "\n"));
  return 0;
}

}  // namespace

Verb compile_verb() {
  auto f = std::make_shared<CompileFlags>();
  std::vector<Flag> own = {
      {"output", Path{&f->output}, "file to write; default: where the runtime looks, in --cache"},
      {"format", Choice{&f->format, {"table", "json"}}, "of what is printed"}};
  return {.name = "compile",
          .summary = "compile the best known kernel into a file",
          .flags = concatenated({flags_of(f->selection), own}),
          .operands = {hash_operand(f->selection)},
          .run = [f](const Surroundings& here) { return compile_command(*f, here); }};
}

}  // namespace tw::tools

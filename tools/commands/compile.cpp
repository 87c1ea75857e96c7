// SPDX-License-Identifier: Apache-2.0
// tilewright compile: compiles the kernel of a record to a file that the runtime loads.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "codegen/export.h"
#include "runtime/private_file.h"
#include "tools/flags/quote.h"
#include "tools/outputs.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tools/selection.h"
#include "tools/verbs.h"

namespace tw::tools {
namespace {

struct CompileFlags {
  SelectionFlags selection;
  std::string output;
  Format format = Format::Table;
  /// Values of --shared (path of the shared library) and --name (its function).
  std::string shared, name;
};

/// Writes the kernel as a shared library with a C header (--shared). Returns the path of the
/// header.
Result<std::string> export_shared(const CompileFlags& flags, const Selection& s,
                                  const runtime::KernelInfo& kernel, const Surroundings& here) {
  codegen::ExportOptions options;
  options.name = flags.name.empty() ? codegen::export_name(flags.shared) : flags.name;
  const tuner::Environment environment = tuning_environment(flags.selection.place, here, s.device);
  if (!environment.code_generator.empty())
    options.kernel.cpu.plugin_directories = {environment.code_generator};
  TW_TRY(const codegen::ExportedKernel exported,
         codegen::export_kernel(kernel.workload, kernel.schedule, s.target, options));
  TW_RETURN_IF_ERROR(codegen::write_exported(flags.shared, exported));
  return codegen::header_path(flags.shared);
}

/// Writes the artifact to --output. Without --output, writes it to the cache directory, in which
/// the runtime looks for kernels. But with --shared and without --output, writes nothing. Returns
/// the path of the artifact; empty if nothing was written.
Result<std::string> write_artifact_of(const CompileFlags& flags, const runtime::Artifact& artifact,
                                      const Surroundings& here) {
  if (flags.output.empty() && !flags.shared.empty()) return "";
  if (flags.output.empty()) return store_in_cache(flags.selection.place, here, artifact);
  TW_RETURN_IF_ERROR(runtime::write_artifact(flags.output, artifact));
  return flags.output;
}

/// Joins the texts that are not empty, each as a line.
std::string lines_of(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts)
    if (!text.empty()) lines += text + "\n";
  return lines;
}

/// Checks the output paths and the function name. Call it before any other work.
Status check_flags(const CompileFlags& flags) {
  if (!flags.output.empty()) TW_RETURN_IF_ERROR(runtime::check_output(flags.output));
  std::vector<std::string> outputs = {flags.output};
  if (!flags.shared.empty()) {
    TW_RETURN_IF_ERROR(runtime::check_output(flags.shared));
    TW_RETURN_IF_ERROR(codegen::check_export(flags.shared, flags.name));
    outputs.insert(outputs.end(), {flags.shared, codegen::header_path(flags.shared)});
  } else if (!flags.name.empty()) {
    return fail(ErrorCode::Usage, "[compile] --name is the name of the function of --shared FILE");
  }
  return check_separate({flags.selection.schedule, flags.selection.workload.expression}, outputs);
}

Result<int> compile_command(const CompileFlags& flags, const Surroundings& here) {
  const PlaceFlags& place = flags.selection.place;
  TW_RETURN_IF_ERROR(check_flags(flags));
  TW_TRY(Selection s, select(flags.selection, here));
  if (s.workload.is_empty()) {
    if (!flags.output.empty()) return nothing_to_write("compile", flags.output, s.workload);
    if (!flags.shared.empty())
      return nothing_to_write("compile", flags.shared, s.workload, "--shared");
    note(fmt::format("{} is empty: it needs no kernel", s.workload.text()));
    if (flags.format == Format::Json)
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
                    counted(s.threads, "thread")));
  TW_TRY(const std::string schedule, schedule_of(s, here));
  TW_TRY(const runtime::Artifact artifact,
         tuner::build_schedule(s.workload, schedule, s.target, s.threads, s.runs_here,
                               tuning_environment(place, here, s.device)));
  TW_TRY(const std::string path, write_artifact_of(flags, artifact, here));
  std::string header;
  if (!flags.shared.empty()) {
    TW_TRY(header, export_shared(flags, s, artifact.info, here));
  }
  if (flags.format == Format::Json)
    TW_RETURN_IF_ERROR(print_json("compile", {{"artifact", path},
                                              {"shared", flags.shared},
                                              {"header", header},
                                              {"record", s.record ? s.record->hash : ""},
                                              {"schedule_from", schedule_source(s)},
                                              {"workload", s.workload.key()},
                                              {"layouts", s.workload.asked()},
                                              {"target", s.target.to_string()},
                                              {"spills", artifact.info.spills},
                                              {"object_bytes", artifact.object.size()},
                                              {"verified", s.runs_here}}));
  else
    TW_RETURN_IF_ERROR(print(lines_of({path, flags.shared, header})));
  return 0;
}

}  // namespace

Verb compile_verb() {
  auto f = std::make_shared<CompileFlags>();
  std::vector<Flag> own = {
      {"output", Path{&f->output}, "file to write; default: where the runtime looks, in --cache"},
      {"shared", Path{&f->shared},
       "a shared object to write, with a C header beside it, that needs no runtime; the artifact "
       "is "
       "then written to --output only"},
      {"name", Text{&f->name}, "the C function of --shared; default: after the file"},
      table_or_json_flag(f->format)};
  return {.name = "compile",
          .summary = "compile the best known kernel into a file",
          .flags = concatenated({flags_of(f->selection), own}),
          .operands = {hash_operand(f->selection)},
          .run = [f](const Surroundings& here) { return compile_command(*f, here); }};
}

}  // namespace tw::tools

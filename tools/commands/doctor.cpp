// SPDX-License-Identifier: Apache-2.0
// tilewright doctor: shows what this machine offers to tuning, and checks that it can compile and
// run a kernel.

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/isa.h"
#include "base/text.h"
#include "codegen/command.h"
#include "codegen/cpu_codegen.h"
#include "db/engine/filesystem.h"
#include "tools/flags/quote.h"
#include "tools/places.h"
#include "tools/reports/device_findings.h"
#include "tools/reports/machine_findings.h"
#include "tools/reports/report.h"
#include "tools/selection.h"
#include "tools/verbs.h"
#include "tuner/measure/peak.h"
#include "tuner/measure/round_trip.h"
#include "tuner/processes/sandbox.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

constexpr int64_t command_timeout_ns = 10'000'000'000;

struct DoctorFlags {
  PlaceFlags place;
  Format format = Format::Table;
  bool probe_sandbox = false;
  std::string probe_driver;  ///< empty: none
  bool calibrate = false;
};

// ---- the machine ----------------------------------------------------------------------------

Finding peak(const Target& host, const Surroundings& here) {
  const auto one = tuner::measure_f32_peak(1, here.environment.clock);
  if (!one) return failed("peak", one.error());
  std::string text = fmt::format("{:.1f} GFLOP/s on one thread ({})", one->gflops, one->isa);
  if (host.machine.cores > 1) {
    const auto all = tuner::measure_f32_peak(host.machine.cores, here.environment.clock);
    if (!all) return failed("peak", all.error());
    text += fmt::format(", {:.1f} on {}", all->gflops, host.machine.cores);
  }
  return {"peak", text + ", right now"};
}

Finding round_trip(const Target& host, const Surroundings& here) {
  if (host.machine.cores < 2) return {"round trip", "there is one core"};
  return round_trip_finding(tuner::measure_round_trip_ns(here.environment.clock));
}

Finding limits() {
  const auto show = [](int resource) -> std::string {
    rlimit limit = {};
    if (getrlimit(resource, &limit) != 0) return "unknown";
    return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
  };
  return {"limits", fmt::format("{} open files, {} processes, {} bytes of stack",
                                show(RLIMIT_NOFILE), show(RLIMIT_NPROC), show(RLIMIT_STACK))};
}

// ---- what tuning needs ----------------------------------------------------------------------

Finding plugin(const DoctorFlags& flags) {
  codegen::CpuCodegenOptions options;
  if (!flags.place.code_generator.empty())
    options.plugin_directories = {flags.place.code_generator};
  const auto toolchain = codegen::cpu_toolchain(options);
  if (!toolchain) return failed("code generator", toolchain.error());
  return {"code generator", *toolchain};
}

/// Returns a finding with the first line that a tool prints about its version. A missing tool is a
/// failure of `doctor` only if `needed` is true.
Finding tool(const std::string& name, const char* purpose, bool needed) {
  const auto output = codegen::run_command({name, "--version"}, command_timeout_ns);
  if (output) return {name, output->substr(0, output->find('\n'))};
  Finding finding = failed(name, output.error());
  finding.text = fmt::format("missing, {}: install binutils", purpose);
  if (!needed) finding.failure.reset();
  return finding;
}

/// Returns a finding about the limits (sandbox) under which workers run. Another process tries the
/// limits, because in this process they would stay in force until its end.
Finding sandbox(const Surroundings& here) {
  const auto output =
      codegen::run_command({here.program, "doctor", "--probe-sandbox"}, command_timeout_ns);
  if (!output) return failed("sandbox", output.error());
  return {"sandbox", std::string(trim(*output))};
}

Result<int> probe_sandbox() {
  const auto done = tuner::restrict_self({});
  if (!done) {
    TW_RETURN_IF_ERROR(print(done.error().message + "\n"));
    return static_cast<int>(ErrorCode::Environment);
  }
  TW_RETURN_IF_ERROR(print(
      fmt::format("Landlock {}, seccomp {}{}\n",
                  done->landlock_abi > 0 ? fmt::format("version {}", done->landlock_abi) : "absent",
                  done->seccomp ? "on" : "absent",
                  done->missing.empty() ? "" : "; missing: " + join(done->missing, ", "))));
  return 0;
}

/// Returns a finding about a small kernel, which is compiled, linked, loaded, run and verified in
/// the same way as in tuning.
Finding kernel(const DoctorFlags& flags, const Target& host, const Surroundings& here) {
  const auto workload = dsl::make_workload("reduce_sum", {{"rows", 4}, {"cols", 64}});
  if (!workload) return failed("a kernel", workload.error());
  const auto schedule = default_schedule(*workload, host);
  if (!schedule) return failed("a kernel", schedule.error());
  const int64_t began = here.environment.clock();
  const auto artifact = tuner::build_schedule(*workload, *schedule, host, 1, true,
                                              tuning_environment(flags.place, here));
  if (!artifact) return failed("a kernel", artifact.error());
  return {"a kernel",
          fmt::format("compiled, linked and verified in {}",
                      time_text(static_cast<double>(here.environment.clock() - began)))};
}

/// Returns a finding about a database that is not there yet, which `tune` would make at this path.
/// `makes_directories` says that it would also make the directories of the path.
Finding absent_database(const std::string& path, bool makes_directories) {
  const std::string quoted = shell_quoted(path);
  const auto cannot_be_made = [&](const std::string& why) {
    return failed("database", {ErrorCode::Database,
                               fmt::format("[database] {} cannot be made: {}", quoted, why)});
  };
  std::error_code error;
  std::filesystem::path directory = std::filesystem::absolute(path, error).parent_path();
  while (makes_directories && !std::filesystem::exists(directory, error) &&
         directory.has_relative_path())
    directory = directory.parent_path();
  if (!std::filesystem::is_directory(directory, error))
    return cannot_be_made("there is no directory " + shell_quoted(directory.string()));
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    return cannot_be_made(shell_quoted(directory.string()) + " is not writable");
  return {"database", quoted + ", not there yet: `tune` makes it"};
}

/// Returns a finding about the database. `store` is null if the database is not there.
Finding database(Result<db::Store>* store, const PlaceFlags& place, const Surroundings& here) {
  if (!store) return absent_database(database_path(place, here), place.database.empty());
  if (!*store) return failed("database", store->error());
  const auto info = (*store)->info();
  if (!info) return failed("database", info.error());
  return {"database",
          fmt::format("{}, writable, {} records", shell_quoted((*store)->path()), info->records)};
}

/// Returns a finding about the database of records that was shipped with the program.
Finding shipped(const DoctorFlags& flags, const Surroundings& here) {
  const std::string& named = flags.place.shipped;
  const std::string path = named.empty() ? here.places.shipped : named;
  if (path.empty() || path == "none") return {"shipped records", "none"};
  auto store = db::Store::open(path, db::OpenMode::ReadOnly);
  if (!store) return failed("shipped records", store.error());
  const auto info = store->info();
  if (!info) return failed("shipped records", info.error());
  return {"shipped records",
          fmt::format("{}, {} records of {} workloads", shell_quoted(store->path()), info->records,
                      info->workloads)};
}

Finding cache(const DoctorFlags& flags, const Surroundings& here) {
  const std::string path = flags.place.cache.empty() ? here.places.cache : flags.place.cache;
  if (const Status made = make_cache_directory(path); !made) return failed("cache", made.error());
  return {"cache", shell_quoted(path)};
}

std::string isa_text() {
  const auto limit = max_isa();
  return limit ? fmt::format("up to {}, as {} says: what goes beyond is not used", *limit,
                             max_isa_variable)
               : "all that the processor has";
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

/// All findings, and the status of the calibration. The status is OK if --calibrate was not given.
struct Examination {
  std::vector<Finding> findings;
  Status calibrated;
};

Examination everything(const DoctorFlags& flags, const Surroundings& here) {
  const Target host = host_target();
  // A calibration is stored, so it makes the database if there is none. Without a calibration,
  // doctor makes no database.
  std::optional<Result<db::Store>> store;
  if (flags.calibrate || is_database_there(flags.place, here))
    store = open_database(flags.place, here, db::OpenMode::ReadWrite);
  else if (flags.place.database.empty() && !here.places.fallback.empty())
    note(here.places.fallback);
  db::Store* const known = store && *store ? &**store : nullptr;
  const Status calibrated = flags.calibrate ? calibrate(host, known, here) : Status();
  std::vector<Finding> findings = {
      {"program",
       fmt::format("{}, version {}", shell_quoted(here.program), here.environment.program_version)},
      {"machine", tuner::device_text(host)},
      {"target", host.to_string()},
      {"instruction sets", isa_text()},
      {"vectors", fmt::format("{} registers of {} bytes", host.machine.core.vector_registers,
                              host.machine.core.vector_bytes)},
      {"cores", fmt::format("{} usable, by affinity and quota", host.machine.cores)}};
  append(findings, machine_findings(host, known, calibrated));
  append(findings, {peak(host, here),
                    round_trip(host, here),
                    limits(),
                    {"sqlite", db::describe_sqlite(db::sqlite_version_number())},
                    database(store ? &*store : nullptr, flags.place, here),
                    shipped(flags, here),
                    cache(flags, here),
                    plugin(flags),
                    tool("ld", "needed to link kernels", true),
                    tool("objdump", "needed by kernels that prefetch, and by `show --asm`", true),
                    sandbox(here),
                    kernel(flags, host, here)});
  append(findings, device_findings(here));
  return {std::move(findings), calibrated};
}

Result<int> doctor_command(const DoctorFlags& flags, const Surroundings& here) {
  if (flags.probe_sandbox) return probe_sandbox();
  if (!flags.probe_driver.empty()) {
    TW_TRY(const std::string findings, confined_driver_findings(flags.probe_driver));
    TW_RETURN_IF_ERROR(print(findings));
    return 0;
  }
  const auto [findings, calibrated] = everything(flags, here);
  int code = 0;
  nlohmann::json list = nlohmann::json::array();
  Table table{{"state", "check", "result"}, {}};
  for (const Finding& finding : findings) {
    if (finding.failure && code == 0) code = static_cast<int>(*finding.failure);
    list.push_back({{"name", finding.name},
                    {"text", finding.text},
                    {"ok", !finding.failure},
                    {"present", finding.present}});
    const char* const mark = finding.failure ? "!!" : finding.present ? "ok" : "--";
    table.rows.push_back({mark, finding.name, finding.text});
  }
  const std::string verdict = code == 0 ? "everything that tuning needs is here"
                                        : "tuning will not work: see the lines with !!";
  if (flags.format == Format::Json)
    TW_RETURN_IF_ERROR(print_json("doctor", {{"ok", code == 0 && calibrated}, {"findings", list}}));
  else
    TW_RETURN_IF_ERROR(print(as_text(table, here) + verdict + "\n"));
  TW_RETURN_IF_ERROR(calibrated);
  return code;
}

}  // namespace

Verb doctor_verb() {
  auto f = std::make_shared<DoctorFlags>();
  std::vector<Flag> own = {table_or_json_flag(f->format),
                           {"calibrate", Switch{&f->calibrate},
                            "measure the processor anew, and keep it in the database"},
                           {"probe-driver", Text{&f->probe_driver},
                            "put the limits of a worker with this driver on, cuda or opencl, and "
                            "say as JSON what the driver finds"},
                           {"probe-sandbox", Switch{&f->probe_sandbox},
                            "put the limits of a worker on and say what they are"}};
  return {.name = "doctor",
          .summary = "examine this machine and what tuning needs",
          .flags = concatenated({flags_of(f->place), own}),
          .run = [f](const Surroundings& here) { return doctor_command(*f, here); }};
}

}  // namespace tw::tools

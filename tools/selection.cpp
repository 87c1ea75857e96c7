// SPDX-License-Identifier: Apache-2.0
#include "tools/selection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "db/answers.h"
#include "db/server_address.h"
#include "runtime/private_file.h"
#include "schedules/problem.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "schedules/space/default_schedule.h"
#include "tools/flags/quote.h"
#include "tools/interrupts.h"
#include "tools/model_files.h"
#include "tools/reports/report.h"
#include "tools/team_layer.h"
#include "tuner/host_machine.h"
#include "tuner/search/scoring.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"
#include "tuner/workers/notes.h"

namespace tw::tools {

Flag database_flag(PlaceFlags& flags) {
  return {"db", Path{&flags.database},
          "tuning database, a file or postgresql://USER@HOST/DATABASE; default: "
          "~/.local/share/tilewright/tilewright.db"};
}

Flag no_sandbox_flag(PlaceFlags& flags) {
  return {"no-sandbox", Switch{&flags.no_sandbox},
          "run workers without limits, where a driver does not work within them: candidates may "
          "then do what this user may"};
}

std::vector<std::pair<std::string, std::string>> sandbox_facts(const PlaceFlags& flags) {
  if (!flags.no_sandbox) return {};
  return {{"sandbox", "off, by --no-sandbox: the workers had no limits"}};
}

std::vector<Flag> flags_of(PlaceFlags& flags) {
  return {
      database_flag(flags),
      {"team", Path{&flags.team},
       "a database below --db, which is only read; a file or an address, also of a published "
       "layer (NAME.layer.json)"},
      {"team-key", Path{&flags.team_key},
       "public key by which a published layer is signed, or a file that holds it"},
      {"shipped", Path{&flags.shipped},
       "the database below both; none: without; default: the one that came with the program"},
      {"cache", Path{&flags.cache}, "directory of compiled kernels; default: ~/.cache/tilewright"},
      {"code-generator", Path{&flags.code_generator}, "directory of libtw_halide.so"},
      no_sandbox_flag(flags)};
}

std::string database_path(const PlaceFlags& flags, const Surroundings& here) {
  return flags.database.empty() ? here.places.database : flags.database;
}

std::string shown_database(const PlaceFlags& flags, const Surroundings& here) {
  return db::shown_database(database_path(flags, here));
}

std::string cache_directory(const PlaceFlags& flags, const Surroundings& here) {
  return flags.cache.empty() ? here.places.cache : flags.cache;
}

namespace {

/// The clock by which a locked database is waited for. An interrupt ends a wait, and leaves those
/// after it a fraction of a second: by this clock it takes all the time that a wait may last, and
/// every second after it 200.
std::function<int64_t()> impatient_clock_ms(const Surroundings& here, int64_t limit_ms) {
  return [clock = here.environment.clock, limit_ms, since_ms = std::optional<int64_t>()]() mutable {
    const int64_t now_ms = clock() / 1'000'000;
    if (interrupts_so_far().load() == 0) return now_ms;
    if (!since_ms) since_ms = now_ms;
    return *since_ms + limit_ms + 200 * (now_ms - *since_ms);
  };
}

db::StoreOptions store_options(const Surroundings& here) {
  db::StoreOptions options;
  options.waiting.on_message = [](std::string_view text) { note(text); };
  options.waiting.now_ms = impatient_clock_ms(here, options.waiting.limit_ms);
  options.spool_directory = std::filesystem::path(here.places.database).parent_path();
  return options;
}

Result<std::vector<db::Layer>> layers_of(const PlaceFlags& flags, const Surroundings& here) {
  std::vector<db::Layer> layers;
  if (!flags.team.empty()) {
    const std::string home = std::filesystem::path(here.places.database).parent_path();
    TW_TRY(const db::Layer team,
           team_layer({flags.team, flags.team_key, home + "/layers"}, store_options(here).waiting));
    if (!team.path.empty()) layers.push_back(team);
  }
  const std::string& shipped = flags.shipped.empty() ? here.places.shipped : flags.shipped;
  if (!shipped.empty() && shipped != "none") layers.push_back({"shipped", shipped});
  return layers;
}

bool is_there(const std::string& path) {
  std::error_code error;
  return db::is_server(path) || std::filesystem::exists(path, error) || error;
}

Result<db::Store> open_above(const PlaceFlags& flags, const Surroundings& here, db::OpenMode mode,
                             std::vector<db::Layer> layers) {
  const std::string path = database_path(flags, here);
  db::StoreOptions options = store_options(here);
  options.below = std::move(layers);
  if (mode == db::OpenMode::ReadOnly && !options.below.empty() && !is_there(path))
    return db::Store::open_absent(path, std::move(options));
  if ((flags.database.empty() || db::is_server(path)) && !here.places.fallback.empty()) {
    note(here.places.fallback);
    TW_RETURN_IF_ERROR(
        tuner::make_private_directory(std::filesystem::path(here.places.database).parent_path()));
  }
  options.create_directories = flags.database.empty();  // a path that was typed may be a typo
  return db::Store::open(path, mode, std::move(options));
}

}  // namespace

db::StoreOptions request_options(const Surroundings& here, int64_t most_waiting_ms) {
  db::StoreOptions options;
  options.waiting.limit_ms = most_waiting_ms;
  options.waiting.now_ms = impatient_clock_ms(here, most_waiting_ms);
  return options;
}

Result<db::Store> open_database(const PlaceFlags& flags, const Surroundings& here,
                                db::OpenMode mode) {
  return open_above(flags, here, mode, {});
}

Result<db::Store> open_layered(const PlaceFlags& flags, const Surroundings& here,
                               db::OpenMode mode) {
  TW_TRY(std::vector<db::Layer> layers, layers_of(flags, here));
  return open_above(flags, here, mode, std::move(layers));
}

Result<std::optional<db::Store>> open_if_there(const PlaceFlags& flags, const Surroundings& here) {
  TW_TRY(std::vector<db::Layer> layers, layers_of(flags, here));
  if (layers.empty() && !is_there(database_path(flags, here))) return std::optional<db::Store>();
  TW_TRY(db::Store store, open_above(flags, here, db::OpenMode::ReadOnly, std::move(layers)));
  return std::optional<db::Store>(std::move(store));
}

tuner::Environment tuning_environment(const PlaceFlags& flags, const Surroundings& here,
                                      int device) {
  tuner::Environment environment = here.environment;
  environment.device = device;
  environment.code_generator = flags.code_generator;
  environment.sandbox = !flags.no_sandbox;
  return environment;
}

Flag hash_operand(SelectionFlags& flags) {
  return {"HASH", Text{&flags.hash},
          "the beginning of a record's hash; or use --op, --expr, --workload. Of `run`, `explain` "
          "and `show` also the file of a network"};
}

std::vector<Flag> flags_of(SelectionFlags& flags) {
  return concatenated({flags_of(flags.workload),
                       {schedule_flag(flags.schedule)},
                       flags_of(flags.target),
                       flags_of(flags.place)});
}

Result<db::Record> find_record(db::Store& store, const std::string& prefix) {
  const bool is_hex = prefix.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex || prefix.size() < 4 || prefix.size() > 64)
    return fail(
        ErrorCode::Usage,
        fmt::format("[record] '{}': expected 4 to 64 hex digits of a hash, as `db query` prints "
                    "them",
                    prefix));
  std::vector<db::Record> found;
  const auto collect = [&](const db::Record& record) {
    if (record.hash.starts_with(prefix)) found.push_back(record);
    return found.size() < 2;
  };
  TW_RETURN_IF_ERROR(store.for_each({}, collect));
  if (found.empty()) db::for_each_below(store, {}, collect);
  if (found.size() == 1) return found.front();
  return fail(found.empty() ? ErrorCode::NoCandidate : ErrorCode::Usage,
              found.empty()
                  ? fmt::format("[record] no record of {} begins with {}: look with `db query`",
                                shell_quoted(store.path()), prefix)
                  : fmt::format("[record] {} and {} both begin with {}: give more digits",
                                found[0].hash.substr(0, 16), found[1].hash.substr(0, 16), prefix));
}

namespace {

void take(const tuner::ChosenTarget& chosen, Selection& selection) {
  selection.target = chosen.target;
  selection.runs_here = chosen.missing.empty();
  selection.missing = tuner::missing_text(chosen);
  selection.device = chosen.device;
}

/// A GPU's kernel is judged by the device that it was measured on, which may be elsewhere.
void take_device_of_record(Selection& selection) {
  if (!selection.record) return;
  selection.other_device = other_device_of(*selection.record, selection.target);
  if (selection.target.is_gpu())
    selection.target = tuner::described_by(selection.target, selection.record->device);
}

/// The fastest record of exactly this schedule on the target's device, or none.
Result<std::optional<db::Record>> record_of(db::Store& store, const Selection& selection,
                                            const std::string& schedule) {
  db::Filter same;
  same.workload = selection.workload.key();
  same.target = selection.target.to_string();
  same.device = tuner::device_text(selection.target);
  same.threads = selection.threads;
  same.layouts = selection.workload.asked();
  same.status = db::TrialStatus::Ok;
  std::optional<db::Record> fastest;
  TW_RETURN_IF_ERROR(store.for_each(same, [&](const db::Record& record) {
    if (record.schedule == schedule && (!fastest || record.latency_ns < fastest->latency_ns))
      fastest = record;
    return true;
  }));
  return fastest;
}

/// Replaces what is known best by the schedule of the file, and by what is known about that.
Status take_schedule(const SelectionFlags& flags, std::optional<db::Store>& store,
                     Selection& selection) {
  const auto read = flags.adapts_schedule ? adapt_hand_schedule : read_hand_schedule;
  TW_TRY(selection.by_hand, read(flags.schedule, selection.workload, selection.target));
  selection.record.reset();
  if (!store) return {};
  TW_TRY(selection.record, record_of(*store, selection, selection.by_hand->text));
  return {};
}

}  // namespace

OtherDevice other_device_of(const db::Record& record, const Target& target) {
  if (record.target != target.to_string()) return {record.device, db::Likeness::OtherClass};
  const db::Likeness likeness = db::likeness_of(record.device, tuner::device_text(target));
  return likeness == db::Likeness::Exact ? OtherDevice{} : OtherDevice{record.device, likeness};
}

std::string show_other_device(const OtherDevice& device) {
  return fmt::format("{}, not on this one ({})", device.name, db::to_string(device.likeness));
}

std::string elsewhere_lines(const std::set<OtherDevice>& devices) {
  std::string lines;
  for (const OtherDevice& device : devices)
    lines += fmt::format("elsewhere: measured on: {}\n", show_other_device(device));
  return lines;
}

Result<bool> names_network(const SelectionFlags& flags) {
  if (!is_file_operand(flags.hash)) return false;
  if (!flags.schedule.empty())
    return fail(ErrorCode::Usage,
                fmt::format("[network] {}: --schedule is of a kernel; the schedules of a network "
                            "are chosen when it is tuned",
                            flags.hash));
  if (flags.workload.is_given())
    return fail(ErrorCode::Usage,
                fmt::format("[network] the file {} and a workload, or layouts, contradict each "
                            "other: give one",
                            shell_quoted(flags.hash)));
  return true;
}

Result<Selection> select(const SelectionFlags& flags, const Surroundings& here) {
  Selection selection;
  if (!flags.hash.empty()) {
    if (flags.workload.is_given() || !flags.schedule.empty())
      return fail(ErrorCode::Usage,
                  fmt::format("[record] a hash and {} contradict each other: give one",
                              flags.schedule.empty() ? "a workload, or layouts," : "--schedule"));
    TW_TRY(db::Store store, open_layered(flags.place, here, db::OpenMode::ReadOnly));
    TW_TRY(db::Record record, find_record(store, flags.hash));
    TW_TRY(selection.layer, db::layer_of(store, record));
    TW_TRY(dsl::Workload workload, dsl::parse_workload(record.workload));
    TW_TRY(selection.workload, dsl::with_asked(std::move(workload), record.layouts));
    const std::string& named = flags.target.target;
    TW_TRY(const tuner::ChosenTarget chosen,
           tuner::chosen_target(named.empty() ? record.target : named, here.environment));
    if (chosen.target.to_string() != record.target)
      return fail(ErrorCode::Usage,
                  fmt::format("[record] --target {} contradicts the record, which is for {}: leave "
                              "it out",
                              named, record.target));
    take(chosen, selection);
    selection.target = tuner::with_known_machine(store, selection.target);
    selection.threads = static_cast<int>(record.threads);
    selection.record = std::move(record);
    take_device_of_record(selection);
    return selection;
  }
  TW_TRY(selection.workload, chosen_workload(flags.workload));
  TW_TRY(const tuner::ChosenTarget chosen,
         tuner::chosen_target(flags.target.target_or_host(), here.environment));
  take(chosen, selection);
  selection.threads = static_cast<int>(flags.target.threads);
  TW_TRY(std::optional<db::Store> store, open_if_there(flags.place, here));
  if (store) selection.target = tuner::with_known_machine(*store, selection.target);
  if (!flags.schedule.empty()) {
    TW_RETURN_IF_ERROR(take_schedule(flags, store, selection));
    return selection;
  }
  if (!store) return selection;
  TW_TRY(selection.record,
         tuner::best_known(*store, selection.workload, selection.target, selection.threads));
  if (selection.record) {
    TW_TRY(selection.layer, db::layer_of(*store, *selection.record));
  }
  take_device_of_record(selection);
  return selection;
}

Result<std::string> default_schedule(const dsl::Workload& workload, const Target& target) {
  TW_TRY(const schedules::Schedule schedule, schedules::default_schedule(workload, target));
  return schedule.to_string();
}

std::string_view source_of_preferred(bool is_default) {
  return is_default ? "default schedule" : "cost model";
}

Result<Preferred> legal_or_default(std::string schedule, const dsl::Workload& workload,
                                   const Target& target, tuner::Notes* notes) {
  const auto legal = [&]() -> Status {
    TW_TRY(const schedules::Schedule parsed, schedules::parse_schedule(workload.compute, schedule));
    TW_RETURN_IF_ERROR(parsed.program(schedules::limits_of(target)));
    return {};
  }();
  if (legal) return Preferred{std::move(schedule)};
  tuner::note(notes, tuner::NoteKind::PredictionIllegal, legal.error().message);
  TW_TRY(std::string other, default_schedule(workload, target));
  return Preferred{std::move(other), true};
}

Result<Preferred> preferred_schedule(const dsl::Workload& workload, const Target& target,
                                     int threads, tuner::Notes* notes, const StopToken& stop) {
  TW_TRY(std::string preferred,
         tuner::predicted_schedule(schedules::problem_of(workload), target, threads, stop));
  return legal_or_default(std::move(preferred), workload, target, notes);
}

Result<std::string> schedule_of(Selection& selection, const Surroundings& here) {
  if (selection.by_hand) return selection.by_hand->text;
  if (selection.record) return selection.record->schedule;
  TW_TRY(Preferred preferred, preferred_schedule(selection.workload, selection.target,
                                                 selection.threads, here.environment.notes));
  selection.takes_default = preferred.is_default;
  return std::move(preferred.schedule);
}

std::string schedule_source(const Selection& selection) {
  if (selection.by_hand) return selection.by_hand->source;
  return selection.record ? selection.record->hash.substr(0, 16)
                          : std::string(source_of_preferred(selection.takes_default));
}

std::string show_source(const Selection& selection) {
  if (selection.by_hand)
    return fmt::format("that of {}, {}", selection.by_hand->source,
                       selection.record ? fmt::format("measured as record {}, {}",
                                                      selection.record->hash.substr(0, 16),
                                                      show_latency(*selection.record))
                                        : "of which no trial is stored");
  if (!selection.record && selection.takes_default)
    return "the default schedule, as the cost model's choice is illegal: no trial of it is stored";
  if (!selection.record)
    return "the cost model's choice, as of `tune --compile-only`: no trial of it is stored";
  const db::Record& record = *selection.record;
  return fmt::format("that of record {}, {}", schedule_source(selection),
                     record.latency_ns > 0 ? show_latency(record) : show_status(record.status));
}

Status check_keeps(const std::string& input, const std::string& output) {
  std::error_code error;
  if (!std::filesystem::equivalent(input, output, error)) return {};
  return fail(ErrorCode::Usage, fmt::format("[output] {} would replace {}, which is read: name "
                                            "another file",
                                            shell_quoted(output), shell_quoted(input)));
}

tl::unexpected<Error> nothing_to_write(std::string_view verb, const std::string& path,
                                       const dsl::Workload& workload, std::string_view flag) {
  return fail(ErrorCode::Unsupported,
              fmt::format("[{}] {} has no elements and needs no kernel, so {} would not be "
                          "written: leave {} out, or choose a shape with elements",
                          verb, workload.text(), shell_quoted(path), flag));
}

std::string cached_artifact(const PlaceFlags& flags, const Surroundings& here,
                            const runtime::KernelInfo& info) {
  return (std::filesystem::path(cache_directory(flags, here)) /
          runtime::artifact_name(info.workload, info.schedule, info.target, info.codegen_abi))
      .string();
}

Status check_cache(const PlaceFlags& flags, const Surroundings& here) {
  if (flags.cache.empty() && !here.places.fallback.empty())
    TW_RETURN_IF_ERROR(
        tuner::make_private_directory(std::filesystem::path(here.places.cache).parent_path()));
  const std::string directory = cache_directory(flags, here);
  TW_RETURN_IF_ERROR(tuner::make_private_directory(directory));
  if (::access(directory.c_str(), W_OK) == 0) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[cache] kernels cannot be kept in {} ({}): name another with --cache",
                          shell_quoted(directory), std::strerror(errno)));
}

Result<std::string> store_in_cache(const PlaceFlags& flags, const Surroundings& here,
                                   const runtime::Artifact& artifact) {
  TW_RETURN_IF_ERROR(check_cache(flags, here));
  std::string path = cached_artifact(flags, here, artifact.info);
  TW_RETURN_IF_ERROR(runtime::write_artifact(path, artifact));
  return path;
}

std::string replay_line(const PlaceFlags& flags, const Surroundings& here,
                        const std::string& hash) {
  std::error_code error;
  std::string path = shown_database(flags, here);
  if (!db::is_server(path)) {
    const auto absolute = std::filesystem::absolute(path, error);
    if (!error) path = absolute.string();
  }
  std::string layers;
  if (!flags.team.empty()) layers += fmt::format(" --team {}", shell_quoted(flags.team));
  if (!flags.team_key.empty())
    layers += fmt::format(" --team-key {}", shell_quoted(flags.team_key));
  if (!flags.shipped.empty()) layers += fmt::format(" --shipped {}", shell_quoted(flags.shipped));
  return fmt::format("{} replay --db {}{} {}", here.invoked_as, shell_quoted(path), layers,
                     hash.substr(0, 16));
}

}  // namespace tw::tools

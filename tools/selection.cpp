// SPDX-License-Identifier: Apache-2.0
#include "tools/selection.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/text.h"
#include "db/answers.h"
#include "schedules/problem.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "schedules/space/default_schedule.h"
#include "tools/flags/command_line.h"
#include "tools/flags/quote.h"
#include "tools/model_files.h"
#include "tools/reports/report.h"
#include "tuner/host_machine.h"
#include "tuner/search/scoring.h"
#include "tuner/search/spill_check.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"
#include "tuner/workers/notes.h"

namespace tw::tools {

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
  if (!is_hex(prefix) || prefix.size() < 4 || prefix.size() > 64)
    return fail(
        ErrorCode::Usage,
        fmt::format("[record] '{}': expected 4 to 64 hex digits of a hash, as `db query` prints "
                    "them",
                    prefix));
  db::Filter filter;
  filter.hash_prefix = prefix;
  std::vector<db::Record> found;
  const auto collect = [&](const db::Record& record) {
    // The same record may be in several layers.
    if (found.empty() || record.hash != found.front().hash) found.push_back(record);
    return found.size() < 2;
  };
  TW_RETURN_IF_ERROR(store.for_each(filter, collect));
  if (found.empty()) db::for_each_below(store, filter, collect);
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

/// Sets `other_device` to the device of the record. For a GPU, the target also gets the machine
/// description of that device, because a kernel is compared with the limits of the GPU on which it
/// was measured.
void take_device_of_record(Selection& selection) {
  if (!selection.record) return;
  selection.other_device = other_device_of(*selection.record, selection.target);
  if (selection.target.is_gpu())
    selection.target = tuner::described_by(selection.target, selection.record->device);
}

/// Returns the fastest valid record of exactly this schedule on the target's device. nullopt if
/// there is none.
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

/// Reads the schedule in the file of --schedule into the selection, and sets the record to the
/// fastest record of that schedule, or to nullopt if there is none.
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

namespace {

/// A flag that applies to kernels, and the name for messages of the property that tuning has chosen
/// for a network in place of the flag.
struct ChosenByTuning {
  std::string_view flag, property;
};
constexpr std::array chosen_by_tuning = {
    ChosenByTuning{"--schedule", "the schedules"},
    ChosenByTuning{"--threads", "the number of threads"}, ChosenByTuning{"--dtype", "the types"},
    ChosenByTuning{"--accuracy", "the accuracy"}, ChosenByTuning{"--target", "the target"}};

/// Fails with Usage if the command line has a flag whose value was chosen when the network was
/// tuned. Values from the environment and the configuration file are ignored, because they are
/// meant for other commands.
Status check_chosen_by_tuning(const std::string& network, NetworkUse use,
                              const Surroundings& here) {
  const std::set<std::string> typed = typed_flags(here.arguments);
  for (const auto& [flag, property] : chosen_by_tuning) {
    if (!typed.contains(std::string(flag))) continue;
    if (use == NetworkUse::Call && flag == "--target") continue;
    return fail(ErrorCode::Usage, fmt::format("[network] {}: {} applies to kernels; `tune --model` "
                                              "has chosen {} of a network: leave the flag out",
                                              shell_quoted(network), flag, property));
  }
  return {};
}

}  // namespace

Result<bool> names_network(const SelectionFlags& flags, NetworkUse use, const Surroundings& here) {
  if (!is_file_operand(flags.hash)) return false;
  TW_RETURN_IF_ERROR(check_chosen_by_tuning(flags.hash, use, here));
  if (flags.workload.is_given())
    return fail(ErrorCode::Usage,
                fmt::format("[network] the file {} and a workload, or layouts, contradict each "
                            "other: give one",
                            shell_quoted(flags.hash)));
  return true;
}

Result<Selection> select(const SelectionFlags& flags, const Surroundings& here) {
  note_if_missing(flags.place, here);
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
  TW_RETURN_IF_ERROR(
      tuner::check_for_gpu(selection.target, flags.target.threads, selection.workload));
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

namespace {

/// Checks that the schedule can be parsed and lowered within the limits of the target.
Status check_legal(const std::string& schedule, const dsl::Workload& workload,
                   const Target& target) {
  TW_TRY(const schedules::Schedule parsed, schedules::parse_schedule(workload.compute, schedule));
  TW_RETURN_IF_ERROR(parsed.program(schedules::limits_of(target)));
  return {};
}

}  // namespace

Result<Preferred> legal_or_default(std::string schedule, const dsl::Workload& workload,
                                   const Target& target, tuner::Notes* notes) {
  const Status legal = check_legal(schedule, workload, target);
  if (legal) return Preferred{std::move(schedule)};
  TW_TRY(std::string other, default_schedule(workload, target));
  TW_RETURN_IF_ERROR(check_legal(other, workload, target));
  tuner::note(notes, tuner::NoteKind::PredictionIllegal, legal.error().message);
  return Preferred{std::move(other), true};
}

Result<Preferred> preferred_schedule(const dsl::Workload& workload, const Target& target,
                                     int threads, const tuner::Environment& environment,
                                     const StopToken& stop) {
  TW_TRY(std::string preferred,
         tuner::predicted_schedule(
             schedules::problem_of(workload), target, threads, stop, tuner::effort_of_kernel,
             tuner::accepts_without_spills(workload, target, environment.cuda_directories)));
  return legal_or_default(std::move(preferred), workload, target, environment.notes);
}

Result<std::string> schedule_of(Selection& selection, const Surroundings& here) {
  if (selection.by_hand) return selection.by_hand->text;
  if (selection.record) return selection.record->schedule;
  TW_TRY(Preferred preferred, preferred_schedule(selection.workload, selection.target,
                                                 selection.threads, here.environment));
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

}  // namespace tw::tools

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Selects the kernel that a verb works on: a record named by the beginning of its hash, the best
// known record of a workload for a target and number of threads, or a schedule in a file. Not
// thread-safe.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "db/record.h"
#include "db/store.h"
#include "db/trust.h"
#include "dsl/workload.h"
#include "tools/flags/workload_flags.h"
#include "tools/hand_schedule.h"
#include "tools/places.h"
#include "tools/surroundings.h"
#include "tools/verb.h"
#include "tuner/tune.h"

namespace tw::tools {

struct SelectionFlags {
  std::string hash;      ///< the operand: the beginning of a record's hash
  std::string schedule;  ///< path of a schedule that a person wrote
  /// True: a schedule that does not fit the workload is adapted to it (adapt_hand_schedule()).
  /// False: such a schedule is an error.
  bool adapts_schedule = false;
  WorkloadFlags workload;
  TargetFlags target;
  PlaceFlags place;
};
Flag hash_operand(SelectionFlags& flags);
std::vector<Flag> flags_of(SelectionFlags& flags);

/// The device that a record was measured on, if it is another device than the one that runs kernels
/// here (another model, or other cores or caches).
struct OtherDevice {
  /// The device's text in the record; empty: the record was measured on the device that runs
  /// kernels here.
  std::string name;
  db::Likeness likeness = db::Likeness::Exact;

  bool empty() const { return name.empty(); }
  auto operator<=>(const OtherDevice&) const = default;
};

struct Selection {
  dsl::Workload workload;
  Target target;  ///< has the machine description that `tune` with this database would use
  bool runs_here = true;
  std::string missing;  ///< tuner::missing_text() if `runs_here` is false
  int device = 0;       ///< index of a GPU among those of its driver
  int threads = 1;
  std::optional<HandSchedule> by_hand;  ///< the schedule of --schedule
  /// The record of the kernel. nullopt if the database and its layers have no usable record of the
  /// workload or, with --schedule, if no valid trial of that schedule on this device is stored.
  std::optional<db::Record> record;
  OtherDevice other_device = {};  ///< the record's device, if it is another one
  std::string layer = {};         ///< the layer that has the record; empty: the database itself
  /// True if schedule_of() has returned the default schedule, because the schedule that the cost
  /// model prefers is illegal.
  bool takes_default = false;
};
/// Selects the kernel that the flags name. Fails with NoCandidate if no record's hash begins with
/// the operand, and with Usage if several do or if the flags contradict each other. With
/// --schedule, it also fails with the errors of read_hand_schedule().
Result<Selection> select(const SelectionFlags& flags, const Surroundings& here);

/// The use that a verb makes of a network's file. Call: `run` calls the network, and its --target
/// names the device. Print: `show` and `explain` print the contents of the file.
enum class NetworkUse { Call, Print };
/// True if the operand names the file of a network. Fails with Usage if the command line also names
/// a workload, or has a flag such as --threads, whose value was chosen when the network was tuned.
Result<bool> names_network(const SelectionFlags& flags, NetworkUse use, const Surroundings& here);

/// Returns the device on which the record was measured. The result is empty if the record is for
/// `target` and its device has the same model, cores and caches as the device of `target`.
/// Requires: `target` comes from tuner::chosen_target().
OtherDevice other_device_of(const db::Record& record, const Target& target);
/// Returns a text for people about another device, such as "AMD EPYC 9R45; 2 cores; ..., not on
/// this one (same class)".
std::string show_other_device(const OtherDevice& device);

/// Returns lines to print below a table that marks results of other devices with "elsewhere". There
/// is one line for each of these devices.
std::string elsewhere_lines(const std::set<OtherDevice>& devices);

/// Finds the record whose hash begins with `prefix`, in the database or else in the layers below.
/// Fails with NoCandidate if there is no such record, and with Usage if there are several or if
/// `prefix` is not 4 to 64 hex digits.
Result<db::Record> find_record(db::Store& store, const std::string& prefix);

/// Returns the schedule of the selection: the schedule by hand, or else the record's schedule, or
/// else the result of preferred_schedule(). If preferred_schedule() returns the default schedule,
/// sets Selection::takes_default to true. Fails with the errors of preferred_schedule().
Result<std::string> schedule_of(Selection& selection, const Surroundings& here);
/// Returns the source of the schedule that schedule_of() returned: a file's name, the first 16
/// digits of the record's hash, "cost model" or "default schedule".
std::string schedule_source(const Selection& selection);
/// Returns a clause for people that names the source of the schedule, such as "that of record
/// 0123456789abcdef, 235.1 µs".
std::string show_source(const Selection& selection);
/// A schedule for a workload without measured kernels.
struct Preferred {
  std::string schedule;
  /// True if the cost model's choice is illegal; `schedule` is then the default schedule.
  bool is_default = false;
};
/// Returns the text for the source of a Preferred: "default schedule" if `is_default`, else "cost
/// model".
std::string_view source_of_preferred(bool is_default);
/// Returns the schedule that the cost model prefers, or the default schedule if the preferred
/// schedule is illegal (legal_or_default()). For CUDA, choices that spill registers are passed over
/// (tuner::accepts_without_spills()). Nothing is measured. Fails with the errors of
/// tuner::predicted_schedule() and legal_or_default().
Result<Preferred> preferred_schedule(const dsl::Workload& workload, const Target& target,
                                     int threads, const tuner::Environment& environment,
                                     const StopToken& stop = {});
/// Returns the given schedule if it is legal. Otherwise returns the default schedule and adds a
/// note (PredictionIllegal) to `notes`. If the default schedule is illegal too, fails with the
/// error of the default schedule and adds no note. Example: an expression that reads outside of a
/// tensor has no legal schedule.
Result<Preferred> legal_or_default(std::string schedule, const dsl::Workload& workload,
                                   const Target& target, tuner::Notes* notes);
/// Returns the default schedule of the workload's search space. No search is made. Fails with the
/// errors of schedules::Space::derive().
Result<std::string> default_schedule(const dsl::Workload& workload, const Target& target);

}  // namespace tw::tools

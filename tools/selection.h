// SPDX-License-Identifier: Apache-2.0
#pragma once
// Selects the kernel that a verb works on: a record by the beginning of its hash, or the best known
// record of a workload, a target and a number of threads. Not thread-safe.

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

/// The device that a record was measured on, if it differs from this machine's.
struct OtherDevice {
  /// The device's name in the record; empty: the record is of this machine's device.
  std::string name;
  db::Likeness likeness = db::Likeness::Exact;

  bool empty() const { return name.empty(); }
  auto operator<=>(const OtherDevice&) const = default;
};

struct Selection {
  dsl::Workload workload;
  Target target;  ///< tuned for the machine that `tune` with this database would use
  bool runs_here = true;
  std::string missing;  ///< tuner::missing_text() if `runs_here` is false
  int device = 0;       ///< index of a GPU among those of its driver
  int threads = 1;
  std::optional<HandSchedule> by_hand;  ///< the schedule of --schedule
  /// The record of the kernel. nullopt if the database has no trial of the workload or, with
  /// --schedule, no trial of that schedule.
  std::optional<db::Record> record;
  OtherDevice other_device = {};  ///< the record's device, if it is another one
  std::string layer = {};         ///< the layer that has the record; empty: the database itself
  /// Set by schedule_of() when it returns the default schedule, because the schedule that the cost
  /// model prefers is illegal.
  bool takes_default = false;
};
/// Selects the kernel of the flags. NoCandidate if no record's hash begins with the operand; Usage
/// if several do. For --schedule, the errors of read_hand_schedule().
Result<Selection> select(const SelectionFlags& flags, const Surroundings& here);

/// The verbs that take the file of a network: `run` calls the network, and its --target names the
/// device; the others print the contents of the file.
enum class NetworkUse { Call, Print };
/// True if the operand names the file of a network. Usage if the command line also has a workload,
/// or a flag whose value was chosen when the network was tuned, such as --threads.
Result<bool> names_network(const SelectionFlags& flags, NetworkUse use, const Surroundings& here);

/// The device on which the record was measured; empty if it is the device of `target`. Requires:
/// `target` comes from tuner::chosen_target().
OtherDevice other_device_of(const db::Record& record, const Target& target);
/// A text for people about another device, such as "AMD EPYC 9R45; 2 cores; ..., not on this one
/// (same class)".
std::string show_other_device(const OtherDevice& device);

/// Explains the mark "elsewhere", which a table puts on results of other devices: one line for each
/// of these devices, to be printed below the table.
std::string elsewhere_lines(const std::set<OtherDevice>& devices);

/// Finds the record whose hash begins with `prefix`, in the database or else in the layers below.
/// NoCandidate if there is no such record. Usage if there are several, or if `prefix` is not 4 to
/// 64 hex digits.
Result<db::Record> find_record(db::Store& store, const std::string& prefix);

/// The schedule of the selection: the schedule by hand, or else the record's, or else
/// preferred_schedule(). If preferred_schedule() returns the default schedule,
/// Selection::takes_default is set to true. Errors as preferred_schedule().
Result<std::string> schedule_of(Selection& selection, const Surroundings& here);
/// The source of the schedule that schedule_of() returned: a file's name, the beginning of the
/// record's hash, "cost model" or "default schedule".
std::string schedule_source(const Selection& selection);
/// A clause for people that names the source of the schedule, such as "that of record
/// 0123456789abcdef, 235.1 µs".
std::string show_source(const Selection& selection);
/// A schedule for a workload without measured kernels.
struct Preferred {
  std::string schedule;
  /// True if the cost model's choice is illegal; `schedule` is then the default schedule.
  bool is_default = false;
};
/// The text for the source of a Preferred: "default schedule" if `is_default`, else "cost model".
std::string_view source_of_preferred(bool is_default);
/// The schedule that the cost model prefers, or the default schedule if the preferred one is
/// illegal. Nothing is measured. Errors as predicted_schedule().
Result<Preferred> preferred_schedule(const dsl::Workload& workload, const Target& target,
                                     int threads, tuner::Notes* notes, const StopToken& stop = {});
/// Returns the given schedule if it is legal. Otherwise it returns the default schedule and adds a
/// note (PredictionIllegal) to `notes`. If the default schedule is illegal too, as for an
/// expression that reads outside of a tensor, it returns the error of the default schedule and adds
/// no note.
Result<Preferred> legal_or_default(std::string schedule, const dsl::Workload& workload,
                                   const Target& target, tuner::Notes* notes);
/// The default schedule of the workload's search space; no search is made. Errors as
/// Space::derive().
Result<std::string> default_schedule(const dsl::Workload& workload, const Target& target);

}  // namespace tw::tools

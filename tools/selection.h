// SPDX-License-Identifier: Apache-2.0
#pragma once
// Selection of the kernel that a verb works on: a record by the beginning of its hash, or the best
// record known for a workload, a target and a number of threads. Not thread-safe.

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
  std::string hash;      ///< an operand
  std::string schedule;  ///< path of a schedule that a person wrote
  /// A schedule that does not fit the workload is adapted to it, instead of being an error.
  bool adapts_schedule = false;
  WorkloadFlags workload;
  TargetFlags target;
  PlaceFlags place;
};
Flag hash_operand(SelectionFlags& flags);
std::vector<Flag> flags_of(SelectionFlags& flags);

/// The device that a record was measured on, if it differs from this machine's.
struct OtherDevice {
  std::string name;  ///< as in the record; empty: it is this machine's
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
  std::optional<HandSchedule> by_hand;  ///< of --schedule
  /// None: nothing is known about the workload, or about the schedule by hand.
  std::optional<db::Record> record;
  OtherDevice other_device = {};  ///< of the record
  std::string layer = {};         ///< layer that has the record; empty: the database itself
  /// True once schedule_of() gave the default schedule, as the one that the cost model prefers is
  /// illegal.
  bool takes_default = false;
};
/// Selects the kernel of the flags. NoCandidate if no record has the hash; Usage if several have
/// it; errors of --schedule as read_hand_schedule()'s.
Result<Selection> select(const SelectionFlags& flags, const Surroundings& here);

/// True if the operand names the file of a network. Usage if --schedule or a workload is given with
/// it.
Result<bool> names_network(const SelectionFlags& flags);

/// The device of the record where it is another than the target's at hand; else empty. The target
/// is as tuner::chosen_target() makes it.
OtherDevice other_device_of(const db::Record& record, const Target& target);
/// The same for people: "AMD EPYC 9R45; 2 cores; ..., not on this one (same class)".
std::string show_other_device(const OtherDevice& device);

/// A line for each device, below a table in which "elsewhere" marks what was measured on one.
std::string elsewhere_lines(const std::set<OtherDevice>& devices);

/// The record whose hash begins with `prefix`.
Result<db::Record> find_record(db::Store& store, const std::string& prefix);

/// The schedule by hand, else the selected record's, else the one that the cost model prefers, or
/// the default one in its place (it sets Selection::takes_default). Errors as preferred_schedule().
Result<std::string> schedule_of(Selection& selection, const Surroundings& here);
/// The source of that schedule: a file's name, the beginning of the record's hash, "cost model" or
/// "default schedule".
std::string schedule_source(const Selection& selection);
/// The same as a clause for people.
std::string show_source(const Selection& selection);
/// A schedule for a workload of which nothing was measured.
struct Preferred {
  std::string schedule;
  bool is_default = false;  ///< the preferred schedule is illegal; this is the default one
};
/// The source of an unmeasured schedule: "cost model" or "default schedule".
std::string_view source_of_preferred(bool is_default);
/// The schedule that the cost model prefers, as `tune --compile-only` compiles it; nothing is
/// measured. Errors as predicted_schedule().
Result<Preferred> preferred_schedule(const dsl::Workload& workload, const Target& target,
                                     int threads, tuner::Notes* notes, const StopToken& stop = {});
/// The schedule if it is legal, else the default one and a note (PredictionIllegal).
Result<Preferred> legal_or_default(std::string schedule, const dsl::Workload& workload,
                                   const Target& target, tuner::Notes* notes);
/// The default schedule of the workload's space, without a search. Errors as Space::derive().
Result<std::string> default_schedule(const dsl::Workload& workload, const Target& target);

}  // namespace tw::tools

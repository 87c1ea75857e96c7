// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shared parts of the verb `tune`: its flags, the workloads that they select, and the output of
// results. Not thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/workload.h"
#include "tools/flags/farm_flags.h"
#include "tools/flags/workload_flags.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tools/reports/roofline.h"
#include "tools/selection.h"
#include "tools/surroundings.h"
#include "tuner/targets.h"
#include "tuner/tune.h"

namespace tw::tools {

/// The work of the verb.
enum class TuneMode {
  Search,       ///< searches and measures
  DryRun,       ///< prints the space, or the plan, and what is known
  CompileOnly,  ///< compiles the best schedule that is known, or the cost model's choice
  Refresh,      ///< of --model: plans again from what is known by now
  Demand,       ///< tunes what others want
};

struct TuneFlags {
  WorkloadFlags workload;
  TargetFlags target;
  PlaceFlags place;
  FarmFlags farm;
  std::string suite, output;
  std::string report;                   ///< the page about the run; empty: none
  std::string python = "python3";       ///< that makes the page
  std::string schedule;                 ///< path of the schedule that is measured first
  std::string model;                    ///< an ONNX file, or the name of a standing model
  std::vector<std::string> dimensions;  ///< NAME=VALUE,... of the model's symbolic dimensions
  std::vector<std::string> constants;   ///< NAME=VALUE,... of the model's inputs
  std::vector<std::string> left_out;    ///< passes over the model's graph
  std::optional<DType> precision;       ///< of the factors of the model's products; none: theirs
  double budget_s = 60, timeout_s = 10;
  int64_t trials = 0, seed = 1;
  tuner::Effort effort = tuner::Effort::Normal;
  std::string search = "evolution";  ///< a name of tuner::searches()
  Format format = Format::Table;
  TuneMode mode = TuneMode::Search;
  bool resume = false;  ///< insists that the database has trials

  bool measures() const { return effort != tuner::Effort::None; }
};

struct Job {
  std::string name;  ///< in the suite; empty: the only one
  dsl::Workload workload;
  double weight = 1;  ///< number of occurrences in the network
  /// The schedule that is measured first, as tuner::TaskSpec has it.
  std::string schedule = {};
};

/// Result of a job for which a kernel is known.
struct Outcome {
  const Job* job = nullptr;
  tuner::Tuned tuned;
  std::string artifact;         ///< path of the compiled kernel; empty: see `unkept`
  std::optional<Error> unkept;  ///< reason why there is no artifact
  Roofline roofline;            ///< roofline of the best record
  OtherDevice other_device;     ///< device of the best record, if it is not this machine's
  std::string layer;            ///< layer that has the best record; empty: the database itself
};

tuner::TuneOptions options_of(const TuneFlags& flags);

/// The command line of this run. Run again, it continues from the stored trials.
std::string resume_line(const Surroundings& here);
/// Prints a note with the command that continues the run, and returns the exit code.
int interrupted(const Surroundings& here);

/// Writes a compiled kernel to --output, else where a session of the runtime looks for it.
Result<std::string> keep_artifact(const TuneFlags& flags, const Surroundings& here,
                                  const runtime::Artifact& artifact);

/// Jobs that gave no kernel.
struct WithoutResult {
  std::vector<std::string> empty;  ///< texts of workloads without elements
  struct Failed {
    std::string name, workload;  ///< as Job's, and its text
    Error error;
  };
  std::vector<Failed> failed;
};

/// Prints the results to standard output in the format of the flags.
Status print_outcomes(const TuneFlags& flags, const Surroundings& here,
                      const std::vector<Outcome>& outcomes, const WithoutResult& others);

/// Environment, saying what is missing, where --report asks for a page that cannot be made.
Status check_page(const TuneFlags& flags);
/// The page of --report, where it is asked for: about all that the database knows of the jobs'
/// workloads, and about a network and the trials of this run.
Status write_page(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs);
Status write_network_page(const TuneFlags& flags, const Surroundings& here,
                          const std::string& model);
/// Prints a note that an interrupted run wrote no page.
void note_missing_page(const TuneFlags& flags);

/// --demand: tunes the kernels that are wanted on devices like the target's (tuner/demand.h).
Result<int> tune_demanded(const TuneFlags& flags, const Surroundings& here,
                          const tuner::ChosenTarget& target,
                          const std::optional<tuner::Farm>& farm);

/// --dry-run: prints the space, the default schedule and what is known.
Result<int> dry_run(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs,
                    const Target& target);

/// --compile-only: the best schedule that is known, else the default one, as an artifact.
Result<int> compile_only(const TuneFlags& flags, const Surroundings& here,
                         const std::vector<Job>& jobs, const tuner::ChosenTarget& target);

/// --model: tunes a network and writes it as a file that the runtime loads; with --dry-run prints
/// its plan only. On a farm kernels are measured by its members, and whole networks are not.
/// Requires: effort none with --dry-run and --compile-only.
Result<int> tune_model(const TuneFlags& flags, const Surroundings& here,
                       const tuner::ChosenTarget& target, const std::optional<tuner::Farm>& farm);

}  // namespace tw::tools

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

/// The kinds of work that `tune` can do.
enum class TuneMode {
  Search,       ///< searches and measures
  DryRun,       ///< prints the search space or the plan, and known kernels
  CompileOnly,  ///< compiles the best known schedule, or the cost model's choice
  Refresh,      ///< with --model: plans again from the records of the database
  Demand,       ///< tunes the kernels of other networks and operators (demand)
};

struct TuneFlags {
  WorkloadFlags workload;
  TargetFlags target;
  PlaceFlags place;
  FarmFlags farm;
  std::string suite, output;
  std::string report;                   ///< the page about the run; empty: none
  std::string python = "python3";       ///< the interpreter that makes the page
  std::string schedule;                 ///< path of the schedule that is measured first
  std::string model;                    ///< an ONNX file, or the name of a standing model
  std::vector<std::string> dimensions;  ///< the model's symbolic dimensions: NAME=VALUE,...
  std::vector<std::string> constants;   ///< inputs that become constants: NAME=VALUE,...
  std::vector<std::string> left_out;  ///< names of passes that are not applied to the model's graph
  /// --precision: element type to which the matrix products and convolutions of the model convert
  /// their factors. nullopt: the factors keep the types of the model.
  std::optional<DType> precision;
  double budget_s = 60, timeout_s = 10;
  int64_t trials = 0, seed = 1;
  tuner::Effort effort = tuner::Effort::Normal;
  std::string search = "evolution";  ///< a name of tuner::searches()
  Format format = Format::Table;
  TuneMode mode = TuneMode::Search;
  bool resume = false;  ///< true: fail if the database has no trials of the workload

  bool measures() const { return effort != tuner::Effort::None; }
};

struct Job {
  std::string name;  ///< name in the suite; empty: the job is not of a suite
  dsl::Workload workload;
  double weight = 1;  ///< number of occurrences in the network
  /// The schedule that is measured first, as for tuner::TaskSpec; empty: none.
  std::string schedule = {};
};

/// The result of a job (a workload of the run) for which a kernel is known, from this run or from
/// an earlier one.
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

/// The command line that repeats this run. The new run will continue from the stored trials.
std::string resume_line(const Surroundings& here);
/// Prints a note with the command that continues the run, and returns the exit code.
int interrupted(const Surroundings& here);

/// Writes a compiled kernel to the file of --output, or else to the path at which a session of the
/// runtime looks for it. Returns the path.
Result<std::string> keep_artifact(const TuneFlags& flags, const Surroundings& here,
                                  const runtime::Artifact& artifact);

/// The jobs for which there is no kernel.
struct WithoutResult {
  std::vector<std::string> empty;  ///< texts of workloads without elements
  struct Failed {
    std::string name, workload;  ///< name of the job, text of its workload
    Error error;
  };
  std::vector<Failed> failed;
};

/// Prints the results to standard output in the format of the flags.
Status print_outcomes(const TuneFlags& flags, const Surroundings& here,
                      const std::vector<Outcome>& outcomes, const WithoutResult& others);

/// Checks that the page of --report can be made, if it is asked for. Environment, naming what is
/// missing, if it cannot.
Status check_page(const TuneFlags& flags);
/// Both write the page of --report, if it is asked for. The page of write_page() shows all records
/// that the database has of the jobs' workloads. The page of write_network_page() shows a network
/// and the trials of this run.
Status write_page(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs);
Status write_network_page(const TuneFlags& flags, const Surroundings& here,
                          const std::string& model);
/// Prints a note that an interrupted run wrote no page.
void note_missing_page(const TuneFlags& flags);

/// --demand: tunes the kernels that networks and operators use on devices like the target's
/// (tuner/demand.h).
Result<int> tune_demanded(const TuneFlags& flags, const Surroundings& here,
                          const tuner::ChosenTarget& target,
                          const std::optional<tuner::Farm>& farm);

/// --dry-run: prints the search space of each job, its default schedule and its known records.
Result<int> dry_run(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs,
                    const Target& target);

/// --compile-only: compiles the best known schedule of each job, or else the schedule that a search
/// would measure first (tuner::first_pick()), to an artifact.
Result<int> compile_only(const TuneFlags& flags, const Surroundings& here,
                         const std::vector<Job>& jobs, const tuner::ChosenTarget& target);

/// --model: tunes a network and writes it to a file that the runtime loads; with --dry-run it only
/// prints the plan. On a farm, members measure kernels, but whole networks are not measured.
/// Requires: `flags.effort` is None if the mode is DryRun or CompileOnly.
Result<int> tune_model(const TuneFlags& flags, const Surroundings& here,
                       const tuner::ChosenTarget& target, const std::optional<tuner::Farm>& farm);

}  // namespace tw::tools

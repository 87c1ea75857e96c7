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
  DryRun,       ///< prints the search space (of a network, the plan) and the known kernels
  CompileOnly,  ///< compiles the best known schedule, or the cost model's choice
  /// With --model: plans again from the records of the database, without measuring kernels.
  Refresh,
  Demand,  ///< tunes the kernels that stored demands list (tuner/demand.h)
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
  /// --precision: the type to which the inputs of the model's f32 matrix products and convolutions
  /// are rounded, if the target gains by it. nullopt: these inputs stay f32.
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
  /// The schedule that is measured first, as tw1 text (tuner::TaskSpec::schedule); empty: none.
  std::string schedule = {};
};

/// The result of a job (a workload of the run) whose kernel is known from this run or from an
/// earlier run.
struct Outcome {
  const Job* job = nullptr;
  tuner::Tuned tuned;
  std::string artifact;         ///< path of the compiled kernel; empty: see `unkept`
  std::optional<Error> unkept;  ///< reason why there is no artifact
  Roofline roofline;            ///< roofline of the best record
  /// Device of the best record, if it is another device than this machine's.
  OtherDevice other_device;
  std::string layer;  ///< layer that has the best record; empty: the database itself
};

tuner::TuneOptions options_of(const TuneFlags& flags);

/// Returns the command line that repeats this run. The repeated run continues from the stored
/// trials.
std::string resume_line(const Surroundings& here);
/// Prints a note with the command that continues the run. Returns the exit code of an interrupted
/// run.
int interrupted(const Surroundings& here);

/// Writes a compiled kernel to the file of --output. Without --output, writes it to the path in the
/// cache at which a Session of the runtime looks for the kernel. Returns the path.
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

/// Checks that the page of --report can be made, if the flag is given. Fails with Environment and
/// names what is missing, such as a package of Python.
Status check_page(const TuneFlags& flags);
/// Writes the page of --report, if the flag is given. The page shows all records that the database
/// has of the jobs' workloads.
Status write_page(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs);
/// Writes the page of --report about a network, if the flag is given. The page shows the network in
/// the file `model` and the trials of this run.
Status write_network_page(const TuneFlags& flags, const Surroundings& here,
                          const std::string& model);
/// Prints a note that the interrupted run wrote no page, if --report is given.
void note_missing_page(const TuneFlags& flags);

/// Runs `tune --demand`: tunes the kernels that networks and operators use on devices like the
/// target's (tuner/demand.h).
Result<int> tune_demanded(const TuneFlags& flags, const Surroundings& here,
                          const tuner::ChosenTarget& target,
                          const std::optional<tuner::Farm>& farm);

/// Runs `tune --dry-run`: prints the size of each job's search space, its default schedule, the
/// number of its known trials and its best record.
Result<int> dry_run(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs,
                    const Target& target);

/// Runs `tune --compile-only`: compiles the best known schedule of each job to an artifact. For a
/// job without a known schedule, compiles the schedule that a search would measure first
/// (tuner::first_pick()).
Result<int> compile_only(const TuneFlags& flags, const Surroundings& here,
                         const std::vector<Job>& jobs, const tuner::ChosenTarget& target);

/// Runs `tune --model`: tunes a network and writes it to a file that the runtime loads. With
/// --dry-run it only prints the plan. With a farm, its members measure kernels, but whole networks
/// are not measured. Requires: `flags.effort` is None if the mode is DryRun or CompileOnly.
Result<int> tune_model(const TuneFlags& flags, const Surroundings& here,
                       const tuner::ChosenTarget& target, const std::optional<tuner::Farm>& farm);

}  // namespace tw::tools

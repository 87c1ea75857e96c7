// SPDX-License-Identifier: Apache-2.0
#pragma once
// The modes of tilewright-bench. The program compares the kernels of workloads, unless the command
// line has a switch with the name of another mode, such as --twins. A new mode needs a function,
// and a row in modes() of main.cpp. A new flag needs a member of Flags, and a row in verb_of() of
// main.cpp. Not thread-safe.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "bench/suite.h"
#include "runtime/device.h"
#include "tools/places.h"
#include "tools/surroundings.h"
#include "tuner/search/replay.h"
#include "tuner/tune.h"

namespace tw::bench {

struct Flags {
  std::string suite, only, output;
  /// Number of random workloads of each kind, which replace a suite; 0: a suite is used.
  int64_t random = 0;
  std::string kinds;   ///< kinds of the random workloads of --random and --corpus
  bool trace = false;  ///< true if the file of --output gets all details, not only the summary
  bool expressions = false;
  std::vector<std::string> files;
  std::string peer, threads = "1", tune = "missing";
  tools::Format format = tools::Format::Table;
  std::string state = "hot";  ///< a CacheState
  std::string target = "host";
  std::string batch = "1", dtype = "f32";  ///< batch and type of a suite's workloads
  std::vector<std::string> layouts;        ///< layouts of a suite's workloads, such as "in=NHWC"
  bool graphs = false;
  std::string schedule;  ///< file with the schedule of the only row
  int64_t rounds = 10, seed = 1;
  double budget_s = 60;
  tools::PlaceFlags place;
  std::string workloads;                ///< the folder of the tables
  int64_t points = 2000;                ///< for --scoring
  int64_t samples = 20'000;             ///< for --optimum
  int64_t comparisons = 200;            ///< for --twins
  int64_t records = 1'000'000;          ///< for --database
  std::string model;                    ///< for --ablation: networks, separated by commas
  std::vector<std::string> dimensions;  ///< dimensions of these networks: NAME=VALUE
  // For --search. `strategies`: names, separated by commas. `known`: a database with records of
  // other workloads. `plot`: the file of the drawing. For --search and --corpus, `record`: the file
  // of recordings.
  std::string strategies, known, plot, record;
  std::string pretrained;  ///< of --pretrain: the file of the model
  int64_t trials = 0;
  bool replay = false;
};

/// Arguments of every mode.
struct Call {
  const Flags& flags;
  const tools::Surroundings& here;
  Target target;
  std::shared_ptr<runtime::Device> gpu;  ///< set for a GPU target if the mode needs the device
  /// Name of the suite that the items are from; empty: the items are expressions.
  std::string suite;
  std::vector<Item> items;
  std::vector<int> threads;  ///< numbers of threads, in the order asked for
  tuner::Environment environment;

  /// Returns options for tuning with the budget and seed of the flags and this number of threads.
  tuner::TuneOptions tuning(int thread_count) const;
  bool interrupted() const;
};

struct Mode {
  std::string name;                   ///< name of its switch, without "--"; empty: no switch
  std::string help;                   ///< help text of the switch
  std::vector<std::string> excludes;  ///< flags that this mode does not accept
  std::string suite, only;            ///< defaults if the command line names no workloads
  /// Returns the exit code.
  Result<int> (*run)(const Call& call) = nullptr;
  /// True if the mode measures the networks of --model instead of workloads.
  bool takes_networks = false;
  bool takes_workloads = true;
  /// False if the mode builds and runs no kernel, so that a GPU target needs no GPU.
  bool needs_device = true;
};

/// Reads the recordings in the files at these paths. Fails with Usage if a file cannot be read, and
/// with Invalid if its content is not a recording.
Result<std::vector<tuner::Recording>> recordings_in(const std::vector<std::string>& paths);

/// The date as YYYY-MM-DD, UTC.
std::string date_of(int64_t now_ms);

/// Prints the results of a mode to standard output, as `table` or as JSON. If --output is given,
/// then also writes `document` to that file: without details (summary.h), or with all details if
/// --trace is given. The file is written even if the results could not be printed. The members
/// schema_version, date, program_version and machine are added to the document if it lacks them.
Status publish(const Call& call, nlohmann::json document, const std::string& table);

}  // namespace tw::bench
